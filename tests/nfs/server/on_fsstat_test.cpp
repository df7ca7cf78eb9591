#include <sys/statvfs.h>

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

// df within a block, and figures beyond 16 TiB, where 32 bits of blocks end.
TEST(B97Figures, AreThoseOfStatvfsAndMayBeHuge) {
    {
        NfsWorld w(Backend::posix);
        auto reply = w.call<FSSTAT3args, FSSTAT3res>(NFSPROC3_FSSTAT, {w.root.fh()});
        ASSERT_EQ(reply->status, NFS3_OK);
        struct statvfs fs {};
        ASSERT_EQ(::statvfs(w.dir.path().c_str(), &fs), 0);
        EXPECT_EQ(reply->FSSTAT3res_u.resok.tbytes, fs.f_blocks * fs.f_frsize);
        EXPECT_EQ(reply->FSSTAT3res_u.resok.tfiles, fs.f_files);
        auto names = w.call<PATHCONF3args, PATHCONF3res>(NFSPROC3_PATHCONF, {w.root.fh()});
        EXPECT_EQ(names->PATHCONF3res_u.resok.name_max, 255u);
    }
    nfs::VfsMemOptions huge;
    huge.capacity_bytes = 1ull << 60;
    NfsWorld w(Backend::mem, {}, huge);
    w.file(w.root, "f", std::string(1000, 'x'));
    auto reply = w.call<FSSTAT3args, FSSTAT3res>(NFSPROC3_FSSTAT, {w.root.fh()});
    ASSERT_EQ(reply->status, NFS3_OK);
    EXPECT_EQ(reply->FSSTAT3res_u.resok.tbytes, 1ull << 60);
    EXPECT_EQ(reply->FSSTAT3res_u.resok.fbytes, (1ull << 60) - 1000);
    EXPECT_EQ(reply->FSSTAT3res_u.resok.abytes, (1ull << 60) - 1000);
}

}  // namespace
}  // namespace nfsrdma::testing
