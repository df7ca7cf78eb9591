#include "tools/mount_nfsrdma/ops_file.hpp"

#include <fcntl.h>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

TEST(OpsFile, RightsOfEachWayToOpen) {
    const RightsWanted read = rights_wanted(O_RDONLY);
    EXPECT_TRUE(read.granted(ACCESS3_READ));
    EXPECT_FALSE(read.granted(ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_EXECUTE));
    const RightsWanted write = rights_wanted(O_WRONLY | O_APPEND);
    EXPECT_TRUE(write.granted(ACCESS3_MODIFY));
    EXPECT_FALSE(write.granted(ACCESS3_READ));
    const RightsWanted both = rights_wanted(O_RDWR);
    EXPECT_TRUE(both.granted(ACCESS3_READ | ACCESS3_MODIFY));
    EXPECT_FALSE(both.granted(ACCESS3_READ));
    EXPECT_FALSE(both.granted(ACCESS3_MODIFY));
}

// A program that may be executed need not be readable.
TEST(OpsFile, WhatIsExecutedNeedsNoOtherRight) {
    const RightsWanted execute = rights_wanted(O_RDONLY | 0x20);
    EXPECT_TRUE(execute.granted(ACCESS3_EXECUTE));
    EXPECT_FALSE(execute.granted(ACCESS3_READ));
}

TEST(OpsFile, OnlyWhatIsOpenForWritingIsWritable) {
    EXPECT_FALSE(is_writable(O_RDONLY));
    EXPECT_TRUE(is_writable(O_WRONLY));
    EXPECT_TRUE(is_writable(O_RDWR | O_APPEND));
}

// cases B114: what is appended goes behind all that is known to be there, never into a hole.
TEST(OpsFile, B114AppendGoesBehindWhatIsThere) {
    constexpr int kAppend = O_WRONLY | O_APPEND;
    EXPECT_EQ(append_offset(0, 236, kAppend), 236u);
    EXPECT_EQ(append_offset(236, 236, kAppend), 236u);
    // Another has cut it off, and the kernel does not know.
    EXPECT_EQ(append_offset(7, 0, kAppend), 0u);
}

TEST(OpsFile, WritesWithoutAppendOrWithDirectStayWhereTheyAre) {
    EXPECT_EQ(append_offset(7, 0, O_WRONLY), 7u);
    EXPECT_EQ(append_offset(7, 236, O_WRONLY), 7u);
    // A later part of one write may come before the earlier ones.
    EXPECT_EQ(append_offset(1 << 20, 0, O_WRONLY | O_APPEND | O_DIRECT), 1u << 20);
    EXPECT_EQ(append_offset(0, 1 << 20, O_WRONLY | O_APPEND | O_DIRECT), 0u);
}

}  // namespace
}  // namespace nfsrdma::mount
