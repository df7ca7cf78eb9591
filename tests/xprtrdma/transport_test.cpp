#include "xprtrdma/transport.hpp"

#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {
namespace {

class Transport : public ClientFixture {};

TEST_F(Transport, NullCallIsAnsweredInline) {
    start_connected();
    answer_inline();
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 40)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    EXPECT_FALSE(call.done());
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    EXPECT_EQ(call.head, rpc_reply(1).take());
    EXPECT_EQ(transport_->counters().inline_calls, 1u);
    EXPECT_EQ(transport_->counters().keys_bound, 0u);
    EXPECT_EQ(transport_->counters().doorbells, 1u);
}

TEST_F(Transport, InlineCallArrivesByteForByte) {
    start_connected();
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(5, 4068)));
    const Bytes sent = call.message();
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    const SeenCall seen(peer().inbox.front());
    EXPECT_EQ(seen.header.size, 28u);
    EXPECT_EQ(seen.header.credits, 8u);
    EXPECT_EQ(seen.body, sent);
    call.put();
}

// A READ: one write chunk, one key, one doorbell, no LOCAL_INV when the peer invalidates.
TEST_F(Transport, WriteChunkIsPlacedAndInvalidatedByThePeer) {
    start_connected();
    const Bytes data = pattern(100'000, 3);
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        const rpcrdma::Segment segment = seen.segment_of(seen.header.write);
        EXPECT_EQ(segment.length, 100'003u);
        conn.write(segment, data);
        conn.send_with_inv(msg_reply(seen, 100'000), segment.handle);
    };
    auto payload = transport_->get_payload(100'003);
    ASSERT_TRUE(static_cast<bool>(payload));
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(9, 120)));
    call.rqst->result_room = payload->memory();
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(Bytes(call.placed.begin(), call.placed.end()), data);
    EXPECT_EQ(call.placed.data(), payload->memory().data());
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
    EXPECT_EQ(transport_->counters().remote_invalidations, 1u);
    EXPECT_EQ(transport_->counters().local_invalidations, 0u);
    EXPECT_EQ(transport_->counters().doorbells, 1u);
    EXPECT_EQ(transport_->counters().payload_copied_bytes, 0u);
}

// A WRITE: one read chunk; the peer does not invalidate, so LOCAL_INV does.
TEST_F(Transport, ReadChunkIsPulledAndInvalidatedLocally) {
    start_connected();
    auto payload = transport_->get_payload(70'001);
    ASSERT_TRUE(static_cast<bool>(payload));
    const Bytes data = pattern(70'001, 4);
    std::copy(data.begin(), data.end(), payload->memory().begin());
    Bytes pulled, body;
    std::uint32_t position = 0;
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        position = seen.position();
        body = seen.body;
        const Bytes reply = msg_reply(seen, 0);
        conn.read(seen.segment_of(seen.header.read), [&, reply](verbs::WcStatus, Bytes bytes) {
            pulled = std::move(bytes);
            conn.send(reply);
        });
    };
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(9, 120)));
    const Bytes head = call.message();
    call.rqst->call.payload = payload->memory();
    // A trailing part, as a compound has it.
    const std::span<std::byte> tail = call.rqst->head_room.subspan(200, 8);
    std::fill(tail.begin(), tail.end(), std::byte{0x55});
    call.rqst->call.tail = tail;
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(pulled, data);
    EXPECT_EQ(position, 120u);
    Bytes expected = head;
    expected.resize(128, std::byte{0x55});
    EXPECT_EQ(body, expected);
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
    EXPECT_EQ(transport_->counters().local_invalidations, 1u);
}

TEST_F(Transport, SmallPayloadIsGatheredInlineWithItsPad) {
    start_connected();
    auto payload = transport_->get_payload(7);
    ASSERT_TRUE(static_cast<bool>(payload));
    std::fill(payload->memory().begin(), payload->memory().end(), std::byte{0xaa});
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(2, 40)));
    Bytes expected = call.message();
    expected.insert(expected.end(), 7, std::byte{0xaa});
    expected.push_back(std::byte{0});
    expected.insert(expected.end(), 4, std::byte{0x77});
    call.rqst->call.payload = payload->memory();
    call.rqst->call.tail = call.rqst->head_room.subspan(40, 4);
    std::fill(call.rqst->call.tail.begin(), call.rqst->call.tail.end(), std::byte{0x77});
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    EXPECT_EQ(SeenCall(peer().inbox.front()).body, expected);
    call.put();
}

