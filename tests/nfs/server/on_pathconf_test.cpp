#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnPathconf : public NfsTest {};
NR_ON_BACKENDS(OnPathconf);

TEST_P(OnPathconf, TellsTheTruth) {
    auto reply = w.call<PATHCONF3args, PATHCONF3res>(NFSPROC3_PATHCONF, {w.root.fh()});
    ASSERT_EQ(reply->status, NFS3_OK);
    const PATHCONF3resok& ok = reply->PATHCONF3res_u.resok;
    EXPECT_EQ(ok.name_max, 255u);
    EXPECT_GE(ok.linkmax, 1u);
    EXPECT_EQ(ok.no_trunc, TRUE);
    EXPECT_EQ(ok.case_insensitive, FALSE);
    EXPECT_EQ(ok.case_preserving, TRUE);
}

}  // namespace
}  // namespace nfsrdma::testing
