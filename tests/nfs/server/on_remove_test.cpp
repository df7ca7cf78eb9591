#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnRemove : public NfsTest {};
class B87 : public NfsTest {};
NR_ON_BACKENDS(OnRemove);
NR_ON_BACKENDS(B87);

TEST_P(OnRemove, NameIsGoneAndWccTells) {
    w.file(w.root, "f");
    auto reply = w.remove(w.root, "f");
    EXPECT_EQ(reply->status, NFS3_OK);
    EXPECT_NE(reply->REMOVE3res_u.resok.dir_wcc.before.attributes_follow, FALSE);
    EXPECT_NE(reply->REMOVE3res_u.resok.dir_wcc.after.attributes_follow, FALSE);
    auto again = w.remove(w.root, "f");
    EXPECT_EQ(again->status, NFS3ERR_NOENT);
    EXPECT_NE(again->REMOVE3res_u.resfail.dir_wcc.after.attributes_follow, FALSE);
}

TEST_P(B87, RemoveAndRmdirKeepToTheirTypes) {
    const Handle d = w.directory(w.root, "d");
    w.file(w.root, "f");
    w.file(d, "inner");
    w.symlink(w.root, "l", "d");
    EXPECT_EQ(w.remove(w.root, "d")->status, NFS3ERR_ISDIR);
    EXPECT_EQ(w.rmdir(w.root, "f")->status, NFS3ERR_NOTDIR);
    EXPECT_EQ(w.rmdir(w.root, "l")->status, NFS3ERR_NOTDIR);
    EXPECT_EQ(w.rmdir(w.root, "d")->status, NFS3ERR_NOTEMPTY);
    EXPECT_EQ(w.remove(w.root, "l")->status, NFS3_OK);
    EXPECT_EQ(w.remove(d, "inner")->status, NFS3_OK);
    EXPECT_EQ(w.rmdir(w.root, "d")->status, NFS3_OK);
}

}  // namespace
}  // namespace nfsrdma::testing
