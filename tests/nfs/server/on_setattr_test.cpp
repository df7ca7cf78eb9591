#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnSetattr : public NfsTest {};
NR_ON_BACKENDS(OnSetattr);

sattr3 size_of(std::uint64_t size) {
    sattr3 set{};
    set.size.set_it = TRUE;
    set.size.set_size3_u.size = size;
    return set;
}

TEST_P(OnSetattr, SizeGrowsAndShrinks) {
    const Handle file = w.file(w.root, "f", "0123456789");
    auto reply = w.setattr(file, size_of(4));
    EXPECT_EQ(reply->status, NFS3_OK);
    const wcc_data& wcc = reply->SETATTR3res_u.resok.obj_wcc;
    EXPECT_EQ(wcc.before.pre_op_attr_u.attributes.size, 10u);
    EXPECT_EQ(wcc.after.post_op_attr_u.attributes.size, 4u);
    EXPECT_EQ(w.setattr(file, size_of(8))->status, NFS3_OK);
    EXPECT_EQ(w.read(file, 0, 100).data, std::string("0123\0\0\0\0", 8));
}

TEST_P(OnSetattr, SizeOfADirectoryIsRefused) {
    EXPECT_EQ(w.setattr(w.root, size_of(0))->status, NFS3ERR_ISDIR);
}

TEST_P(OnSetattr, GuardMustMatch) {
    const Handle file = w.file(w.root, "f", "x");
    nfstime3 ctime = w.attr(file).ctime;
    EXPECT_EQ(w.setattr(file, size_of(2), &ctime)->status, NFS3_OK);
    nfstime3 wrong = ctime;
    wrong.seconds ^= 1;
    auto reply = w.setattr(file, size_of(3), &wrong);
    EXPECT_EQ(reply->status, NFS3ERR_NOT_SYNC);
    EXPECT_NE(reply->SETATTR3res_u.resfail.obj_wcc.after.attributes_follow, FALSE);
    EXPECT_EQ(w.attr(file).size, 2u);
}

TEST_P(OnSetattr, ModeAndTimes) {
    const Handle file = w.file(w.root, "f");
    sattr3 set{};
    set.mode.set_it = TRUE;
    set.mode.set_mode3_u.mode = 0640;
    set.mtime.set_it = SET_TO_CLIENT_TIME;
    set.mtime.set_mtime_u.mtime = {1'000'000'000, 123'000'000};
    set.atime.set_it = SET_TO_SERVER_TIME;
    EXPECT_EQ(w.setattr(file, set)->status, NFS3_OK);
    const fattr3 attr = w.attr(file);
    EXPECT_EQ(attr.mode, 0640u);
    EXPECT_EQ(attr.mtime.seconds, 1'000'000'000u);
    EXPECT_EQ(attr.mtime.nseconds, 123'000'000u);
}

TEST_P(OnSetattr, TimeThatIsNoneIsInvalid) {
    const Handle file = w.file(w.root, "f");
    sattr3 set{};
    set.mtime.set_it = SET_TO_CLIENT_TIME;
    set.mtime.set_mtime_u.mtime.nseconds = 1'000'000'000;
    auto reply = w.setattr(file, set);
    EXPECT_EQ(reply->status, NFS3ERR_INVAL);
    EXPECT_NE(reply->SETATTR3res_u.resfail.obj_wcc.after.attributes_follow, FALSE);
}

}  // namespace
}  // namespace nfsrdma::testing
