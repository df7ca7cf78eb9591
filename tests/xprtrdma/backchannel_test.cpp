#include "xprtrdma/backchannel.hpp"

#include <deque>

#include "tests/xprtrdma/client_fixture.hpp"
#include "xprtrdma/transport_impl.hpp"

// Calls of a scripted server to the client's service, by the client's connection (RFC 8167).
namespace nfsrdma::test {
namespace {

class EchoService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 48; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        ++calls;
        EXPECT_EQ(rqst.scratch.size() % 64, 0u);
        if (hold) {
            held.push_back(&rqst);
            return;
        }
        if (silent) return rqst.xprt->drop(rqst);
        answer(rqst);
    }
    // As many bytes as the test wants, in three parts.
    void answer(sunrpc::SvcRqst& rqst) noexcept {
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        rqst.res = {rqst.res_room.first(8), payload, tail};
        rqst.xprt->reply(rqst);
    }
    void wake(sunrpc::SvcRqst&) noexcept override { FAIL(); }
    void on_end(sunrpc::SvcXprt&) noexcept override { ++ended; }
    bool hold = false, silent = false;
    std::uint32_t calls = 0, ended = 0;
    std::deque<sunrpc::SvcRqst*> held;
    Bytes payload, tail;
};

Bytes backward_call(std::uint32_t xid, std::uint32_t bytes = 32) {
    Words words;
    words.u32(xid).u32(1).u32(4).u32(0).u32(0).u32(0).u32(0).u32(xid).u32(0);
    Bytes all = words.take();
    all.resize(28 + bytes);
    return all;
}

class BackchannelFixture : public ClientFixture {
  protected:
    BackchannelFixture() {
        options_.backward.service = &service_;
        options_.backward.credits = 2;
    }
    ~BackchannelFixture() override {
        for (sunrpc::SvcRqst* const rqst : service_.held)
            service_.answer(*rqst);
        end();
        EXPECT_EQ(service_.ended, 1u);
    }
    RawMessage next() {
        EXPECT_TRUE(world_.run_until([&] { return !peer().inbox.empty(); }));
        if (peer().inbox.empty()) return {};
        RawMessage message = peer().inbox.front();
        peer().inbox.pop_front();
        return message;
    }
    EchoService service_;
};

// Both queues of the device hold both directions, and forward credits make room.
TEST_F(BackchannelFixture, QueuesOfTheDeviceHoldBothDirections) {
    start_connected();
    options_.backward.credits = 4;
    verbs::DeviceCaps caps = world_.client->caps();
    auto roomy = xprtrdma::Counts::of(options_, caps);
    ASSERT_TRUE(static_cast<bool>(roomy));
    xprtrdma::TransportOptions forward_only = options_;
    forward_only.backward.service = nullptr;
    auto without = xprtrdma::Counts::of(forward_only, caps);
    ASSERT_TRUE(static_cast<bool>(without));
    EXPECT_EQ(roomy->backward, 4u);
    EXPECT_EQ(without->backward, 0u);
    EXPECT_EQ(roomy->receives, without->receives + 4);
    EXPECT_EQ(roomy->provision.send_wrs, without->provision.send_wrs + 4);
    caps.max_recv_wr = 15;
    auto tight = xprtrdma::Counts::of(options_, caps);
    ASSERT_TRUE(static_cast<bool>(tight));
    EXPECT_LE(tight->receives, 15u);
    EXPECT_EQ(tight->provision.credits, 3u);
    EXPECT_EQ(tight->backward, 4u);
}

TEST_F(BackchannelFixture, CallIsAnsweredWithTheCreditsThatThereAre) {
    start_connected();
    peer().send(backward_call(5));
    const SeenCall reply(next());
    EXPECT_EQ(reply.header.xid, 5u);
    EXPECT_EQ(reply.header.credits, 2u);
    EXPECT_EQ(reply.header.proc, rpcrdma::Proc::msg);
    EXPECT_EQ(reply.body.size(), 8u);
    EXPECT_EQ(transport_->counters().backward_calls, 1u);
}

TEST_F(BackchannelFixture, PartsOfAReplyGoTogetherPadded) {
    start_connected();
    service_.payload = pattern(5, 1);
    service_.tail = pattern(8, 2);
    peer().send(backward_call(5));
    const SeenCall reply(next());
    ASSERT_EQ(reply.body.size(), 24u);
    EXPECT_TRUE(std::equal(service_.payload.begin(), service_.payload.end(), &reply.body[8]));
    EXPECT_EQ(reply.body[13], std::byte{0});
    EXPECT_TRUE(std::equal(service_.tail.begin(), service_.tail.end(), &reply.body[16]));
}

