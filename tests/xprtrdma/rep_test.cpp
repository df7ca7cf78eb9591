#include "xprtrdma/rep.hpp"

#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {
namespace {

// The Receive queue against a raw peer, driven through an own connection.
struct Receives : testing::Test {
    Receives() : listener(*world.server, LoopWorld::server_address(), {}) {
        listener.script = [](RawConn&, RawMessage) {};
        pd = *world.client->alloc_pd();
        arena = *pools::Arena::create(*pd, 1 << 20, pools::Registration::automatic);
        buffers = *pools::BufferPool::create(*arena, 8, 1024);
        io = *pools::Io::create(*pd, *arena, {.keys = 1, .pages_per_key = 1});
        queue = *xprtrdma::ReceiveQueue::create(
            *buffers, *io, 8,
            {.received =
                 [](void* arg, xprtrdma::Rep& rep) noexcept {
                     static_cast<Receives*>(arg)->got.push_back(&rep);
                 },
             .failed = [](void* arg) noexcept { ++static_cast<Receives*>(arg)->failed; },
             .arg = this});
        cq = *world.client->create_cq(64);
        world.loop->add(*cq);
        id = *world.client->create_id(handler);
        qp = *id->create_qp(*pd, *cq, {.recv_wrs = 8});
        queue->set_qp(qp);
    }
    ~Receives() override {
        if (!qp->in_error()) qp->set_error();
        while (qp->outstanding() > 0)
            cq->poll();
        for (xprtrdma::Rep* rep : got)
            queue->give_back(*rep);
        EXPECT_TRUE(queue->full());
        id.reset();
        world.loop->remove(*cq);
    }
    struct Handler : verbs::CmHandler {
        virtual ~Handler() = default;
        void on_cm_event(verbs::CmId&, const verbs::CmEvent&) noexcept override {}
    } handler;
    LoopWorld world;
    RawListener listener;
    std::unique_ptr<verbs::ProtectionDomain> pd;
    std::unique_ptr<pools::Arena> arena;
    std::unique_ptr<pools::BufferPool> buffers;
    std::unique_ptr<pools::Io> io;
    std::unique_ptr<xprtrdma::ReceiveQueue> queue;
    std::unique_ptr<verbs::CompletionQueue> cq;
    std::unique_ptr<verbs::CmId> id;
    verbs::QueuePair* qp = nullptr;
    std::vector<xprtrdma::Rep*> got;
    int failed = 0;
};

TEST_F(Receives, PostedIsExactAndBatchesWait) {
    EXPECT_TRUE(queue->full());
    EXPECT_TRUE(queue->top_up(9));  // fewer than a batch
    EXPECT_EQ(queue->posted(), 0u);
    EXPECT_TRUE(queue->top_up(8));
    EXPECT_EQ(queue->posted(), 8u);
    EXPECT_FALSE(queue->full());
    verbs::ConnParams params;
    ASSERT_TRUE(static_cast<bool>(id->connect(LoopWorld::server_address(), params)));
    ASSERT_TRUE(
        world.run_until([&] { return !listener.conns.empty() && listener.last().established; }));
    for (std::uint32_t i = 0; i < 3; ++i)
        listener.last().send(pattern(100 + i, i));
    ASSERT_TRUE(world.run_until([&] { return got.size() == 3; }));
    EXPECT_EQ(queue->posted(), 5u);
    for (std::uint32_t i = 0; i < 3; ++i) {
        const auto frame = got[i]->frame();
        EXPECT_EQ(Bytes(frame.begin(), frame.end()), pattern(100 + i, i));
    }
    for (xprtrdma::Rep* rep : got)
        queue->give_back(*rep);
    got.clear();
    EXPECT_TRUE(queue->top_up(4));
    EXPECT_EQ(queue->posted(), 5u);
    EXPECT_TRUE(queue->top_up(3));
    EXPECT_EQ(queue->posted(), 8u);
}

TEST_F(Receives, FlushedOnesComeHomeAndNoneIsPostedAnyMore) {
    EXPECT_TRUE(queue->top_up(1));
    qp->set_error();
    while (qp->outstanding() > 0)
        cq->poll();
    EXPECT_TRUE(queue->full());
    EXPECT_EQ(failed, 8);
    EXPECT_FALSE(queue->top_up(1));
}

}  // namespace
}  // namespace nfsrdma::test
