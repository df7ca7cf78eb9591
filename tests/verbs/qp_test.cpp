// The send queue ledger and automatic signaling, on queue pairs of the soft device.
#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs {
namespace {

using softroce::End;
using softroce::World;
using softroce::WorldOptions;

WorldOptions small() {
    WorldOptions o;
    o.qp = {.send_wrs = 16, .recv_wrs = 16, .send_sges = 1, .recv_sges = 1};
    return o;
}

TEST(Ledger, EveryRequestOfAChainIsDebited) {
    World w(small());
    std::array<SendWr, 5> wrs;
    WrChain chain;
    for (SendWr& wr : wrs) {
        wr.op = SendOp::rdma_write;  // of nothing
        chain.push_back(wr);
    }
    EXPECT_EQ(w.a.qp->send_room(), 16u);
    ASSERT_TRUE(w.a.qp->post_send(chain));
    EXPECT_EQ(w.a.qp->send_room(), 11u);
    EXPECT_EQ(w.a.qp->counters().doorbells, 1u);
    EXPECT_EQ(w.a.qp->counters().send_wrs, 5u);
    EXPECT_TRUE(w.a.qp->post_send(WrChain{}));  // nothing is no doorbell
    EXPECT_EQ(w.a.qp->counters().doorbells, 1u);
}

TEST(Ledger, ChainBeyondTheRoomIsNotPostedAtAll) {
    World w(small());
    std::array<SendWr, 16> wrs;
    WrChain chain, rest;
    for (std::size_t i = 0; i < 10; ++i)
        chain.push_back(wrs[i]);
    for (std::size_t i = 10; i < 16; ++i)
        rest.push_back(wrs[i]);
    for (SendWr& wr : wrs)
        wr.op = SendOp::rdma_write;
    ASSERT_TRUE(w.a.qp->post_send(chain));
    SendWr one;
    one.op = SendOp::rdma_write;
    rest.push_back(one);
    EXPECT_EQ(w.a.qp->post_send(rest).error().code, Errc::again);
    EXPECT_EQ(w.a.qp->send_room(), 6u);
    EXPECT_EQ(w.a.qp->outstanding(), 10u);
}

TEST(Ledger, CreditsComeWithSignaledCompletionsForAllBefore) {
    World w(small());
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 1, {}, 0, {}, false));
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 2, {}, 0, {}, false));
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.a.qp->send_room(), 14u);  // done, but nothing has said so
    EXPECT_EQ(w.a.qp->outstanding(), 0u);
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 3, {}, 0, {}, true));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.qp->send_room(), 16u);
}

TEST(Ledger, UnsignaledRequestsAloneNeverFillTheQueue) {
    World w(small());
    std::uint64_t posted = 0;
    while (posted < 10'000) {
        ASSERT_TRUE(w.run_until([&] { return w.a.qp->send_room() > 0; })) << posted;
        ASSERT_TRUE(w.a.post(SendOp::rdma_write, posted++, {}, 0, {}, false));
    }
    w.run_for(kNsPerMs);
    EXPECT_TRUE(w.a.log.entries.empty());  // silent
    EXPECT_GT(w.a.qp->send_room(), 12u);
}

TEST(Ledger, LongUnsignaledChainsNeverFillTheQueue) {
    World w(small());
    std::array<SendWr, 16> wrs;
    for (int round = 0; round < 100; ++round) {
        WrChain chain;
        for (SendWr& wr : wrs)
            wr.op = SendOp::rdma_write;
        const std::uint32_t room = w.a.qp->send_room();
        for (std::uint32_t i = 0; i < room; ++i)
            chain.push_back(wrs[i]);
        ASSERT_TRUE(w.a.qp->post_send(chain));
        EXPECT_EQ(w.a.qp->send_room(), 0u);
        ASSERT_TRUE(w.run_until([&] { return w.a.qp->send_room() >= 12; })) << round;
    }
}

TEST(Ledger, SignalsThatTheCallerAskedForRestartTheCount) {
    World w(small());
    for (std::uint64_t i = 0; i < 64; ++i) {
        ASSERT_TRUE(w.a.post(SendOp::rdma_write, i, {}, 0, {}, i % 4 == 3));
        ASSERT_TRUE(w.run_until([&] { return w.a.qp->send_room() > 4; }));
    }
    ASSERT_TRUE(w.run_until_logged(w.a, 16));
    EXPECT_EQ(w.a.qp->send_room(), 16u);
    for (const auto& e : w.a.log.entries)
        EXPECT_EQ(e.id % 4, 3u);
}

TEST(Ledger, FlushGivesEverythingBack) {
    World w(small());
    for (std::uint64_t i = 0; i < 16; ++i) {
        ASSERT_TRUE(w.a.post(SendOp::rdma_write, i, {}, 0, {}, false));
        ASSERT_TRUE(w.a.recv(100 + i, {}));
    }
    EXPECT_EQ(w.a.recv(200, {}).error().code, Errc::again);
    w.a.qp->set_error();
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.a.log.entries.size(), 32u);
    EXPECT_EQ(w.a.qp->send_room(), 16u);
    EXPECT_EQ(w.a.qp->counters().recv_wrs, 16u);
}

TEST(WrChain, PushFrontPutsBindsBeforeTheSend) {
    SendWr send, reg;
    WrChain chain;
    EXPECT_TRUE(chain.empty());
    chain.push_front(send);
    chain.push_front(reg);
    EXPECT_EQ(chain.first(), &reg);
    EXPECT_EQ(chain.last(), &send);
    EXPECT_EQ(reg.next, &send);
    EXPECT_EQ(chain.size(), 2u);
}

}  // namespace
}  // namespace nfsrdma::verbs
