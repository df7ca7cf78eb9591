#include "pools/page_list.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

using test::World;

struct Pool {
    World world;
    std::unique_ptr<PageListPool> pool;
    explicit Pool(std::initializer_list<PageListPool::ClassSpec> specs) {
        const std::vector<PageListPool::ClassSpec> classes(specs);
        auto made = PageListPool::create(*world.a.arena, classes);
        EXPECT_TRUE(made);
        pool = std::move(*made);
    }
};

TEST(PageList, TheSmallestThatHoldsIsTaken) {
    Pool p{{5000, 2}, {100000, 1}};
    auto small = p.pool->get(8192);  // 5000 is two pages
    auto large = p.pool->get(8193);
    ASSERT_TRUE(small && large);
    EXPECT_EQ((*small)->capacity(), 8192u);
    EXPECT_EQ((*large)->capacity(), 102400u);
    EXPECT_EQ(address_of((*small)->bytes().data()) % kPageSize, 0u);
    EXPECT_FALSE(p.pool->full());
}

TEST(PageList, ADryClassFallsToALargerOneAndThenToAgain) {
    Pool p{{4096, 1}, {65536, 1}};
    EXPECT_EQ(p.pool->available(1), 2u);
    EXPECT_EQ(p.pool->available(4097), 1u);
    auto one = p.pool->get(1);
    auto two = p.pool->get(1);
    ASSERT_TRUE(one && two);
    EXPECT_EQ((*two)->capacity(), 65536u);
    auto three = p.pool->get(1);
    ASSERT_FALSE(three);
    EXPECT_EQ(three.error().code, Errc::again);
    EXPECT_EQ(p.pool->dry_count(), 1u);
    std::byte* const was = (*one)->bytes().data();
    one->reset();
    auto again = p.pool->get(1);
    ASSERT_TRUE(again);
    EXPECT_EQ((*again)->bytes().data(), was);
}

TEST(PageList, BeyondTheLargestIsTooBigAndNotCounted) {
    Pool p{{4096, 1}};
    EXPECT_EQ(p.pool->largest(), 4096u);
    auto none = p.pool->get(4097);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::too_big);
    EXPECT_EQ(p.pool->dry_count(), 0u);
}

TEST(PageList, RunsAreDisjoint) {
    Pool p{{4096, 3}, {8192, 2}};
    std::vector<Lease<PageList>> all;
    for (int i = 0; i < 5; ++i) {
        auto list = p.pool->get(1);
        ASSERT_TRUE(list);
        test::fill((*list)->bytes(), static_cast<std::uint64_t>(i));
        all.push_back(std::move(*list));
    }
    for (std::uint64_t i = 0; i < all.size(); ++i) {
        std::vector<std::byte> expected(all[i]->capacity());
        test::fill(expected, i);
        EXPECT_TRUE(test::same(all[i]->bytes(), expected));
    }
    all.clear();
    EXPECT_TRUE(p.pool->full());
}

TEST(PageList, ClassesMustAscendAndBeFew) {
    World world;
    const std::array<PageListPool::ClassSpec, 2> descending{{{8192, 1}, {4096, 1}}};
    EXPECT_FALSE(PageListPool::create(*world.a.arena, descending));
    const std::array<PageListPool::ClassSpec, 5> many{
        {{1, 1}, {5000, 1}, {9000, 1}, {13000, 1}, {17000, 1}}};
    EXPECT_FALSE(PageListPool::create(*world.a.arena, many));
    const std::array<PageListPool::ClassSpec, 1> large{{{1u << 30, 4}}};
    auto beyond = PageListPool::create(*world.a.arena, large);
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code, Errc::too_big);
}

TEST(PageListDeathTest, TeardownWithALeaseOutAsserts) {
    Pool p{{4096, 1}};
    auto list = p.pool->get(1);
    ASSERT_TRUE(list);
    EXPECT_DEATH(p.pool.reset(), "full");
}

}  // namespace
}  // namespace nfsrdma::pools
