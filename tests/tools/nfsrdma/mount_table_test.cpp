#include "tools/nfsrdma/mount_table.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

constexpr const char* kTable =
    "22 28 0:20 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n"
    "28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "90 28 0:57 / /mnt/a\\040b rw,nosuid,nodev shared:50 master:2 - fuse.nfsrdma "
    "server:/srv/da\\134ta "
    "rw,user_id=1000,group_id=1000,allow_other\n"
    "91 28 0:58 / /mnt rw - tmpfs tmpfs rw\n"
    "92 91 0:59 / /mnt rw - fuse.nfsrdma [::1]:/x rw,user_id=0,group_id=0\n"
    "a line that is none\n"
    "93 28 x:1 / /y rw - t s rw\n"
    "94 28 0:1 / /z rw shared:1\n"
    "95 28 0:60 / /last rw - fuse.other o rw";

TEST(MountTable, LinesAreUnderstood) {
    const std::vector<MountEntry> table = parse_mount_table(kTable);
    ASSERT_EQ(table.size(), 6u);
    const MountEntry& ours = table[2];
    EXPECT_EQ(ours.major, 0u);
    EXPECT_EQ(ours.minor, 57u);
    EXPECT_EQ(ours.root, "/");
    EXPECT_EQ(ours.directory, "/mnt/a b");
    EXPECT_EQ(ours.source, "server:/srv/da\\ta");
    EXPECT_EQ(ours.options, "rw,nosuid,nodev");
    EXPECT_EQ(ours.owner, 1000u);
    EXPECT_TRUE(ours.is_ours());
    EXPECT_FALSE(table[0].is_ours());
    EXPECT_EQ(table[5].directory, "/last");
}

TEST(MountTable, TheLastOneIsSeen) {
    const std::vector<MountEntry> table = parse_mount_table(kTable);
    ASSERT_NE(mount_at(table, "/mnt"), nullptr);
    EXPECT_EQ(mount_at(table, "/mnt")->minor, 59u);
    EXPECT_EQ(mount_at(table, "/mn"), nullptr);
    EXPECT_EQ(mount_at(table, "/mnt/a b")->minor, 57u);
}

TEST(MountTable, PathsAreInTheDeepest) {
    const std::vector<MountEntry> table = parse_mount_table(kTable);
    EXPECT_EQ(mount_of(table, "/mnt/a b/c/d")->minor, 57u);
    EXPECT_EQ(mount_of(table, "/mnt/a bc")->minor, 59u);
    EXPECT_EQ(mount_of(table, "/home")->minor, 1u);
    EXPECT_EQ(mount_of({}, "/home"), nullptr);
}

TEST(MountTable, OfThisMachineCanBeRead) {
    auto table = read_mount_table();
    ASSERT_TRUE(table);
    EXPECT_NE(mount_of(*table, "/"), nullptr);
}

TEST(MountTable, HostileLinesDoNoHarm) {
    for (const char* text : {"", "\n", " ", "1 2 3:4", "1 2 3:4 / ", "1 2 3:4 / /x rw - ", "- - -",
                             "1 2 99999999999:1 / /x rw - a b c", "1 2 3:4 / \\04 rw - a b c\\"})
        EXPECT_LE(parse_mount_table(text).size(), 1u) << text;
}

}  // namespace
}  // namespace nfsrdma::tool
