#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnFsinfo : public NfsTest {};
NR_ON_BACKENDS(OnFsinfo);

TEST_P(OnFsinfo, SizesAreTheTransports) {
    auto reply = w.call<FSINFO3args, FSINFO3res>(NFSPROC3_FSINFO, {w.root.fh()});
    ASSERT_EQ(reply->status, NFS3_OK);
    const FSINFO3resok& ok = reply->FSINFO3res_u.resok;
    EXPECT_EQ(ok.rtmax, 1u << 20);
    EXPECT_EQ(ok.wtmax, 1u << 20);
    EXPECT_EQ(ok.rtpref, ok.rtmax);
    EXPECT_EQ(ok.dtpref, 64u << 10);
    EXPECT_EQ(ok.properties, 0x1bu);
    EXPECT_GE(ok.maxfilesize, 1u << 20);
    EXPECT_EQ(ok.time_delta.nseconds, 1u);
}

}  // namespace
}  // namespace nfsrdma::testing
