#include "pools/buffer_pool.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

using test::World;

TEST(BufferPool, GivesEachBufferOnceAndThenAgain) {
    World world;
    auto pool = BufferPool::create(*world.a.arena, 3, 1024);
    ASSERT_TRUE(pool);
    std::vector<Lease<Regbuf>> all;
    for (int i = 0; i < 3; ++i) {
        auto buffer = (*pool)->get();
        ASSERT_TRUE(buffer);
        EXPECT_EQ((*buffer)->bytes().size(), 1024u);
        EXPECT_TRUE(world.a.arena->contains((*buffer)->bytes()));
        for (const auto& other : all)
            EXPECT_NE(other->bytes().data(), (*buffer)->bytes().data());
        all.push_back(std::move(*buffer));
    }
    auto dry = (*pool)->get();
    ASSERT_FALSE(dry);
    EXPECT_EQ(dry.error().code, Errc::again);
    all.pop_back();
    EXPECT_EQ((*pool)->available(), 1u);
    EXPECT_TRUE((*pool)->get());
    all.clear();
    EXPECT_TRUE((*pool)->full());
}

TEST(BufferPool, BeyondTheArenaIsTooBig) {
    World world;
    auto pool = BufferPool::create(*world.a.arena, 1 << 20, 1 << 20);
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error().code, Errc::too_big);
    EXPECT_FALSE(BufferPool::create(*world.a.arena, 1, 0));
}

TEST(Lease, OwnershipMovesAndDeathReturns) {
    World world;
    auto pool = BufferPool::create(*world.a.arena, 1, 64);
    ASSERT_TRUE(pool);
    auto got = (*pool)->get();
    ASSERT_TRUE(got);
    Lease<Regbuf> first = std::move(*got);
    Lease<Regbuf> second = std::move(first);
    EXPECT_FALSE(first);
    EXPECT_TRUE(second);
    Regbuf& lent = std::move(second).donate();
    EXPECT_FALSE(second);
    EXPECT_EQ((*pool)->available(), 0u);
    second = Lease<Regbuf>::reclaim(lent);
    second = Lease<Regbuf>();
    EXPECT_TRUE((*pool)->full());
}

}  // namespace
}  // namespace nfsrdma::pools