TEST_F(BackchannelFixture, ReplyThatDoesNotFitInlineBecomesErrChunk) {
    start_connected();
    service_.payload = Bytes(4096);
    peer().send(backward_call(5));
    const SeenCall reply(next());
    EXPECT_EQ(reply.header.proc, rpcrdma::Proc::error);
    EXPECT_EQ(reply.header.error, rpcrdma::ErrorCode::chunk);
    service_.payload.clear();
    peer().send(backward_call(6));
    EXPECT_EQ(SeenCall(next()).header.proc, rpcrdma::Proc::msg);
}

TEST_F(BackchannelFixture, CallsBeyondTheCreditsAreDroppedAndTheConnectionStays) {
    start_connected();
    service_.hold = true;
    for (std::uint32_t xid = 1; xid <= 5; ++xid)
        peer().send(backward_call(xid));
    ASSERT_TRUE(world_.run_until([&] { return transport_->counters().backward_overruns == 3; }));
    EXPECT_EQ(service_.held.size(), 2u);
    service_.hold = false;
    for (sunrpc::SvcRqst* const rqst : service_.held)
        service_.answer(*rqst);
    service_.held.clear();
    next();
    next();
    peer().send(backward_call(9));
    EXPECT_EQ(SeenCall(next()).header.xid, 9u);
}

TEST_F(BackchannelFixture, DroppedCallsGiveTheirSlotsBack) {
    start_connected();
    service_.silent = true;
    for (std::uint32_t xid = 1; xid <= 20; ++xid) {
        peer().send(backward_call(xid));
        ASSERT_TRUE(world_.run_until([&] { return service_.calls == xid; }));
    }
    EXPECT_EQ(transport_->counters().backward_overruns, 0u);
}

TEST_F(BackchannelFixture, ForwardCallOfTheSameXidIsAnotherCall) {
    start_connected();
    TestCall call(*transport_);
    ASSERT_TRUE(call.prepare(7, 64));
    ASSERT_TRUE(call.send());
    EXPECT_EQ(SeenCall(next()).header.xid, 7u);
    peer().send(backward_call(7));
    EXPECT_EQ(SeenCall(next()).header.xid, 7u);
    EXPECT_FALSE(call.done());
    peer().send(inline_reply(7));
    ASSERT_TRUE(world_.run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
}

TEST_F(BackchannelFixture, ReplyAfterTheEndIsForgottenAndHoldsTheTransportUntilThen) {
    start_connected();
    service_.hold = true;
    peer().send(backward_call(1));
    ASSERT_TRUE(world_.run_until([&] { return service_.held.size() == 1; }));
    peer().disconnect();
    ASSERT_TRUE(world_.run_until([&] { return lost_ > 0; }));
    EXPECT_FALSE(transport_->idle());
    service_.answer(*service_.held.front());
    service_.held.clear();
    EXPECT_TRUE(world_.run_until([&] { return transport_->idle(); }));
}

TEST_F(BackchannelFixture, CallsOfTheNextConnectionAreServed) {
    options_.recovery.on = true;
    start_connected();
    service_.hold = true;
    peer().send(backward_call(1));
    ASSERT_TRUE(world_.run_until([&] { return service_.held.size() == 1; }));
    peer().disconnect();
    ASSERT_TRUE(world_.run_until([&] { return transport_->counters().reconnects == 1; }));
    service_.hold = false;
    service_.answer(*service_.held.front());  // of the first one: not sent
    service_.held.clear();
    peer().send(backward_call(2));
    EXPECT_EQ(SeenCall(next()).header.xid, 2u);
}

TEST_F(BackchannelFixture, CallWithChunksIsNone) {
    start_connected();
    peer().send(Words()
                    .u32(5)
                    .u32(1)
                    .u32(4)
                    .u32(0)
                    .u32(1)
                    .u32(8)
                    .segment({1, 16, 0})
                    .u32(0)
                    .u32(0)
                    .u32(0)
                    .u32(5)
                    .u32(0)
                    .u32(2)
                    .take());
    ASSERT_TRUE(world_.run_until([&] { return transport_->counters().bad_xids == 1; }));
    EXPECT_EQ(service_.calls, 0u);
}

}  // namespace
}  // namespace nfsrdma::test
