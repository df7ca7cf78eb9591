#include "pools/mr_pool.hpp"

#include <array>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

using test::World;

struct Pool {
    World world;
    std::unique_ptr<MrPool> pool;
    std::span<std::byte> memory;
    explicit Pool(std::uint32_t count) {
        pool = std::move(*MrPool::create(*world.a.pd, count, 4));
        memory = *world.a.arena->carve(kPageSize);
    }
    Result<void> bind(Mr& mr) {
        const std::array<std::byte*, 1> pages{memory.data()};
        return mr.bind({pages, 0, 100, address_of(memory.data()), verbs::Access::remote_read});
    }
};

TEST(Mr, IdleToBoundToIdleByThePeer) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    EXPECT_EQ((*mr)->state, MrState::idle);
    ASSERT_TRUE(p.bind(**mr));
    EXPECT_EQ((*mr)->state, MrState::bound);
    EXPECT_EQ((*mr)->reg_wr.op, verbs::SendOp::reg_mr);
    EXPECT_FALSE((*mr)->reg_wr.signaled);
    EXPECT_EQ((*mr)->reg_wr.rkey, (*mr)->fast->rkey());
    (*mr)->on_invalidated();
    EXPECT_EQ((*mr)->state, MrState::idle);
}

TEST(Mr, BoundToInvalidatingToIdle) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    ASSERT_TRUE(p.bind(**mr));
    (*mr)->form_invalidate();
    EXPECT_EQ((*mr)->state, MrState::invalidating);
    EXPECT_EQ((*mr)->inv_wr.op, verbs::SendOp::local_inv);
    EXPECT_EQ((*mr)->inv_wr.rkey, (*mr)->fast->rkey());
    (*mr)->on_invalidated();
    EXPECT_EQ((*mr)->state, MrState::idle);
}

TEST(Mr, BoundToStaleOnFlush) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    ASSERT_TRUE(p.bind(**mr));
    (*mr)->on_flushed();
    EXPECT_EQ((*mr)->state, MrState::stale);
    mr->reset();
    EXPECT_TRUE(p.pool->full());
    EXPECT_EQ(p.pool->available(), 0u);
}

TEST(Mr, InvalidatingToStaleOnFlush) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    ASSERT_TRUE(p.bind(**mr));
    (*mr)->form_invalidate();
    (*mr)->on_flushed();
    EXPECT_EQ((*mr)->state, MrState::stale);
}

TEST(Mr, BoundToIdleWhenNeverPosted) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    ASSERT_TRUE(p.bind(**mr));
    (*mr)->on_never_posted();
    EXPECT_EQ((*mr)->state, MrState::idle);
}

// The device would bind it otherwise, or, where keys are registered as they are mapped, has done
// so.
TEST(Mr, NeverPostedIsTakenBackFromTheDevice) {
    struct Told : verbs::Cqe {
        verbs::WcStatus status = verbs::WcStatus::success;
        bool over = false;
    } told;
    told.done = [](verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
        static_cast<Told&>(cqe).status = wc.status;
        static_cast<Told&>(cqe).over = true;
    };
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    ASSERT_TRUE(p.bind(**mr));
    (*mr)->form_invalidate();
    (*mr)->on_never_posted();
    verbs::SendWr& late = (*mr)->reg_wr;
    late.cqe = &told;
    late.signaled = true;
    verbs::WrChain chain;
    chain.push_back(late);
    ASSERT_TRUE(p.world.a.qp->post_send(chain));
    ASSERT_TRUE(p.world.until([&] { return told.over; }));
    EXPECT_EQ(told.status, verbs::WcStatus::mr_error);
}

TEST(Mr, FailedBindStaysIdle) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    const std::array<std::byte*, 1> pages{p.memory.data() + 1};
    EXPECT_FALSE((*mr)->bind({pages, 0, 100, 0, verbs::Access::remote_read}));
    const std::array<std::byte*, 1> one{p.memory.data()};
    auto big = (*mr)->bind({one, 0, kPageSize + 1, 0, verbs::Access::remote_read});
    ASSERT_FALSE(big);
    EXPECT_EQ(big.error().code, Errc::too_big);
    EXPECT_EQ((*mr)->state, MrState::idle);
}

