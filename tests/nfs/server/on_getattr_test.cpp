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
    // No bit of it may be another: who changes the export or the fileid has no handle any more.
    for (std::size_t i = 0; i < w.root.bytes.size(); ++i) {
        Handle forged = w.root;
        forged.bytes[i] ^= 1;
        EXPECT_EQ(w.getattr(forged)->status, NFS3ERR_BADHANDLE) << i;
    }
    const auto of = [this](std::uint32_t exported, nfs::NodeId id) {
        nfs::FhBytes fh = nfs::encode_fh(w.server.handle_key(), {exported, id});
        return Handle::of(nfs::to_fh3(fh));
    };
    const std::uint32_t exported = nfs::export_id_of("/export");
    EXPECT_EQ(w.getattr(of(exported, w.vfs->root()))->status, NFS3_OK);
    EXPECT_EQ(w.getattr(of(exported + 1, w.vfs->root()))->status, NFS3ERR_STALE);
    EXPECT_EQ(w.getattr(of(exported, {~std::uint64_t{0}, 1}))->status, NFS3ERR_STALE);
}

}  // namespace
}  // namespace nfsrdma::testing
