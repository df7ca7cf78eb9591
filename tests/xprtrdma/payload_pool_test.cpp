#include "xprtrdma/payload_pool.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/support/loop_world.hpp"

namespace nfsrdma::xprtrdma {
namespace {

struct Payloads : testing::Test, sunrpc::PayloadOwner {
    Payloads() {
        pd = *world.client->alloc_pd();
        arena = *pools::Arena::create(*pd, 1 << 20, pools::Registration::automatic);
        const pools::PageListPool::ClassSpec classes[] = {{8192, 2}, {65536, 2}};
        pool = *PayloadPool::create(*arena, classes);
    }
    void release_payload(void* cookie) noexcept override { freed += pool->release(cookie) ? 1 : 0; }
    test::LoopWorld world;
    std::unique_ptr<verbs::ProtectionDomain> pd;
    std::unique_ptr<pools::Arena> arena;
    std::unique_ptr<PayloadPool> pool;
    int freed = 0;
};

TEST_F(Payloads, ComesHomeWhenReleased) {
    {
        auto payload = pool->get(5000, *this);
        ASSERT_TRUE(static_cast<bool>(payload));
        EXPECT_EQ(payload->memory().size(), 5000u);
        EXPECT_FALSE(pool->full());
    }
    EXPECT_TRUE(pool->full());
    EXPECT_EQ(freed, 1);
}

TEST_F(Payloads, PinnedMemoryOutlivesItsCaller) {
    auto payload = *pool->get(5000, *this);
    PayloadSlot* slot = pool->find(payload.memory());
    ASSERT_NE(slot, nullptr);
    PayloadPool::pin(*slot);
    PayloadPool::pin(*slot);
    const auto memory = payload.memory();
    payload.reset();
    EXPECT_EQ(freed, 0);
    EXPECT_EQ(pool->find(memory), nullptr);  // nobody may send it any more
    EXPECT_FALSE(pool->unpin(*slot));
    EXPECT_TRUE(pool->unpin(*slot));
    EXPECT_TRUE(pool->full());
}

TEST_F(Payloads, FindTakesOnlyWhatLiesInOneLentPayload) {
    auto a = *pool->get(8192, *this), b = *pool->get(65536, *this);
    EXPECT_NE(pool->find(a.memory()), pool->find(b.memory()));
    EXPECT_NE(pool->find(a.memory().subspan(8191, 1)), nullptr);
    EXPECT_NE(pool->find(b.memory().subspan(40000, 100)), nullptr);
    const std::span<const std::byte> past(a.memory().data(), 8193);
    EXPECT_EQ(pool->find(past), nullptr);
    std::byte outside{};
    EXPECT_EQ(pool->find({&outside, 1}), nullptr);
    EXPECT_EQ(pool->find(arena->memory().last(1)), nullptr);  // never lent
}

TEST_F(Payloads, DryIsAgainAndLargerIsTooBig) {
    std::vector<sunrpc::Payload> all;
    for (int i = 0; i < 4; ++i)
        all.push_back(*pool->get(100, *this));
    EXPECT_EQ(pool->get(100, *this).error().code, Errc::again);
    EXPECT_EQ(pool->get(65537, *this).error().code, Errc::too_big);
}

TEST_F(Payloads, NoBytesAreAPayloadToo) {
    auto payload = pool->get(0, *this);
    ASSERT_TRUE(static_cast<bool>(payload));
    EXPECT_TRUE(payload->memory().empty());
}

TEST_F(Payloads, MemoryOfTheCallersOwnIsFoundUntilItIsWithdrawn) {
    std::vector<std::byte> memory(1000);
    const std::span<std::byte> all(memory);
    for (const std::span<std::byte> run : {all.subspan(500, 100), all.first(100)})
        pool->add_own(run);
    EXPECT_TRUE(pool->full());
    PayloadSlot* const slot = pool->find(all.subspan(10, 90));
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(pool->own(all.first(100)), slot);
    EXPECT_EQ(pool->own(all.first(99)), nullptr);
    EXPECT_EQ(pool->find(all.first(101)), nullptr);
    EXPECT_NE(pool->find(all.subspan(599, 1)), nullptr);
    EXPECT_EQ(pool->find(all.subspan(600, 1)), nullptr);
    PayloadPool::pin(*slot);
    PayloadPool::pin(*slot);
    PayloadPool::withdraw(*slot);
    EXPECT_EQ(pool->find(all.first(1)), nullptr);  // nobody may send it any more
    EXPECT_EQ(pool->own(all.first(100)), slot);
    EXPECT_FALSE(pool->unpin(*slot));
    EXPECT_TRUE(pool->unpin(*slot));
    pool->remove_own(all.first(100));
    EXPECT_EQ(pool->own(all.first(100)), nullptr);
    EXPECT_NE(pool->find(all.subspan(500, 1)), nullptr);
}

}  // namespace
}  // namespace nfsrdma::xprtrdma
