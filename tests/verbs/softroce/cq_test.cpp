#include "verbs/softroce/cq.hpp"

#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

TEST(Cq, PollsABoundedBatchInOrder) {
    WorldOptions o;
    o.qp = {.send_wrs = 4, .recv_wrs = 1000, .send_sges = 1, .recv_sges = 1};
    World w(o);
    for (std::uint64_t i = 0; i < 1000; ++i)
        ASSERT_TRUE(w.a.recv(i, {}));
    w.a.qp->set_error();
    EXPECT_FALSE(w.a.cq->arm());  // the loop must not sleep on it
    EXPECT_EQ(w.a.cq->poll(), 64u);
    EXPECT_EQ(w.a.log.entries.size(), 64u);
    while (w.a.cq->poll() > 0) {
    }
    EXPECT_TRUE(w.a.cq->arm());
    ASSERT_EQ(w.a.log.entries.size(), 1000u);
    for (std::uint64_t i = 0; i < 1000; ++i)
        ASSERT_EQ(w.a.log.entries[i].id, i);
}

TEST(Cq, GrowsWithItsQueuePairsSoThatItCannotOverflow) {
    World w;
    std::vector<std::unique_ptr<SoftQp>> qps;
    std::uint64_t posted = 0;
    for (int i = 0; i < 20; ++i) {
        qps.push_back(*w.a.device->create_qp(*w.a.pd, *w.a.cq, {.send_wrs = 8, .recv_wrs = 100}));
        for (int k = 0; k < 100; ++k) {
            RecvWr wr;
            wr.cqe = w.a.cqe(posted++);
            ASSERT_TRUE(qps.back()->post_recv(wr));
        }
        qps.back()->set_error();  // completions pile up unpolled
    }
    while (w.a.cq->poll() > 0) {
    }
    EXPECT_EQ(w.a.log.entries.size(), posted);
    for (const auto& qp : qps)
        EXPECT_EQ(qp->outstanding(), 0u);
}

TEST(Cq, HandlerMayDestroyItsQueuePairAtTheLastCompletion) {
    World w;
    auto qp = *w.a.device->create_qp(*w.a.pd, *w.a.cq, {});
    struct Last : Cqe {
        std::unique_ptr<SoftQp>* qp = nullptr;
    } last;
    last.qp = &qp;
    last.done = [](Cqe& cqe, const Wc&) noexcept {
        auto& self = static_cast<Last&>(cqe);
        if ((*self.qp)->outstanding() == 0) self.qp->reset();
    };
    for (int i = 0; i < 3; ++i) {
        RecvWr wr;
        wr.cqe = &last;
        ASSERT_TRUE(qp->post_recv(wr));
    }
    qp->set_error();
    w.run_for(kNsPerMs);
    EXPECT_EQ(qp, nullptr);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