TEST_F(Transport, RefusedConnectionSaysSo) {
    start();
    listener_->refuse = true;
    ASSERT_TRUE(run_until([&] { return told_ > 0; }));
    EXPECT_EQ(told_, 1u);
    EXPECT_EQ(connect_result_->error().code, Errc::refused);
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::reconnect);
    EXPECT_EQ(lost_, 0u);
}

TEST_F(Transport, B32_NobodyThereIsTimedOut) {
    options_.connect_timeout_ns = kNsPerSec;
    connect();
    ASSERT_TRUE(run_until([&] { return told_ > 0; }));
    EXPECT_TRUE(connect_result_->error().code == Errc::timed_out ||
                connect_result_->error().code == Errc::refused);
}

TEST_F(Transport, CloseWhileConnectingIsToldOnce) {
    start();
    transport_->close();
    ASSERT_TRUE(run_until([&] { return transport_->idle(); }));
    EXPECT_EQ(told_, 1u);
    EXPECT_EQ(connect_result_->error().code, Errc::closed);
}

TEST_F(Transport, SlotsRunOutAndAreTold) {
    start_connected();
    static int woken;
    woken = 0;
    transport_->on_slot([](void*) noexcept { ++woken; }, nullptr);
    std::vector<sunrpc::Rqst*> held;
    for (;;) {
        auto got = transport_->get_rqst(40);
        if (!got) {
            EXPECT_EQ(got.error().code, Errc::again);
            break;
        }
        held.push_back(*got);
    }
    EXPECT_EQ(held.size(), 9u);  // 8 credits and an eighth more
    EXPECT_EQ(transport_->counters().waited_for_slot, 1u);
    transport_->put_rqst(*held.back());
    held.pop_back();
    EXPECT_EQ(woken, 0);  // never from inside
    ASSERT_TRUE(run_until([&] { return woken == 1; }));
    for (auto* rqst : held)
        transport_->put_rqst(*rqst);
    world_.run_for(kNsPerMs);
    EXPECT_EQ(woken, 1);
}

TEST_F(Transport, CallersMistakesComeBackFromSend) {
    start_connected();
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(3, 40)));
    call.rqst->xid = 4;  // not what the message says
    EXPECT_EQ(call.send().error().code, Errc::invalid_argument);
    call.rqst->xid = 3;
    Bytes elsewhere(100);
    call.rqst->result_room = elsewhere;
    EXPECT_EQ(call.send().error().code, Errc::invalid_argument);
    call.rqst->result_room = {};
    call.rqst->reply_max = UINT32_MAX;
    EXPECT_EQ(call.send().error().code, Errc::too_big);
    call.rqst->reply_max = 64;
    EXPECT_TRUE(static_cast<bool>(call.send()));
    TestCall twin(*transport_);
    ASSERT_TRUE(static_cast<bool>(twin.prepare(3, 40)));
    EXPECT_EQ(twin.send().error().code, Errc::invalid_argument);
    EXPECT_EQ(transport_->get_rqst((64 << 10) + 1).error().code, Errc::too_big);
    EXPECT_EQ(transport_->get_payload((1 << 20) + 1).error().code, Errc::too_big);
}

TEST_F(Transport, PrivateDataOffersRemoteInvalidationAndSizes) {
    start_connected();
    EXPECT_TRUE(peer().peers.remote_invalidation);
    EXPECT_EQ(peer().peers.send_size, 4096u);
    EXPECT_EQ(peer().peers.recv_size, 4096u);
    EXPECT_EQ(transport_->inline_limits().send, 4096u);
}

TEST_F(Transport, NoPrivateDataMeansOneKibibyteInline) {
    start_connected({.private_data = false});
    EXPECT_EQ(transport_->inline_limits().send, 1024u);
    EXPECT_EQ(transport_->inline_limits().recv, 1024u);
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(3, 1000)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    EXPECT_EQ(SeenCall(peer().inbox.front()).header.proc, rpcrdma::Proc::nomsg);
    EXPECT_EQ(transport_->counters().long_calls, 1u);
}

}  // namespace
}  // namespace nfsrdma::test
