#include <cstring>
#include <sys/mman.h>

#include "tests/xprtrdma/client_fixture.hpp"

// Memory of the caller's own: Xprt::register_memory.
namespace nfsrdma::test {
namespace {

class Registered : public ClientFixture {
  protected:
    Registered() : memory_(300'000, std::byte{0x11}) {}
    void start_registered(const RawOptions& raw = {}) {
        start_connected(raw);
        ASSERT_TRUE(transport_->register_memory(memory_));
    }
    // Until more than one credit is granted.
    void warm() {
        answer_inline();
        const Calls first = send_many(1, 1000);
        ASSERT_TRUE(run_until([&] { return all_done(first); }));
        peer().script = nullptr;
        peer().inbox.clear();
    }
    // A place without any alignment.
    std::span<std::byte> room(std::size_t bytes = 100'001) {
        return std::span(memory_).subspan(1003, bytes);
    }
    bool untouched(std::span<const std::byte> memory) const {
        return std::all_of(memory.begin(), memory.end(),
                           [](std::byte b) { return b == std::byte{0x11}; });
    }
    struct Waiter final : sunrpc::SlotWaiter {
        Waiter() {
            wake = [](sunrpc::SlotWaiter& self) noexcept { ++static_cast<Waiter&>(self).woken; };
        }
        int woken = 0;
    };
    Bytes memory_;
};

TEST_F(Registered, ResultIsPlacedThereByOneKeyAndNothingElseIsTouched) {
    start_registered();
    const Bytes data = pattern(100'001, 3);
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        const rpcrdma::Segment segment = seen.segment_of(seen.header.write);
        EXPECT_EQ(segment.length, 100'001u);
        conn.write(segment, data);
        conn.send_with_inv(msg_reply(seen, 100'001), segment.handle);
    };
    auto call = send_read(9, room());
    ASSERT_TRUE(run_until([&] { return call->done(); }));
    ASSERT_TRUE(call->ok());
    EXPECT_EQ(call->placed.data(), room().data());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), room().begin()));
    EXPECT_TRUE(untouched(std::span(memory_).first(1003)));
    EXPECT_TRUE(untouched(std::span(memory_).subspan(1003 + 100'001)));
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
    EXPECT_EQ(transport_->counters().payload_copied_bytes, 0u);
    call->put();
    EXPECT_TRUE(transport_->deregister_memory(memory_));
}

// Exposure never exceeds the call's bytes: one more, and the device refuses it.
TEST_F(Registered, PeerReachesNoByteBeyondTheCall) {
    start_registered();
    auto call = send_read(9, room(4096));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    const SeenCall seen(peer().inbox[0]);
    rpcrdma::Segment segment = seen.segment_of(seen.header.write);
    ++segment.length;
    bool refused = false;
    peer().write(segment, pattern(4097, 1), [&](verbs::WcStatus status, const Bytes&) {
        refused = status == verbs::WcStatus::remote_access;
    });
    ASSERT_TRUE(run_until([&] { return call->done() && refused; }));
    EXPECT_TRUE(untouched(std::span(memory_).subspan(1003 + 4096)));
}

TEST_F(Registered, PayloadIsReadFromThereAndSmallOnesGoInline) {
    start_registered();
    const std::span<std::byte> place = room(70'001);
    const Bytes data = pattern(70'001, 4);
    std::copy(data.begin(), data.end(), place.begin());
    Bytes pulled, body;
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        const std::uint32_t xid = seen.header.xid;
        body = seen.body;
        if (seen.header.read.empty()) return conn.send(inline_reply(xid));
        const rpcrdma::Segment segment = seen.segment_of(seen.header.read);
        conn.read(segment, [&, xid, segment](verbs::WcStatus, Bytes bytes) {
            pulled = std::move(bytes);
            conn.send_with_inv(inline_reply(xid), segment.handle);
        });
    };
    for (const std::size_t size : {std::size_t{70'001}, std::size_t{101}}) {
        TestCall call(*transport_);
        ASSERT_TRUE(call.prepare(static_cast<std::uint32_t>(size), 100));
        call.rqst->call.payload = place.first(size);
        ASSERT_TRUE(call.send());
        ASSERT_TRUE(run_until([&] { return call.done(); }));
        EXPECT_TRUE(call.ok());
    }
    EXPECT_EQ(pulled, data);
    ASSERT_EQ(body.size(), 100u + 104u);
    EXPECT_TRUE(std::equal(data.begin(), data.begin() + 101, body.begin() + 100));
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
    EXPECT_TRUE(transport_->deregister_memory(memory_));
}

TEST_F(Registered, WhatIsNotRegisteredIsRefused) {
    start_registered();
    Bytes other(4096);
    TestCall call(*transport_);
    ASSERT_TRUE(call.prepare(1, 100));
    call.rqst->result_room = other;
    EXPECT_EQ(call.send().error().code, Errc::invalid_argument);
    call.rqst->result_room = {room().data(), memory_.size()};  // beyond its end
    EXPECT_EQ(call.send().error().code, Errc::invalid_argument);
    EXPECT_EQ(transport_->register_memory({}).error().code, Errc::invalid_argument);
    EXPECT_EQ(transport_->register_memory(room()).error().code, Errc::invalid_argument);
    EXPECT_EQ(transport_->deregister_memory(room()).error().code, Errc::invalid_argument);
    auto payload = transport_->get_payload(4096);
    ASSERT_TRUE(payload);
    EXPECT_EQ(transport_->register_memory(payload->memory()).error().code, Errc::invalid_argument);
    EXPECT_EQ(transport_->deregister_memory(payload->memory()).error().code,
              Errc::invalid_argument);
}

TEST_F(Registered, IsNotGivenBackWhileACallNamesItAndTheWaiterIsTold) {
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    Waiter waiter;
    transport_->wait_for_slot(waiter);
    // From now on no new call may name it; the one in flight goes on.
    TestCall late(*transport_);
    ASSERT_TRUE(late.prepare(6, 100));
    late.rqst->result_room = room(8192);
    EXPECT_EQ(late.send().error().code, Errc::invalid_argument);
    late.put();
    EXPECT_EQ(waiter.woken, 0);
    const SeenCall seen(peer().inbox[0]);
    const Bytes data = pattern(8192, 2);
    peer().write(seen.segment_of(seen.header.write), data);
    peer().send(msg_reply(seen, 8192));
    ASSERT_TRUE(run_until([&] { return waiter.woken > 0; }));
    EXPECT_TRUE(call->ok());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), room().begin()));
    EXPECT_TRUE(transport_->deregister_memory(memory_));
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::invalid_argument);
    call->put();
}

// facts/fastreg, trap 3: the peer may still write, and does.
TEST_F(Registered, AbandonedCallKeepsItUntilItsReply) {
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    call->put();
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    world_.run_until([] { return false; }, kNsPerSec);
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    const SeenCall seen(peer().inbox[0]);
    const rpcrdma::Segment segment = seen.segment_of(seen.header.write);
    peer().write(segment, pattern(8192, 2));
    peer().send_with_inv(msg_reply(seen, 8192), segment.handle);
    ASSERT_TRUE(
        run_until([&] { return static_cast<bool>(transport_->deregister_memory(memory_)); }));
    EXPECT_EQ(call->completions, 0u);
    // It is the caller's: nobody reaches it any more.
    std::fill(memory_.begin(), memory_.end(), std::byte{0x11});
    bool refused = false;
    peer().write(segment, pattern(8192, 9), [&](verbs::WcStatus status, const Bytes&) {
        refused = status == verbs::WcStatus::remote_access;
    });
    ASSERT_TRUE(run_until([&] { return refused; }));
    EXPECT_TRUE(untouched(memory_));
}

// The slow server's bytes would overwrite those of the new call, or be read for them.
TEST_F(Registered, WhatAnAbandonedCallNamesIsRefusedUntilItsReply) {
    start_registered();
    warm();
    auto payload = transport_->get_payload(8192);
    ASSERT_TRUE(payload);
    auto read = send_read(5, room(8192));
    TestCall write(*transport_);
    ASSERT_TRUE(write.prepare(6, 100));
    write.rqst->call.payload = std::span(memory_).subspan(100'000, 8192);
    ASSERT_TRUE(write.send());
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 2; }));
    read->put();
    write.put();
    const auto outcome = [&](std::span<std::byte> sent, std::span<std::byte> placed) {
        TestCall call(*transport_);
        EXPECT_TRUE(call.prepare(7, 100));
        call.rqst->call.payload = sent;
        call.rqst->result_room = placed;
        const auto done = call.send();
        if (done) {
            EXPECT_TRUE(run_until([&] { return call.done(); }));
        }
        return done ? Errc::closed : done.error().code;  // closed: it went well
    };
    const std::span<std::byte> all(memory_);
    const auto last_read = all.subspan(1003 + 8191, 1), last_sent = all.subspan(100'000 + 8191, 4);
    EXPECT_EQ(outcome({}, last_read), Errc::invalid_argument);
    EXPECT_EQ(outcome(last_read, {}), Errc::invalid_argument);
    EXPECT_EQ(outcome({}, last_sent), Errc::invalid_argument);
    EXPECT_EQ(outcome(last_sent, {}), Errc::invalid_argument);
    const SeenCall seen_read(peer().inbox[0]), seen_write(peer().inbox[1]);
    answer_inline();
    EXPECT_EQ(outcome(all.subspan(1003 + 8192, 4), all.subspan(999, 4)), Errc::closed);
    EXPECT_EQ(outcome(payload->memory(), {}), Errc::closed);
    peer().send(msg_reply(seen_read, 8192));
    peer().send(inline_reply(seen_write.header.xid));
    ASSERT_TRUE(run_until([&] { return transport_->counters().late_replies == 2; }));
    ASSERT_TRUE(run_until([&] { return outcome(last_sent, last_read) == Errc::closed; }));
    EXPECT_TRUE(transport_->deregister_memory(memory_));
}

// A Payload that its caller kept: a call is tried again from it, and nothing else.
TEST_F(Registered, PayloadOfAnAbandonedCallIsSentAgainButNotPlacedInto) {
    start_connected();
    warm();
    auto payload = transport_->get_payload(8192);
    ASSERT_TRUE(payload);
    TestCall first(*transport_);
    ASSERT_TRUE(first.prepare(5, 100));
    first.rqst->call.payload = payload->memory();
    ASSERT_TRUE(first.send());
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    first.put();
    TestCall next(*transport_);
    ASSERT_TRUE(next.prepare(6, 100));
    next.rqst->result_room = payload->memory();
    EXPECT_EQ(next.send().error().code, Errc::invalid_argument);
    next.rqst->result_room = {};
    next.rqst->call.payload = payload->memory();
    answer_inline();
    ASSERT_TRUE(next.send());
    ASSERT_TRUE(run_until([&] { return next.done(); }));
    EXPECT_TRUE(next.ok());
}

// Who waits for a payload is told of one that came home, whatever others ask for meanwhile.
TEST_F(Registered, GivingBackInVainTakesNoWakeUpOfOthers) {
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    std::vector<sunrpc::Payload> held;
    for (;;) {
        auto payload = transport_->get_payload(1 << 20);
        if (!payload) break;
        held.push_back(*std::move(payload));
    }
    Waiter waiter;
    transport_->wait_for_slot(waiter);
    held.pop_back();
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    EXPECT_TRUE(run_until([&] { return waiter.woken > 0; }, kNsPerSec));
    // And what another did not find.
    held.push_back(*transport_->get_payload(1 << 20));
    ASSERT_FALSE(transport_->get_payload(1 << 20));
    transport_->wait_for_slot(waiter);
    held.pop_back();
    held.push_back(*transport_->get_payload(1 << 20));
    ASSERT_FALSE(transport_->get_payload(1 << 20));
    EXPECT_TRUE(run_until([&] { return waiter.woken > 1; }, kNsPerSec));
}

// Sizes on the wire have 32 bits; those of memory have not.
TEST_F(Registered, CallOfMoreThanFourGibibytesIsTooBig) {
    constexpr std::size_t kSize = (std::size_t{1} << 32) + 8192;
    void* const mapped = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(mapped, MAP_FAILED);
    const std::span<std::byte> huge(static_cast<std::byte*>(mapped), kSize);
    start_connected();
    ASSERT_TRUE(transport_->register_memory(huge));
    TestCall call(*transport_);
    ASSERT_TRUE(call.prepare(5, 100));
    call.rqst->call.payload = huge;
    EXPECT_EQ(call.send().error().code, Errc::too_big);
    call.rqst->call.payload = {};
    call.rqst->result_room = huge;
    EXPECT_EQ(call.send().error().code, Errc::too_big);
    call.rqst->result_room = huge.last(4096);
    answer_inline();
    EXPECT_TRUE(call.send());
    EXPECT_TRUE(run_until([&] { return call.done(); }));
    call.put();
    EXPECT_TRUE(transport_->deregister_memory(huge));
    EXPECT_EQ(::munmap(mapped, kSize), 0);
}

TEST_F(Registered, AbandonedCallKeepsItUntilTheConnectionEnds) {
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    call->put();
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    Waiter waiter;
    transport_->wait_for_slot(waiter);
    transport_->close();
    ASSERT_TRUE(run_until([&] { return waiter.woken > 0; }));
    EXPECT_TRUE(transport_->deregister_memory(memory_));
    ASSERT_TRUE(run_until([&] { return transport_->idle(); }));
}

TEST_F(Registered, LostConnectionGivesItBackWithTheCalls) {
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return call->done(); }));
    EXPECT_EQ(call->error(), Errc::reconnect);
    EXPECT_TRUE(transport_->deregister_memory(memory_));
    EXPECT_FALSE(transport_->connected());
}

TEST_F(Registered, RecoveryKeepsItAndSendsAgainFromThere) {
    options_.recovery.on = true;
    options_.recovery.seed = 1;
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    const SeenCall first(peer().inbox[0]);
    const rpcrdma::Segment old = first.segment_of(first.header.write);
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return listener_->conns.size() == 2 && !peer().inbox.empty(); }));
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    const SeenCall seen(peer().inbox[0]);
    const rpcrdma::Segment segment = seen.segment_of(seen.header.write);
    EXPECT_NE(old.handle, segment.handle);
    const Bytes data = pattern(8192, 7);
    peer().write(segment, data);
    peer().send_with_inv(msg_reply(seen, 8192), segment.handle);
    ASSERT_TRUE(run_until([&] { return call->done(); }));
    EXPECT_TRUE(call->ok());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), room().begin()));
    EXPECT_TRUE(transport_->deregister_memory(memory_));
    call->put();
}

