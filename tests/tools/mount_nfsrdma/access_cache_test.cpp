#include "tools/mount_nfsrdma/access_cache.hpp"

#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

constexpr std::uint32_t kChange = ACCESS3_MODIFY | ACCESS3_EXTEND;

Caller caller() {
    return std::make_shared<const sunrpc::AuthSys>();
}

TEST(Access, DirectoryIsWrittenByWhoMayAddAndRemoveNames) {
    EXPECT_TRUE(may_access(NF3DIR, kChange | ACCESS3_DELETE, W_OK));
    EXPECT_FALSE(may_access(NF3DIR, kChange, W_OK));
    EXPECT_TRUE(may_access(NF3DIR, ACCESS3_LOOKUP, X_OK));
    EXPECT_FALSE(may_access(NF3DIR, ACCESS3_EXECUTE, X_OK));
    EXPECT_TRUE(may_access(NF3DIR, ACCESS3_READ | ACCESS3_LOOKUP, R_OK | X_OK));
}

TEST(Access, FileIsWrittenByWhoMayChangeAndExtendIt) {
    EXPECT_TRUE(may_access(NF3REG, kChange, W_OK));
    EXPECT_FALSE(may_access(NF3REG, ACCESS3_EXTEND, W_OK));
    EXPECT_FALSE(may_access(NF3REG, ACCESS3_MODIFY, W_OK));
    EXPECT_TRUE(may_access(NF3REG, ACCESS3_EXECUTE, X_OK));
    EXPECT_FALSE(may_access(NF3REG, ACCESS3_LOOKUP, X_OK));
    EXPECT_FALSE(may_access(NF3REG, ACCESS3_READ, R_OK | X_OK));
}

TEST(Access, PipeHasNoEndToExtend) {
    EXPECT_TRUE(may_access(NF3FIFO, ACCESS3_MODIFY, W_OK));
    EXPECT_FALSE(may_access(NF3FIFO, ACCESS3_EXTEND, W_OK));
}

TEST(Access, NothingWantedIsGranted) {
    EXPECT_TRUE(may_access(NF3REG, 0, F_OK));
}

TEST(Access, AsksForAllThatMayAccessLooksAt) {
    EXPECT_TRUE(may_access(NF3DIR, access_rights(NF3DIR), R_OK | W_OK | X_OK));
    EXPECT_TRUE(may_access(NF3REG, access_rights(NF3REG), R_OK | W_OK | X_OK));
    EXPECT_EQ(access_rights(NF3REG) & (ACCESS3_LOOKUP | ACCESS3_DELETE), 0u);
    EXPECT_EQ(access_rights(NF3DIR) & ACCESS3_EXECUTE, 0u);
}

TEST(AccessCache, AnswersForWhomItWasToldUntilTime) {
    AccessCache cache;
    const Caller one = caller(), other = caller();
    cache.note(one, {5, 6}, ACCESS3_READ, 100);
    EXPECT_EQ(cache.find(one, {5, 6}, 99), ACCESS3_READ);
    EXPECT_FALSE(cache.find(one, {5, 6}, 100));
    EXPECT_FALSE(cache.find(other, {5, 6}, 99));
}

TEST(AccessCache, OtherCtimeMayBeAnotherMode) {
    AccessCache cache;
    const Caller one = caller();
    cache.note(one, {5, 6}, ACCESS3_READ, 100);
    EXPECT_FALSE(cache.find(one, {5, 7}, 99));
    EXPECT_FALSE(cache.find(one, {4, 6}, 99));
}

TEST(AccessCache, NewAnswerTakesThePlaceOfTheOld) {
    AccessCache cache;
    const Caller one = caller();
    for (std::uint32_t i = 0; i < 2 * AccessCache::kPlaces; ++i)
        cache.note(one, {5, i}, i, 100);
    EXPECT_FALSE(cache.find(one, {5, 0}, 0));
    EXPECT_EQ(cache.find(one, {5, 2 * AccessCache::kPlaces - 1}, 0), 2 * AccessCache::kPlaces - 1);
}

TEST(AccessCache, ForgetsWhoWasToldFirst) {
    AccessCache cache;
    std::vector<Caller> callers;
    for (std::uint32_t i = 0; i <= AccessCache::kPlaces; ++i) {
        callers.push_back(caller());
        cache.note(callers.back(), {}, i, 100);
    }
    EXPECT_FALSE(cache.find(callers.front(), {}, 0));
    EXPECT_EQ(cache.find(callers[1], {}, 0), 1u);
    EXPECT_EQ(cache.find(callers.back(), {}, 0), AccessCache::kPlaces);
}

}  // namespace
}  // namespace nfsrdma::mount
