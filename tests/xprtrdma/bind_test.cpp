#include "tests/xprtrdma/client_fixture.hpp"
#include "xprtrdma/call.hpp"

namespace nfsrdma::test {
namespace {

using pools::RemoteRun;

TEST(SliceRuns, CutsWithinAndAcrossRuns) {
    const RemoteRun runs[] = {{1, 100, 1000}, {2, 50, 9000}, {3, 10, 20}};
    xprtrdma::SegmentList out;
    ASSERT_TRUE(static_cast<bool>(xprtrdma::slice_runs(runs, 10, 20, out)));
    ASSERT_EQ(out.count, 1u);
    EXPECT_EQ(out.segments[0], (rpcrdma::Segment{1, 20, 1010}));
    ASSERT_TRUE(static_cast<bool>(xprtrdma::slice_runs(runs, 90, 65, out)));
    ASSERT_EQ(out.count, 3u);
    EXPECT_EQ(out.segments[0], (rpcrdma::Segment{1, 10, 1090}));
    EXPECT_EQ(out.segments[1], (rpcrdma::Segment{2, 50, 9000}));
    EXPECT_EQ(out.segments[2], (rpcrdma::Segment{3, 5, 20}));
    ASSERT_TRUE(static_cast<bool>(xprtrdma::slice_runs(runs, 100, 50, out)));
    ASSERT_EQ(out.count, 1u);
    EXPECT_EQ(out.segments[0].handle, 2u);
}

class Bind : public ClientFixture {
  protected:
    sunrpc::Payload payload(std::uint32_t bytes) {
        auto got = transport_->get_payload(bytes);
        EXPECT_TRUE(static_cast<bool>(got));
        return *std::move(got);
    }
    // Pulls everything that the call exposes, then answers with empty chunks.
    void pull_everything() {
        peer().script = [this](RawConn& conn, RawMessage message) {
            seen_.emplace(message);
            const Bytes reply = msg_reply(*seen_, 0);
            std::vector<rpcrdma::Segment> segments;
            if (!seen_->header.call.empty())
                segments.push_back(seen_->segment_of(seen_->header.call));
            if (!seen_->header.read.empty())
                segments.push_back(seen_->segment_of(seen_->header.read));
            auto left = std::make_shared<std::size_t>(segments.size());
            pulled_.assign(segments.size(), {});
            for (std::size_t i = 0; i < segments.size(); ++i) {
                conn.read(segments[i],
                          [this, &conn, i, left, reply](verbs::WcStatus status, Bytes bytes) {
                              EXPECT_EQ(status, verbs::WcStatus::success);
                              pulled_[i] = std::move(bytes);
                              if (--*left == 0) conn.send(reply);
                          });
            }
        };
    }
    std::optional<SeenCall> seen_;
    std::vector<Bytes> pulled_;
};

TEST_F(Bind, B16_LongCallIsPulledWhole) {
    start_connected();
    pull_everything();
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 20'000)));
    const Bytes message = call.message();
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    EXPECT_EQ(seen_->header.proc, rpcrdma::Proc::nomsg);
    EXPECT_TRUE(seen_->body.empty());
    ASSERT_EQ(pulled_.size(), 1u);
    EXPECT_EQ(pulled_[0], message);
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
}

TEST_F(Bind, LongCallWithPayloadIsOneKey) {
    start_connected();
    pull_everything();
    auto data = payload(50'001);
    const Bytes bytes = pattern(50'001, 8);
    std::copy(bytes.begin(), bytes.end(), data.memory().begin());
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 5000)));
    Bytes message = call.message();
    call.rqst->call.payload = data.memory();
    call.rqst->call.tail = call.rqst->head_room.subspan(5600, 400);  // apart: it is moved up
    std::fill(call.rqst->call.tail.begin(), call.rqst->call.tail.end(), std::byte{7});
    message.insert(message.end(), 400, std::byte{7});
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    ASSERT_EQ(pulled_.size(), 2u);
    EXPECT_EQ(pulled_[0], message);
    EXPECT_EQ(pulled_[1], bytes);
    EXPECT_EQ(seen_->position(), 5000u);
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
    EXPECT_EQ(transport_->counters().local_invalidations, 1u);
}

TEST_F(Bind, PayloadInsideOfAPageBehindALongCallTakesItsOwnKey) {
    start_connected();
    pull_everything();
    auto data = payload(50'000);
    const Bytes bytes = pattern(50'000, 8);
    std::copy(bytes.begin(), bytes.end(), data.memory().begin());
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 5000)));
    const Bytes message = call.message();
    call.rqst->call.payload = data.memory().subspan(100, 9000);
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    ASSERT_EQ(pulled_.size(), 2u);
    EXPECT_EQ(pulled_[0], message);
    EXPECT_EQ(pulled_[1], Bytes(bytes.begin() + 100, bytes.begin() + 9100));
    EXPECT_EQ(transport_->counters().keys_bound, 2u);
    EXPECT_EQ(transport_->counters().local_invalidations, 2u);
}

