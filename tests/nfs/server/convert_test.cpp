#include "nfs/server/convert.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

TEST(Convert, AttributesKeepEveryField) {
    Attr attr;
    attr.type = NF3CHR;
    attr.mode = 04755;
    attr.nlink = 3;
    attr.uid = 4;
    attr.gid = 5;
    attr.size = 1ull << 40;
    attr.used = 4096;
    attr.rdev_major = 6;
    attr.rdev_minor = 7;
    attr.fsid = 8;
    attr.fileid = 9;
    attr.atime = {1, 2};
    attr.mtime = {3, 4};
    attr.ctime = {0xF0000000, 5};
    const fattr3 out = to_fattr3(attr);
    EXPECT_EQ(out.type, NF3CHR);
    EXPECT_EQ(out.mode, 04755u);
    EXPECT_EQ(out.size, 1ull << 40);
    EXPECT_EQ(out.rdev.specdata2, 7u);
    EXPECT_EQ(out.fileid, 9u);
    EXPECT_EQ(out.mtime.seconds, 3u);
    EXPECT_EQ(to_time(out.ctime), attr.ctime);  // seconds have 32 bits
}

TEST(Convert, UnknownAttributesDoNotFollow) {
    EXPECT_EQ(to_post_op(std::nullopt).attributes_follow, FALSE);
    const wcc_data wcc = to_wcc({});
    EXPECT_EQ(wcc.before.attributes_follow, FALSE);
    EXPECT_EQ(wcc.after.attributes_follow, FALSE);
}

TEST(Convert, OnlyWhatIsSetIsSet) {
    sattr3 from{};
    SetAttr to;
    EXPECT_EQ(to_set_attr(from, to), NFS3_OK);
    EXPECT_FALSE(to.mode || to.uid || to.gid || to.size);
    EXPECT_EQ(to.atime.how, DONT_CHANGE);
    from.size.set_it = TRUE;
    from.size.set_size3_u.size = 5;
    from.mtime.set_it = SET_TO_SERVER_TIME;
    EXPECT_EQ(to_set_attr(from, to), NFS3_OK);
    EXPECT_EQ(to.size, 5u);
    EXPECT_EQ(to.mtime.how, SET_TO_SERVER_TIME);
}

TEST(Convert, NanosecondsBeyondASecondAreInvalid) {
    for (const std::uint32_t nseconds : {1'000'000'000u, 0x3fffffffu, 0x3ffffffeu, 0xffffffffu}) {
        sattr3 from{};
        from.atime.set_it = SET_TO_CLIENT_TIME;
        from.atime.set_atime_u.atime.nseconds = nseconds;
        SetAttr to;
        EXPECT_EQ(to_set_attr(from, to), NFS3ERR_INVAL) << nseconds;
    }
}

TEST(Convert, EnumeratorThatIsNoneIsInvalid) {
    for (const std::int32_t value : {3, -1, 0x7fffffff}) {
        sattr3 from{};
        std::memcpy(&from.mtime.set_it, &value, sizeof value);
        SetAttr to;
        EXPECT_EQ(to_set_attr(from, to), NFS3ERR_INVAL) << value;
        EXPECT_EQ(to.mtime.how, DONT_CHANGE);
        EXPECT_EQ(wire_value(from.mtime.set_it), value);
    }
}

TEST(Convert, VerifierKeepsAllBits) {
    const createverf3 verf = {'\xff', '\xff', '\xff', '\xff', '\x80', 0, 0, 1};
    EXPECT_EQ(to_verifier(verf), 0xFFFFFFFF80000001ull);
}

}  // namespace
}  // namespace nfsrdma::nfs