// Between two connections the keys of the last one are still bound to it: they go first.
TEST_F(Registered, GoesBackWhileTheConnectionIsBeingRecovered) {
    options_.recovery.on = true;
    options_.recovery.seed = 1;
    start_registered();
    Bytes other(8192);
    ASSERT_TRUE(transport_->register_memory(other));
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    EXPECT_EQ(transport_->deregister_memory(memory_).error().code, Errc::again);
    call->put();
    ASSERT_TRUE(
        run_until([&] { return static_cast<bool>(transport_->deregister_memory(memory_)); }));
    EXPECT_TRUE(transport_->recovering());
    listener_->refuse = false;
    ASSERT_TRUE(run_until([&] { return transport_->connected(); }, 200 * kNsPerSec));
    auto next = send_read(6, other);
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    const SeenCall seen(peer().inbox[0]);
    peer().write(seen.segment_of(seen.header.write), pattern(8192, 7));
    peer().send(msg_reply(seen, 8192));
    ASSERT_TRUE(run_until([&] { return next->done(); }));
    EXPECT_TRUE(next->ok());
    EXPECT_EQ(other, pattern(8192, 7));
    next->put();
}

// A long reply beside the result: two pieces of memory of different owners.
TEST_F(Registered, GoesWithAReplyChunkOfTheTransports) {
    start_registered();
    TestCall call(*transport_);
    ASSERT_TRUE(call.prepare(5, 100));
    call.rqst->result_room = room(10'000);
    call.rqst->reply_max = 20'000;
    ASSERT_TRUE(call.send());
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    const SeenCall seen(peer().inbox[0]);
    ASSERT_FALSE(seen.header.reply.empty());
    const Bytes data = pattern(10'000, 6);
    peer().write(seen.segment_of(seen.header.write), data);
    peer().send(msg_reply(seen, 10'000));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), room().begin()));
    call.put();
    EXPECT_TRUE(transport_->deregister_memory(memory_));
}

TEST_F(Registered, StaticKeysReachItToo) {
    options_.registration = pools::Registration::fixed;
    start_registered();
    auto call = send_read(5, room(8192));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    const SeenCall seen(peer().inbox[0]);
    const Bytes data = pattern(8192, 7);
    peer().write(seen.segment_of(seen.header.write), data);
    peer().send(msg_reply(seen, 8192));
    ASSERT_TRUE(run_until([&] { return call->done(); }));
    EXPECT_TRUE(call->ok());
    EXPECT_TRUE(std::equal(data.begin(), data.end(), room().begin()));
    EXPECT_EQ(transport_->counters().keys_bound, 0u);
    call->put();
    EXPECT_TRUE(transport_->deregister_memory(memory_));
}

// Who forgets to ask for it back gets it with the end of the transport.
TEST_F(Registered, EndsWithTheTransport) {
    start_registered();
    end();
    EXPECT_TRUE(untouched(memory_));
}

}  // namespace
}  // namespace nfsrdma::test