TEST_F(Bind, IrreduciblePayloadIsGatheredIntoTheLongCall) {
    start_connected();
    pull_everything();
    auto data = payload(9001);
    const Bytes bytes = pattern(9001, 8);
    std::copy(bytes.begin(), bytes.end(), data.memory().begin());
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 100)));
    Bytes whole = call.message();
    whole.insert(whole.end(), bytes.begin(), bytes.end());
    whole.insert(whole.end(), 3, std::byte{0});
    whole.insert(whole.end(), 4, std::byte{9});
    call.rqst->ddp_allowed = false;
    call.rqst->call.payload = data.memory();
    call.rqst->call.tail = call.rqst->head_room.subspan(100, 4);
    std::fill(call.rqst->call.tail.begin(), call.rqst->call.tail.end(), std::byte{9});
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    ASSERT_EQ(pulled_.size(), 1u);
    EXPECT_EQ(pulled_[0], whole);
    EXPECT_EQ(transport_->counters().payload_copied_bytes, 9001u);
}

// B20: every offset in a page, lengths over one to several pages.
TEST_F(Bind, B20_ReadChunkOfAnyOffsetAndLengthIsExact) {
    start_connected();
    pull_everything();
    auto data = payload(64 << 10);
    const Bytes bytes = pattern(64 << 10, 8);
    std::copy(bytes.begin(), bytes.end(), data.memory().begin());
    std::uint32_t xid = 1;
    for (const std::uint32_t offset : {0u, 1u, 511u, 4095u}) {
        for (const std::uint32_t length : {2048u, 4095u, 4096u, 4097u, 8193u, 20'001u}) {
            TestCall call(*transport_);
            ASSERT_TRUE(static_cast<bool>(call.prepare(xid++, 100)));
            call.rqst->call.payload = data.memory().subspan(offset, length);
            ASSERT_TRUE(static_cast<bool>(call.send()));
            ASSERT_TRUE(run_until([&] { return call.done(); }));
            ASSERT_TRUE(call.ok());
            ASSERT_EQ(pulled_[0], Bytes(bytes.begin() + offset, bytes.begin() + offset + length));
        }
    }
    EXPECT_EQ(transport_->counters().disconnects, 0u);
}

TEST_F(Bind, B09_LongReplyComesByTheReplyChunk) {
    start_connected();
    const Bytes body = pattern(9996, 5);
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        const rpcrdma::Segment segment = seen.segment_of(seen.header.reply);
        EXPECT_EQ(segment.length, 10'024u);
        Bytes reply = rpc_reply(seen.header.xid).bytes(body).take();
        const auto size = static_cast<std::uint32_t>(reply.size());
        conn.write(segment, reply);
        conn.send_with_inv(reply_lists(reply_fixed(seen.header.xid, 32, 1), seen, 0, size).take(),
                           segment.handle);
    };
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(7, 100)));
    call.rqst->reply_max = 10'022;
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(call.head, rpc_reply(7).bytes(body).take());
    EXPECT_EQ(transport_->counters().local_invalidations, 0u);
}

// Both, under one key, which the peer can invalidate.
TEST_F(Bind, WriteAndReplyChunkAreOneKey) {
    start_connected();
    const Bytes body = pattern(8000, 5), data = pattern(30'001, 6);
    std::uint32_t write_handle = 0, reply_handle = 1;
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        const rpcrdma::Segment write = seen.segment_of(seen.header.write);
        const rpcrdma::Segment reply_chunk = seen.segment_of(seen.header.reply);
        write_handle = write.handle;
        reply_handle = reply_chunk.handle;
        EXPECT_EQ(write.length, 30'001u);
        const Bytes reply = rpc_reply(seen.header.xid).bytes(body).take();
        conn.write(write, data);
        conn.write(reply_chunk, reply);
        conn.send_with_inv(reply_lists(reply_fixed(seen.header.xid, 32, 1), seen, 30'001,
                                       static_cast<std::uint32_t>(reply.size()))
                               .take(),
                           write.handle);
    };
    auto room = payload(30'001);
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(7, 100)));
    call.rqst->reply_max = 9000;
    call.rqst->result_room = room.memory();
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(write_handle, reply_handle);
    EXPECT_EQ(call.head, rpc_reply(7).bytes(body).take());
    EXPECT_EQ(Bytes(call.placed.begin(), call.placed.end()), data);
    EXPECT_EQ(transport_->counters().keys_bound, 1u);
    EXPECT_EQ(transport_->counters().local_invalidations, 0u);
    EXPECT_EQ(transport_->counters().doorbells, 1u);
}

