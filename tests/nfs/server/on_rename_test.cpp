#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnRename : public NfsTest {};
NR_ON_BACKENDS(OnRename);

TEST_P(OnRename, HandleStaysAndBothWccCome) {
    const Handle a = w.directory(w.root, "a"), file = w.file(w.root, "f", "x");
    auto reply = w.rename(w.root, "f", a, "g");
    ASSERT_EQ(reply->status, NFS3_OK);
    EXPECT_NE(reply->RENAME3res_u.resok.fromdir_wcc.after.attributes_follow, FALSE);
    EXPECT_NE(reply->RENAME3res_u.resok.todir_wcc.before.attributes_follow, FALSE);
    EXPECT_EQ(w.find(a, "g"), file);
    EXPECT_EQ(w.lookup(w.root, "f")->status, NFS3ERR_NOENT);
    EXPECT_EQ(w.read(file, 0, 1).data, "x");
}

TEST_P(OnRename, ReplacesAFileAndAnEmptyDirectory) {
    const Handle f = w.file(w.root, "f", "new");
    w.file(w.root, "g", "old");
    EXPECT_EQ(w.rename(w.root, "f", w.root, "g")->status, NFS3_OK);
    EXPECT_EQ(w.find(w.root, "g"), f);
    const Handle a = w.directory(w.root, "a");
    w.directory(w.root, "b");
    EXPECT_EQ(w.rename(w.root, "a", w.root, "b")->status, NFS3_OK);
    EXPECT_EQ(w.find(w.root, "b"), a);
    w.directory(w.root, "c");
    w.file(a, "inner");
    EXPECT_EQ(w.rename(w.root, "c", w.root, "b")->status, NFS3ERR_NOTEMPTY);
}

TEST_P(OnRename, TypesDoNotMix) {
    w.file(w.root, "f");
    w.directory(w.root, "d");
    EXPECT_EQ(w.rename(w.root, "f", w.root, "d")->status, NFS3ERR_ISDIR);
    EXPECT_EQ(w.rename(w.root, "d", w.root, "f")->status, NFS3ERR_NOTDIR);
}

TEST_P(OnRename, OntoItselfIsNothing) {
    w.file(w.root, "f", "x");
    EXPECT_EQ(w.rename(w.root, "f", w.root, "f")->status, NFS3_OK);
    EXPECT_EQ(w.read(w.find(w.root, "f"), 0, 1).data, "x");
}

TEST_P(OnRename, FailuresHaveWccOfBoth) {
    auto reply = w.rename(w.root, "none", w.root, "x");
    EXPECT_EQ(reply->status, NFS3ERR_NOENT);
    EXPECT_NE(reply->RENAME3res_u.resfail.fromdir_wcc.after.attributes_follow, FALSE);
    EXPECT_NE(reply->RENAME3res_u.resfail.todir_wcc.after.attributes_follow, FALSE);
}

TEST_P(OnRename, BetweenExportsIsXdev) {
    ASSERT_TRUE(static_cast<bool>(w.server.add_export("/other", std::make_unique<nfs::VfsMem>())));
    nfs::FhBytes bytes =
        nfs::encode_fh(w.server.handle_key(),
                       {nfs::export_id_of("/other"), w.server.exports().back()->vfs->root()});
    const Handle other = Handle::of(nfs::to_fh3(bytes));
    const Handle file = w.file(w.root, "f");
    EXPECT_EQ(w.rename(w.root, "f", other, "f")->status, NFS3ERR_XDEV);
    EXPECT_EQ(w.link(file, other, "f")->status, NFS3ERR_XDEV);
}

TEST_P(OnRename, DirectoryDoesNotMoveBelowItself) {
    const Handle a = w.directory(w.root, "a"), b = w.directory(a, "b");
    EXPECT_EQ(w.rename(w.root, "a", b, "x")->status, NFS3ERR_INVAL);
}

}  // namespace
}  // namespace nfsrdma::testing
