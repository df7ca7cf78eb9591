#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnMkdir : public NfsTest {};
NR_ON_BACKENDS(OnMkdir);

TEST_P(OnMkdir, MakesADirectoryWithItsMode) {
    auto reply = w.mkdir(w.root, "d", 0711);
    ASSERT_EQ(reply->status, NFS3_OK);
    const MKDIR3resok& ok = reply->MKDIR3res_u.resok;
    EXPECT_EQ(ok.obj_attributes.post_op_attr_u.attributes.type, NF3DIR);
    EXPECT_EQ(ok.obj_attributes.post_op_attr_u.attributes.mode, 0711u);
    const auto before = ok.dir_wcc.before.pre_op_attr_u.attributes.ctime;
    const auto after = ok.dir_wcc.after.post_op_attr_u.attributes.ctime;
    EXPECT_LE(before.seconds, after.seconds);
}

TEST_P(OnMkdir, WhatIsThereAndWhatIsNoDirectory) {
    w.directory(w.root, "d");
    auto reply = w.mkdir(w.root, "d");
    EXPECT_EQ(reply->status, NFS3ERR_EXIST);
    EXPECT_NE(reply->MKDIR3res_u.resfail.dir_wcc.before.attributes_follow, FALSE);
    const Handle file = w.file(w.root, "f");
    EXPECT_EQ(w.mkdir(w.root, "f")->status, NFS3ERR_EXIST);
    EXPECT_EQ(w.mkdir(file, "x")->status, NFS3ERR_NOTDIR);
}

}  // namespace
}  // namespace nfsrdma::testing
