#include "tools/mount_nfsrdma/ops_attributes.hpp"

#include <sys/statvfs.h>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

TEST(ToSattr3, OnlyWhatIsAskedForIsSet) {
    struct stat to {};
    to.st_mode = S_IFREG | 06755;
    to.st_uid = 1;
    to.st_gid = 2;
    to.st_size = 3;
    EXPECT_FALSE(changes_any(to_sattr3(to, 0)));
    EXPECT_FALSE(changes_any(to_sattr3(to, FUSE_SET_ATTR_CTIME)));
    sattr3 set = to_sattr3(to, FUSE_SET_ATTR_MODE);
    EXPECT_TRUE(changes_any(set));
    EXPECT_EQ(set.mode.set_mode3_u.mode, 06755u);
    EXPECT_EQ(set.uid.set_it, FALSE);
    EXPECT_EQ(set.size.set_it, FALSE);
    set = to_sattr3(to, FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID | FUSE_SET_ATTR_SIZE);
    EXPECT_EQ(set.mode.set_it, FALSE);
    EXPECT_EQ(set.uid.set_uid3_u.uid, 1u);
    EXPECT_EQ(set.gid.set_gid3_u.gid, 2u);
    EXPECT_EQ(set.size.set_size3_u.size, 3u);
    EXPECT_EQ(set.atime.set_it, DONT_CHANGE);
    EXPECT_EQ(set.mtime.set_it, DONT_CHANGE);
}

TEST(ToSattr3, NowIsTheServers) {
    struct stat to {};
    to.st_atim = {5, 6};
    to.st_mtim = {7, 8};
    sattr3 set = to_sattr3(to, FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME);
    EXPECT_EQ(set.atime.set_it, SET_TO_SERVER_TIME);
    EXPECT_EQ(set.mtime.set_it, SET_TO_CLIENT_TIME);
    EXPECT_EQ(set.mtime.set_mtime_u.mtime.seconds, 7u);
    EXPECT_EQ(set.mtime.set_mtime_u.mtime.nseconds, 8u);
    set = to_sattr3(to, FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_MTIME_NOW);
    EXPECT_EQ(set.atime.set_it, SET_TO_CLIENT_TIME);
    EXPECT_EQ(set.atime.set_atime_u.atime.seconds, 5u);
    EXPECT_EQ(set.mtime.set_it, SET_TO_SERVER_TIME);
}

TEST(ToSattr3, TimesBeyond32BitsAreTheNearest) {
    struct stat to {};
    const auto seconds_of = [&](std::int64_t second) {
        to.st_mtim = {second, 5};
        return to_sattr3(to, FUSE_SET_ATTR_MTIME).mtime.set_mtime_u.mtime.seconds;
    };
    EXPECT_EQ(seconds_of(-1), 0u);
    EXPECT_EQ(seconds_of(0), 0u);
    EXPECT_EQ(seconds_of(std::int64_t{INT32_MAX} + 1), 0x8000'0000u);
    EXPECT_EQ(seconds_of(UINT32_MAX), UINT32_MAX);
    EXPECT_EQ(seconds_of(std::int64_t{UINT32_MAX} + 1), UINT32_MAX);
}

TEST(TakesSetId, OnlyWhereNothingElseChanges) {
    EXPECT_TRUE(takes_set_id(04755, 0755));
    EXPECT_TRUE(takes_set_id(06755, 0755));
    EXPECT_TRUE(takes_set_id(06755, 02755));
    EXPECT_TRUE(takes_set_id(0106755, 0755));
    EXPECT_FALSE(takes_set_id(0755, 0755));
    EXPECT_FALSE(takes_set_id(0755, 04755));
    EXPECT_FALSE(takes_set_id(04755, 02755));
    EXPECT_FALSE(takes_set_id(04755, 0700));
    EXPECT_FALSE(takes_set_id(05755, 0755));
}

TEST(ToStatvfs, CountsInBlocksThatAreThere) {
    FSSTAT3resok told{};
    told.tbytes = 100 * 4096 + 4095;
    told.fbytes = 4096;
    told.abytes = 4095;
    told.tfiles = UINT64_MAX;
    told.ffiles = 6;
    told.afiles = 5;
    const struct statvfs shown = to_statvfs(told, 255);
    EXPECT_EQ(shown.f_frsize, 4096u);
    EXPECT_EQ(shown.f_blocks, 100u);
    EXPECT_EQ(shown.f_bfree, 1u);
    EXPECT_EQ(shown.f_bavail, 0u);
    EXPECT_EQ(shown.f_files, UINT64_MAX);
    EXPECT_EQ(shown.f_ffree, 6u);
    EXPECT_EQ(shown.f_favail, 5u);
    EXPECT_EQ(shown.f_namemax, 255u);
}

TEST(LinkText, WithANulInsideIsNone) {
    const auto whole = [](const std::string& text) {
        std::array<char, 16> room{};
        std::copy(text.begin(), text.end(), room.begin());
        return is_whole_text(room);
    };
    EXPECT_TRUE(whole("target"));
    EXPECT_TRUE(whole("a"));
    EXPECT_TRUE(whole(std::string(15, 'x')));
    EXPECT_FALSE(whole(""));
    EXPECT_FALSE(whole(std::string("a\0b", 3)));
    EXPECT_FALSE(whole(std::string("\0b", 2)));
}

}  // namespace
}  // namespace nfsrdma::mount
