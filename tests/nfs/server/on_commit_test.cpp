#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnCommit : public NfsTest {};
NR_ON_BACKENDS(OnCommit);

TEST_P(OnCommit, FlushesAndTells) {
    const Handle file = w.file(w.root, "f", "abc");
    auto reply = w.call<COMMIT3args, COMMIT3res>(NFSPROC3_COMMIT, {file.fh(), 0, 0});
    ASSERT_EQ(reply->status, NFS3_OK);
    const wcc_data& wcc = reply->COMMIT3res_u.resok.file_wcc;
    EXPECT_EQ(wcc.before.pre_op_attr_u.attributes.size, 3u);
    EXPECT_EQ(wcc.after.post_op_attr_u.attributes.size, 3u);
}

TEST_P(OnCommit, OnlyOfFiles) {
    auto reply = w.call<COMMIT3args, COMMIT3res>(NFSPROC3_COMMIT, {w.root.fh(), 0, 0});
    EXPECT_EQ(reply->status, NFS3ERR_ISDIR);
    EXPECT_NE(reply->COMMIT3res_u.resfail.file_wcc.after.attributes_follow, FALSE);
    const Handle file = w.file(w.root, "f");
    w.remove(w.root, "f");
    auto stale = w.call<COMMIT3args, COMMIT3res>(NFSPROC3_COMMIT, {file.fh(), 0, 0});
    EXPECT_EQ(stale->status, NFS3ERR_STALE);
}

}  // namespace
}  // namespace nfsrdma::testing
