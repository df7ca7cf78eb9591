#include "nfs/group_cache.hpp"

#include <algorithm>
#include <atomic>
#include <grp.h>
#include <pwd.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

std::atomic<int> asked = 0;
std::atomic<std::uint32_t> extra = 0;

// User n has groups n, n+1 .. n+39, and whatever `extra` says; 7 does not exist.
bool lookup(std::uint32_t uid, std::vector<std::uint32_t>& out) {
    ++asked;
    if (uid == 7) return false;
    for (std::uint32_t i = 0; i < 40; ++i)
        out.push_back(uid + i);
    if (extra != 0) out.push_back(extra);
    return true;
}

class GroupCacheTest : public ::testing::Test {
  protected:
    GroupCacheTest() {
        asked = 0;
        extra = 0;
        options.lookup = lookup;
        options.known_ns = 100;
        options.unknown_ns = 10;
    }
    ManualClock clock;
    GroupCache::Options options;
    std::vector<std::uint32_t> groups;
};

TEST_F(GroupCacheTest, AsksOnceUntilItExpires) {
    GroupCache cache(clock, options);
    EXPECT_FALSE(cache.has(1000));
    const std::uint64_t serial = cache.get(1000, 0, groups);
    EXPECT_EQ(groups.size(), 40u);
    EXPECT_TRUE(cache.has(1000));
    EXPECT_EQ(cache.get(1000, 0, groups), serial);
    EXPECT_EQ(asked, 1);
    clock.advance_to(clock.now_ns() + 100);
    EXPECT_FALSE(cache.has(1000));
    EXPECT_EQ(cache.get(1000, serial, groups), serial);  // asked anew, and nothing changed
    EXPECT_EQ(asked, 2);
}

TEST_F(GroupCacheTest, SerialChangesWithTheGroups) {
    GroupCache cache(clock, options);
    const std::uint64_t serial = cache.get(1000, 0, groups);
    extra = 5;
    clock.advance_to(clock.now_ns() + 100);
    EXPECT_NE(cache.get(1000, serial, groups), serial);
    EXPECT_EQ(groups.size(), 41u);
}

TEST_F(GroupCacheTest, KnownGroupsAreNotCopied) {
    GroupCache cache(clock, options);
    const std::uint64_t serial = cache.get(1000, 0, groups);
    groups.clear();
    EXPECT_EQ(cache.get(1000, serial, groups), serial);
    EXPECT_TRUE(groups.empty());
}

TEST_F(GroupCacheTest, UserWhoDoesNotExistHasNoGroupsForAShorterWhile) {
    GroupCache cache(clock, options);
    groups = {1, 2, 3};
    cache.get(7, 0, groups);
    EXPECT_TRUE(groups.empty());
    EXPECT_TRUE(cache.has(7));
    clock.advance_to(clock.now_ns() + 10);
    EXPECT_FALSE(cache.has(7));
}

TEST_F(GroupCacheTest, IsBounded) {
    options.users_max = 32;  // two a shard
    GroupCache cache(clock, options);
    for (std::uint32_t uid = 1000; uid < 1000 + 16 * 10; ++uid) {
        clock.advance_to(clock.now_ns() + 1);
        options.known_ns = 1000;
        cache.get(uid, 0, groups);
    }
    std::uint32_t known = 0;
    for (std::uint32_t uid = 1000; uid < 1000 + 16 * 10; ++uid)
        known += cache.has(uid) ? 1 : 0;
    EXPECT_EQ(known, 32u);
    EXPECT_TRUE(cache.has(1159));
    EXPECT_FALSE(cache.has(1000));
}

TEST_F(GroupCacheTest, SystemIsAskedWithoutALookup) {
    options.lookup = nullptr;
    GroupCache cache(clock, options);
    cache.get(0, 0, groups);
    EXPECT_NE(std::find(groups.begin(), groups.end(), 0u), groups.end());  // root's
    cache.get(0x7ffffff0, 0, groups);
    EXPECT_TRUE(groups.empty());
}

}  // namespace
}  // namespace nfsrdma::nfs