// Arguments and results by RDMA: one readable and one writable key; the peer frees one, LOCAL_INV
// the other.
TEST_F(Bind, BothWaysIsAKeyEach) {
    start_connected();
    const Bytes data = pattern(5000, 6);
    Bytes pulled;
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        const rpcrdma::Segment write = seen.segment_of(seen.header.write);
        EXPECT_NE(write.handle, seen.segment_of(seen.header.read).handle);
        const Bytes reply = msg_reply(seen, 5000);
        conn.read(seen.segment_of(seen.header.read),
                  [&, write, reply](verbs::WcStatus, Bytes bytes) {
                      pulled = std::move(bytes);
                      conn.write(write, data);
                      conn.send_with_inv(reply, write.handle);
                  });
    };
    auto room = payload(5000), args = payload(4000);
    std::fill(args.memory().begin(), args.memory().end(), std::byte{3});
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(7, 100)));
    call.rqst->call.payload = args.memory();
    call.rqst->result_room = room.memory();
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    ASSERT_TRUE(call.ok());
    EXPECT_EQ(pulled, Bytes(4000, std::byte{3}));
    EXPECT_EQ(Bytes(call.placed.begin(), call.placed.end()), data);
    EXPECT_EQ(transport_->counters().keys_bound, 2u);
    EXPECT_EQ(transport_->counters().remote_invalidations, 1u);
    EXPECT_EQ(transport_->counters().local_invalidations, 1u);
    EXPECT_EQ(transport_->counters().doorbells, 2u);
}

// The lengths that are advertised are exact: one byte more is refused.
TEST_F(Bind, OneByteBehindTheWriteChunkIsRefused) {
    start_connected();
    auto room = payload(8192);
    std::fill(room.memory().begin(), room.memory().end(), std::byte{0x5a});
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        rpcrdma::Segment segment = seen.segment_of(seen.header.write);
        EXPECT_EQ(segment.length, 5000u);
        conn.write(segment, Bytes(5001));
    };
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(7, 100)));
    call.rqst->result_room = room.memory().first(5000);
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_EQ(call.error(), Errc::reconnect);
    EXPECT_TRUE(run_until([&] { return peer().failed_ops > 0; }));
    EXPECT_EQ(peer().last_failure, verbs::WcStatus::remote_access);
    EXPECT_TRUE(std::all_of(room.memory().begin(), room.memory().end(),
                            [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_F(Bind, KeysRunOutCallsWaitInOrderAndGoOn) {
    options_.demand.credits = 4;
    start_connected();
    std::vector<std::uint32_t> order;
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        order.push_back(seen.header.xid);
        conn.send(msg_reply(seen, 0));
    };
    // Abandoned calls of an earlier time hold keys: here a Read chunk and Write chunk each, in
    // several waves.
    for (std::uint32_t wave = 0; wave < 20; ++wave) {
        std::vector<std::unique_ptr<TestCall>> calls;
        std::vector<sunrpc::Payload> rooms;
        for (std::uint32_t i = 0; i < 5; ++i) {
            calls.push_back(std::make_unique<TestCall>(*transport_));
            ASSERT_TRUE(static_cast<bool>(calls.back()->prepare(wave * 10 + i, 100)));
            rooms.push_back(payload(4096));
            calls.back()->rqst->result_room = rooms.back().memory();
            if (i < 3) {
                rooms.push_back(payload(4096));
                calls.back()->rqst->call.payload = rooms.back().memory();
            }
            ASSERT_TRUE(static_cast<bool>(calls.back()->send()));
        }
        ASSERT_TRUE(run_until([&] {
            return std::all_of(calls.begin(), calls.end(),
                               [](const auto& call) { return call->done(); });
        }));
        for (const auto& call : calls)
            EXPECT_TRUE(call->ok());
    }
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
    EXPECT_EQ(order.size(), 100u);
}

}  // namespace
}  // namespace nfsrdma::test
