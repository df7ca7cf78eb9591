#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnAccess : public NfsTest {};
NR_ON_BACKENDS(OnAccess);

constexpr std::uint32_t kAll = 0x3f;

TEST_P(OnAccess, OwnerMayDoWhatFitsTheType) {
    const Handle file = w.file(w.root, "f");
    auto reply = w.call<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {file.fh(), kAll});
    ASSERT_EQ(reply->status, NFS3_OK);
    const std::uint32_t granted = reply->ACCESS3res_u.resok.access;
    EXPECT_EQ(granted & (ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND),
              unsigned{ACCESS3_READ | ACCESS3_MODIFY | ACCESS3_EXTEND});
    EXPECT_EQ(granted & (ACCESS3_LOOKUP | ACCESS3_DELETE), 0u);
    auto dir = w.call<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {w.root.fh(), kAll});
    EXPECT_EQ(dir->ACCESS3res_u.resok.access & (ACCESS3_LOOKUP | ACCESS3_DELETE),
              unsigned{ACCESS3_LOOKUP | ACCESS3_DELETE});
    EXPECT_EQ(dir->ACCESS3res_u.resok.access & ACCESS3_EXECUTE, 0u);
}

TEST_P(OnAccess, OnlyWhatWasAskedAndDefinedIsGranted) {
    const Handle file = w.file(w.root, "f");
    for (const std::uint32_t asked : {0u, 1u, 0xffffffc0u}) {
        auto reply = w.call<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {file.fh(), asked});
        EXPECT_EQ(reply->ACCESS3res_u.resok.access, asked & 1u);
    }
}

TEST_P(OnAccess, StaleHandle) {
    const Handle file = w.file(w.root, "f");
    w.remove(w.root, "f");
    auto reply = w.call<ACCESS3args, ACCESS3res>(NFSPROC3_ACCESS, {file.fh(), kAll});
    EXPECT_EQ(reply->status, NFS3ERR_STALE);
    EXPECT_EQ(reply->ACCESS3res_u.resfail.obj_attributes.attributes_follow, FALSE);
}

}  // namespace
}  // namespace nfsrdma::testing
