#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnLink : public NfsTest {};
NR_ON_BACKENDS(OnLink);

TEST_P(OnLink, BothNamesAreOneFile) {
    const Handle file = w.file(w.root, "f", "x");
    const Handle d = w.directory(w.root, "d");
    auto reply = w.link(file, d, "g");
    ASSERT_EQ(reply->status, NFS3_OK);
    EXPECT_EQ(reply->LINK3res_u.resok.file_attributes.post_op_attr_u.attributes.nlink, 2u);
    EXPECT_NE(reply->LINK3res_u.resok.linkdir_wcc.after.attributes_follow, FALSE);
    EXPECT_EQ(w.find(d, "g"), file);
    w.remove(w.root, "f");
    EXPECT_EQ(w.read(file, 0, 1).data, "x");
    EXPECT_EQ(w.attr(file).nlink, 1u);
}

TEST_P(OnLink, LinkOfALinkIsTheLink) {
    w.symlink(w.root, "l", "nowhere");
    EXPECT_EQ(w.link(w.find(w.root, "l"), w.root, "m")->status, NFS3_OK);
    EXPECT_EQ(w.attr(w.find(w.root, "m")).type, NF3LNK);
}

TEST_P(OnLink, WhatIsThereAndDirectories) {
    const Handle file = w.file(w.root, "f"), d = w.directory(w.root, "d");
    EXPECT_EQ(w.link(file, w.root, "d")->status, NFS3ERR_EXIST);
    EXPECT_EQ(w.link(d, w.root, "e")->status, NFS3ERR_PERM);
    EXPECT_EQ(w.link(file, file, "x")->status, NFS3ERR_NOTDIR);
    w.remove(w.root, "f");
    EXPECT_EQ(w.link(file, w.root, "g")->status, NFS3ERR_STALE);
}

}  // namespace
}  // namespace nfsrdma::testing
