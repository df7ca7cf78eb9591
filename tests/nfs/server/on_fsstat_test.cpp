#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class B97 : public NfsTest {};
NR_ON_BACKENDS(B97);

TEST_P(B97, FiguresAreTheBackends) {
    auto reply = w.call<FSSTAT3args, FSSTAT3res>(NFSPROC3_FSSTAT, {w.root.fh()});
    ASSERT_EQ(reply->status, NFS3_OK);
    nfs::StatFs fs;
    ASSERT_EQ(w.vfs->statfs({}, w.vfs->root(), fs), NFS3_OK);
    const FSSTAT3resok& ok = reply->FSSTAT3res_u.resok;
    EXPECT_EQ(ok.tbytes, fs.total_bytes);
    EXPECT_EQ(ok.tfiles, fs.total_files);
    EXPECT_LE(ok.abytes, ok.tbytes);
    EXPECT_LE(ok.fbytes, ok.tbytes);
    EXPECT_NE(ok.obj_attributes.attributes_follow, FALSE);
}

TEST_P(B97, StaleHandle) {
    const Handle d = w.directory(w.root, "d");
    w.rmdir(w.root, "d");
    auto reply = w.call<FSSTAT3args, FSSTAT3res>(NFSPROC3_FSSTAT, {d.fh()});
    EXPECT_EQ(reply->status, NFS3ERR_STALE);
}

}  // namespace
}  // namespace nfsrdma::testing
