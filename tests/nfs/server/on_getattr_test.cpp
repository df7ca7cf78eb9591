#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnGetattr : public NfsTest {};
NR_ON_BACKENDS(OnGetattr);

TEST_P(OnGetattr, RootIsADirectory) {
    const fattr3 attr = w.attr(w.root);
    EXPECT_EQ(attr.type, NF3DIR);
    EXPECT_GE(attr.nlink, 2u);
    EXPECT_NE(attr.fileid, 0u);
}

TEST_P(OnGetattr, SizeAndTypeOfAFile) {
    const Handle file = w.file(w.root, "f", "12345");
    EXPECT_EQ(w.attr(file).type, NF3REG);
    EXPECT_EQ(w.attr(file).size, 5u);
    EXPECT_EQ(w.attr(file).fsid, w.attr(w.root).fsid);
}

TEST_P(OnGetattr, BadHandlesAreRefused) {
    EXPECT_EQ(w.getattr(Handle{})->status, NFS3ERR_BADHANDLE);
    EXPECT_EQ(w.getattr(Handle{std::vector<char>(64, 'x')})->status, NFS3ERR_BADHANDLE);
    Handle other = w.root;
    other.bytes[4] ^= 1;  // another export
    EXPECT_EQ(w.getattr(other)->status, NFS3ERR_STALE);
    Handle forged = w.root;
    forged.bytes[12] ^= 1;  // another fileid
    EXPECT_EQ(w.getattr(forged)->status, NFS3ERR_STALE);
}

}  // namespace
}  // namespace nfsrdma::testing