TEST(MrDeathTest, EveryWrongTransitionAsserts) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    EXPECT_DEATH((*mr)->form_invalidate(), "bound");  // a LOCAL_INV for a free key
    EXPECT_DEATH((*mr)->on_invalidated(), "live");
    EXPECT_DEATH((*mr)->on_flushed(), "live");
    EXPECT_DEATH((*mr)->on_never_posted(), "live");
    ASSERT_TRUE(p.bind(**mr));
    EXPECT_DEATH((void)p.bind(**mr), "idle");
    EXPECT_DEATH(mr->reset(), "idle");  // home while bound
    (*mr)->form_invalidate();
    EXPECT_DEATH((*mr)->form_invalidate(), "bound");
    (*mr)->on_flushed();
    EXPECT_DEATH((void)p.bind(**mr), "idle");
}

TEST(Mr, EachBindStepsTheLowByteOnly) {
    Pool p(1);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    std::set<std::uint32_t> keys;
    std::uint32_t upper = 0;
    for (int i = 0; i < 256; ++i) {
        ASSERT_TRUE(p.bind(**mr));
        const auto key = static_cast<std::uint32_t>((*mr)->fast->rkey());
        if (i == 0) upper = key >> 8;
        EXPECT_EQ(key >> 8, upper);
        EXPECT_TRUE(keys.insert(key).second);
        (*mr)->on_never_posted();
    }
}

TEST(MrPool, DryIsAgainAndCounted) {
    Pool p(2);
    auto one = p.pool->get();
    auto two = p.pool->get();
    ASSERT_TRUE(one && two);
    auto none = p.pool->get();
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::again);
    EXPECT_EQ(p.pool->dry_count(), 1u);
    EXPECT_FALSE(p.pool->full());
}

TEST(MrPool, FindsByTheCurrentKeyOnly) {
    Pool p(100);
    std::vector<Lease<Mr>> all;
    for (int i = 0; i < 100; ++i) {
        all.push_back(std::move(*p.pool->get()));
        ASSERT_TRUE(p.bind(*all.back()));
    }
    for (const auto& mr : all) {
        const verbs::Rkey key = mr->fast->rkey();
        EXPECT_EQ(p.pool->find(key), mr.get());
        EXPECT_EQ(p.pool->find(verbs::Rkey{static_cast<std::uint32_t>(key) ^ 0x01}), nullptr);
    }
    EXPECT_EQ(p.pool->find(verbs::Rkey{0}), nullptr);
    for (const auto& mr : all) {
        const verbs::Rkey before = mr->fast->rkey();
        mr->on_never_posted();
        ASSERT_TRUE(p.bind(*mr));
        EXPECT_EQ(p.pool->find(before), nullptr);
        EXPECT_EQ(p.pool->find(mr->fast->rkey()), mr.get());
        mr->on_never_posted();
    }
}

TEST(MrPool, StaleOnesGetFreshKeys) {
    Pool p(2);
    auto mr = p.pool->get();
    ASSERT_TRUE(mr);
    ASSERT_TRUE(p.bind(**mr));
    const verbs::Rkey old_key = (*mr)->fast->rkey();
    (*mr)->on_flushed();
    mr->reset();
    EXPECT_EQ(p.pool->available(), 1u);
    auto renewed = p.pool->renew_stale();
    ASSERT_TRUE(renewed);
    EXPECT_EQ(*renewed, 1u);
    EXPECT_EQ(p.pool->available(), 2u);
    EXPECT_EQ(p.pool->find(old_key), nullptr);
    auto none = p.pool->renew_stale();
    ASSERT_TRUE(none);
    EXPECT_EQ(*none, 0u);
}

TEST(MrPool, NamesOfStates) {
    EXPECT_STREQ(to_string(MrState::idle), "idle");
    EXPECT_STREQ(to_string(MrState::bound), "bound");
    EXPECT_STREQ(to_string(MrState::invalidating), "invalidating");
    EXPECT_STREQ(to_string(MrState::stale), "stale");
}

}  // namespace
}  // namespace nfsrdma::pools
