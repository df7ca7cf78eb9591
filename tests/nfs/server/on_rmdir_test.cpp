#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnRmdir : public NfsTest {};
NR_ON_BACKENDS(OnRmdir);

TEST_P(OnRmdir, RemovedDirectoryIsStale) {
    const Handle d = w.directory(w.root, "d");
    auto reply = w.rmdir(w.root, "d");
    EXPECT_EQ(reply->status, NFS3_OK);
    EXPECT_NE(reply->RMDIR3res_u.resok.dir_wcc.after.attributes_follow, FALSE);
    EXPECT_EQ(w.getattr(d)->status, NFS3ERR_STALE);
    EXPECT_EQ(w.readdir(d, 0, 4096).status, NFS3ERR_STALE);
    EXPECT_EQ(w.rmdir(w.root, "d")->status, NFS3ERR_NOENT);
}

}  // namespace
}  // namespace nfsrdma::testing
