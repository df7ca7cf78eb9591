#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include "pools/page_list.hpp"
#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

using test::World;

TEST(Arena, CarvesPageAlignedPiecesThatDoNotOverlap) {
    World world;
    auto arena = Arena::create(*world.a.pd, 5 * kPageSize - 3, Registration::bind);
    ASSERT_TRUE(arena);
    EXPECT_EQ((*arena)->memory().size(), 5u * kPageSize);
    auto first = (*arena)->carve(1);
    auto second = (*arena)->carve(kPageSize + 1);
    ASSERT_TRUE(first && second);
    EXPECT_EQ(address_of(first->data()) % kPageSize, 0u);
    EXPECT_EQ(second->data(), first->data() + kPageSize);
    EXPECT_TRUE((*arena)->carve(2 * kPageSize));
    auto beyond = (*arena)->carve(1);
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code, Errc::too_big);
}

TEST(Arena, LargeOnesBeginAtAHugePage) {
    World world;
    auto arena = Arena::create(*world.a.pd, (2 << 20) + 1, Registration::bind);
    ASSERT_TRUE(arena);
    EXPECT_EQ(address_of((*arena)->memory().data()) % (2 << 20), 0u);
    (*arena)->memory().front() = std::byte{1};
    (*arena)->memory().back() = std::byte{2};
}

TEST(Arena, ContainsWholePiecesOnly) {
    World world;
    auto arena = Arena::create(*world.a.pd, 2 * kPageSize, Registration::bind);
    ASSERT_TRUE(arena);
    const auto memory = (*arena)->memory();
    EXPECT_TRUE((*arena)->contains(memory));
    EXPECT_TRUE((*arena)->contains(memory.last(1)));
    EXPECT_FALSE((*arena)->contains({memory.data() + 1, memory.size()}));
    EXPECT_FALSE((*arena)->contains({memory.data() - 1, 2}));
    EXPECT_FALSE((*arena)->contains({memory.data() + memory.size() + 1, 0}));
}

TEST(Arena, OnlyStaticRegistrationHasARemoteKey) {
    World world;
    auto bound = Arena::create(*world.a.pd, kPageSize, Registration::automatic);
    auto fixed = Arena::create(*world.a.pd, kPageSize, Registration::fixed);
    ASSERT_TRUE(bound && fixed);
    EXPECT_EQ((*bound)->static_rkey(), verbs::Rkey{0});
    EXPECT_NE((*fixed)->static_rkey(), verbs::Rkey{0});
}

TEST(Arena, RefusedRegistrationNamesTheLimitOfLockableMemory) {
    World world;
    world.a.pd->register_errno = ENOMEM;
    auto arena = Arena::create(*world.a.pd, kPageSize, Registration::bind);
    ASSERT_FALSE(arena);
    EXPECT_NE(std::string(arena.error().what).find("RLIMIT_MEMLOCK"), std::string::npos);
    world.a.pd->register_errno = ENODEV;
    auto other = Arena::create(*world.a.pd, kPageSize, Registration::bind);
    ASSERT_FALSE(other);
    EXPECT_EQ(std::string(other.error().what).find("RLIMIT_MEMLOCK"), std::string::npos);
}

TEST(Arena, OfNoBytesIsRefused) {
    World world;
    EXPECT_FALSE(Arena::create(*world.a.pd, 0, Registration::bind));
}

}  // namespace
}  // namespace nfsrdma::pools
