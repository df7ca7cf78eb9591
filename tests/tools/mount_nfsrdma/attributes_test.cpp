#include "tools/mount_nfsrdma/attributes.hpp"

#include <sys/sysmacros.h>

#include <gtest/gtest.h>

#include "base/clock.hpp"

namespace nfsrdma::mount {
namespace {

constexpr CacheRange kRange{3 * kNsPerSec, 60 * kNsPerSec};

fattr3 file(std::uint64_t size, std::uint32_t time) {
    fattr3 out{};
    out.type = NF3REG;
    out.size = size;
    out.mtime = out.ctime = {time, 0};
    return out;
}

Before before(const fattr3& was) {
    Before out;
    out.known = true;
    out.size = was.size;
    out.mtime = was.mtime;
    out.ctime = was.ctime;
    return out;
}

class AttributesTest : public ::testing::Test {
  protected:
    Change take(const fattr3& told, std::uint64_t order, std::uint64_t at_s,
                const Before& was = {}) {
        return attributes.take(told, order, at_s * kNsPerSec, kRange, was);
    }
    std::uint64_t valid_s(std::uint64_t at_s) const {
        return attributes.valid_for_ns(at_s * kNsPerSec) / kNsPerSec;
    }
    Attributes attributes;
};

TEST_F(AttributesTest, NothingIsKnownAtFirst) {
    EXPECT_FALSE(attributes.known());
    EXPECT_FALSE(attributes.fresh(0));
    EXPECT_EQ(take(file(1, 1), 1, 100), Change::none);
    EXPECT_TRUE(attributes.known());
    EXPECT_EQ(valid_s(100), 3u);
    EXPECT_EQ(valid_s(102), 1u);
    EXPECT_FALSE(attributes.fresh(103 * kNsPerSec));
}

TEST_F(AttributesTest, TimeOutDoublesWhileNothingChanges) {
    std::uint64_t now = 100, order = 1;
    take(file(1, 1), order, now);
    for (const std::uint64_t next : {6u, 12u, 24u, 48u, 60u, 60u}) {
        now += valid_s(now);
        EXPECT_EQ(take(file(1, 1), ++order, now), Change::none);
        EXPECT_EQ(valid_s(now), next);
    }
}

TEST_F(AttributesTest, AskedEarlyItIsBelievedAnewButNotForLonger) {
    take(file(1, 1), 1, 100);
    take(file(1, 1), 2, 101);
    EXPECT_EQ(valid_s(101), 3u);
    EXPECT_EQ(attributes.timeout_ns(), kRange.min_ns);
}

TEST_F(AttributesTest, ChangeMakesTheTimeOutShortAgain) {
    take(file(1, 1), 1, 100);
    take(file(1, 1), 2, 110);
    EXPECT_EQ(valid_s(110), 6u);
    EXPECT_EQ(take(file(2, 2), 3, 120), Change::foreign);
    EXPECT_EQ(valid_s(120), 3u);
}

TEST_F(AttributesTest, ModeAloneIsNoChangeOfData) {
    take(file(1, 1), 1, 100);
    fattr3 told = file(1, 1);
    told.ctime.seconds = 2;
    told.mode = 0600;
    EXPECT_EQ(take(told, 2, 110), Change::none);
    EXPECT_EQ(attributes.now().mode, 0600u);
    EXPECT_EQ(valid_s(110), 3u);
}

TEST_F(AttributesTest, ExpiredIsAskedFor) {
    take(file(1, 1), 1, 100);
    attributes.expire();
    EXPECT_FALSE(attributes.fresh(100 * kNsPerSec));
    EXPECT_TRUE(attributes.known());
}

TEST_F(AttributesTest, CallThatFoundWhatWasKnownExplainsWhatItTells) {
    const fattr3 was = file(10, 1);
    take(was, 1, 100);
    EXPECT_EQ(take(file(20, 2), 2, 101, before(was)), Change::ours);
}

TEST_F(AttributesTest, CallThatFoundSomethingElseShowsAnothersChange) {
    take(file(10, 1), 1, 100);
    attributes.begin_change();
    EXPECT_EQ(take(file(30, 3), 2, 101, before(file(20, 2))), Change::foreign);
    attributes.end_change(2);
    // What it told itself is what the next one is to find.
    attributes.begin_change();
    EXPECT_EQ(take(file(40, 4), 3, 102, before(file(30, 3))), Change::ours);
}

TEST_F(AttributesTest, CallsThatCrossExplainEachOther) {
    take(file(10, 1), 1, 100);
    attributes.begin_change();
    attributes.begin_change();
    EXPECT_EQ(take(file(30, 3), 3, 101, before(file(20, 2))), Change::ours);
    attributes.end_change(3);
    EXPECT_EQ(take(file(40, 4), 2, 101, before(file(10, 1))), Change::ours);
    attributes.end_change(3);
}

TEST_F(AttributesTest, SizeThatIsNotWrittenYetIsNoAnothersChange) {
    take(file(10, 1), 1, 100);
    attributes.note_written(50);
    attributes.begin_change();
    EXPECT_EQ(take(file(20, 2), 2, 101, before(file(10, 1))), Change::ours);
}

TEST_F(AttributesTest, WithoutWhatWasBeforeACallOfOursIsTakenForTheCause) {
    take(file(10, 1), 1, 100);
    attributes.begin_change();
    EXPECT_EQ(take(file(20, 2), 2, 101), Change::ours);
    attributes.end_change(2);
    EXPECT_EQ(take(file(30, 3), 3, 102), Change::foreign);
}

TEST_F(AttributesTest, WhatWasSentBeforeOurChangeEndedMayShowIt) {
    take(file(10, 1), 1, 100);
    attributes.begin_change();
    attributes.end_change(5);
    EXPECT_EQ(take(file(20, 2), 5, 101), Change::ours);
    EXPECT_EQ(take(file(30, 3), 6, 102), Change::foreign);
}

TEST_F(AttributesTest, ChangedSinceTellsWhatMayBeOlder) {
    EXPECT_FALSE(attributes.changed_since(1));
    attributes.begin_change();
    EXPECT_TRUE(attributes.changed_since(100));
    attributes.end_change(7);
    EXPECT_TRUE(attributes.changed_since(7));
    EXPECT_FALSE(attributes.changed_since(8));
}

TEST_F(AttributesTest, OlderAnswerThatCrossedIsPassedOver) {
    take(file(20, 5), 9, 100);
    EXPECT_EQ(take(file(10, 4), 8, 100), Change::none);
    EXPECT_EQ(attributes.now().size, 20u);
    // As old by its number, but newer by what the server says of the object.
    take(file(30, 6), 8, 100);
    EXPECT_EQ(attributes.now().size, 30u);
}

TEST_F(AttributesTest, WrittenDataMovesTheEndOnlyOut) {
    take(file(10, 1), 1, 100);
    attributes.note_written(5);
    EXPECT_EQ(attributes.now().size, 10u);
    attributes.note_written(15);
    EXPECT_EQ(attributes.now().size, 15u);
}

TEST(CacheRangeTest, IsOfTheKindAndNoughtWithNoac) {
    MountOptions options;
    EXPECT_EQ(cache_range(options, NF3REG).min_ns, 3 * kNsPerSec);
    EXPECT_EQ(cache_range(options, NF3LNK).max_ns, 60 * kNsPerSec);
    EXPECT_EQ(cache_range(options, NF3DIR).min_ns, 30 * kNsPerSec);
    options.times.reg_min = 0.5;
    EXPECT_EQ(cache_range(options, NF3REG).min_ns, kNsPerSec / 2);
    options.no_ac = true;
    EXPECT_EQ(cache_range(options, NF3DIR).max_ns, 0u);
    EXPECT_EQ(cache_range(options, NF3REG).max_ns, 0u);
}

TEST(CacheRangeTest, NothingIsFreshWithNoac) {
    Attributes attributes;
    attributes.take(file(1, 1), 1, kNsPerSec, CacheRange{}, Before());
    EXPECT_FALSE(attributes.fresh(kNsPerSec));
    EXPECT_EQ(attributes.valid_for_ns(kNsPerSec), 0u);
    EXPECT_TRUE(attributes.known());
}

TEST(Times, AreComparedAcrossTheEndOfTheirBits) {
    EXPECT_TRUE(is_newer({2, 0}, {1, 9}));
    EXPECT_TRUE(is_newer({1, 9}, {1, 8}));
    EXPECT_FALSE(is_newer({1, 8}, {1, 8}));
    EXPECT_TRUE(is_newer({3, 0}, {UINT32_MAX, 0}));
    EXPECT_TRUE(is_same({1, 2}, {1, 2}));
    EXPECT_FALSE(is_same({1, 2}, {1, 3}));
}

TEST(ToStat, ShowsWhatTheServerTold) {
    fattr3 told = file(1000, UINT32_MAX);
    told.mode = 04755 | 0170000;
    told.nlink = 3;
    told.uid = 7;
    told.gid = 8;
    told.used = 513;
    told.fileid = 0xFEDC'BA98'7654'3210;
    told.mtime.nseconds = 999'999'999;
    const struct stat shown = to_stat(told, 65536);
    EXPECT_EQ(shown.st_ino, told.fileid);
    EXPECT_EQ(shown.st_mode, static_cast<mode_t>(S_IFREG | 04755));
    EXPECT_EQ(shown.st_nlink, 3u);
    EXPECT_EQ(shown.st_uid, 7u);
    EXPECT_EQ(shown.st_gid, 8u);
    EXPECT_EQ(shown.st_size, 1000);
    EXPECT_EQ(shown.st_blocks, 2);
    EXPECT_EQ(shown.st_blksize, 65536);
    EXPECT_EQ(shown.st_mtim.tv_sec, std::int64_t{UINT32_MAX});
    EXPECT_EQ(shown.st_mtim.tv_nsec, 999'999'999);
}

TEST(ToStat, OddNumbersOfAPeerAreNoneOfOurs) {
    fattr3 told = file(UINT64_MAX, 1);
    told.used = UINT64_MAX;
    told.atime = {1, UINT32_MAX};
    const struct stat shown = to_stat(told, 4096);
    EXPECT_EQ(shown.st_size, INT64_MAX);
    EXPECT_GT(shown.st_blocks, 0);
    EXPECT_EQ(shown.st_atim.tv_nsec, 0);
}

TEST(ToStat, DeviceHasItsNumbers) {
    fattr3 told = file(0, 1);
    told.type = NF3CHR;
    told.rdev = {5, 1};
    const struct stat shown = to_stat(told, 4096);
    EXPECT_TRUE(S_ISCHR(shown.st_mode));
    EXPECT_EQ(shown.st_rdev, makedev(5, 1));
}

}  // namespace
}  // namespace nfsrdma::mount
