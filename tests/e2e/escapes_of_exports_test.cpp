// Attempts that need a whole server: by exports that come and go, and by other servers.
#include "tests/nfs/escapes.hpp"

namespace nfsrdma::testing {
namespace {

const EscapeRow kReloadRows[] = {
    {"HandlesOfAnExportThatAReloadTookAway",
     [](Escape& e) {
         const Handle there = e.w.export_also(e.outside.path());
         const Handle secret = e.w.find(there, "secret"), dir = e.w.find(there, "dir");
         EXPECT_EQ(e.getattr(secret), NFS3_OK);
         EXPECT_EQ(e.w.read(secret, 0, 100).data, "secret");
         e.w.export_no_more(e.outside.path());
         for (const Handle* handle : {&there, &secret, &dir})
             e.expect_all(*handle, NFS3ERR_STALE);
         // Back again, they are good again.
         EXPECT_EQ(e.w.export_also(e.outside.path()), there);
         EXPECT_EQ(e.getattr(secret), NFS3_OK);
     }},
    {"RootOfASiblingHasNoParent",
     [](Escape& e) {
         const Handle there = e.w.export_also(e.outside.path());
         EXPECT_EQ(e.w.find(there, ".."), there);
         EXPECT_EQ(e.w.find(e.w.find(there, "dir"), ".."), there);
     }},
    {"ExportInsideOfAnExportIsItsOwn",
     [](Escape& e) {
         const Handle inner = e.w.export_also(e.in("dir"));
         EXPECT_EQ(e.w.find(inner, ".."), inner);
         EXPECT_NE(inner, e.w.find(e.w.root, "dir"));
         // What the outer one knows of its own, under the inner one's id.
         nfs::FhFields fields = e.fields_of(e.w.find(e.w.root, "file"));
         fields.export_id = e.fields_of(inner).export_id;
         e.expect_all(e.signed_handle(fields), NFS3ERR_STALE, NFS3ERR_XDEV);
         EXPECT_EQ(e.rename(inner, "file", e.w.root, "stolen"), NFS3ERR_XDEV);
         EXPECT_EQ(e.link(e.w.find(inner, "file"), e.w.root, "stolen"), NFS3ERR_XDEV);
     }},
    {"HandleThatMovedOutOfAnInnerExport",
     [](Escape& e) {
         const Handle inner = e.w.export_also(e.in("dir"));
         const Handle deep = e.w.find(inner, "deep"), file = e.w.find(deep, "file");
         fs::rename(e.in("dir/deep"), e.in("deep"));
         e.w.settle();
         e.expect_all(deep, NFS3ERR_STALE, NFS3ERR_XDEV);
         e.expect_all(file, NFS3ERR_STALE, NFS3ERR_XDEV);
         // Of the outer one it still is a part.
         EXPECT_EQ(e.getattr(e.w.find(e.w.root, "deep")), NFS3_OK);
     }},
    {"DirectoryOfAnExportThatWasReplaced",
     [](Escape& e) {
         fs::create_directory(e.in("sub"));
         std::ofstream(e.in("sub/file")) << "public";
         const Handle before = e.w.export_also(e.in("sub"));
         const Handle file = e.w.find(before, "file");
         e.w.export_no_more(e.in("sub"));
         fs::rename(e.in("sub"), e.out("sub"));
         fs::create_directory(e.in("sub"));
         e.seal();
         const Handle now = e.w.export_also(e.in("sub"));
         EXPECT_NE(now, before);
         e.expect_all(before, NFS3ERR_STALE, NFS3ERR_XDEV);
         e.expect_all(file, NFS3ERR_STALE, NFS3ERR_XDEV);
         EXPECT_EQ(e.lookup(now, "file"), NFS3ERR_NOENT);
     }},
    {"MountBelowAnExportThatWasTakenAway",
     [](Escape& e) {
         e.w.export_also(e.outside.path());
         EXPECT_EQ(e.mount(e.outside.path() + "/dir"), MNT3_OK);
         e.w.export_no_more(e.outside.path());
         EXPECT_EQ(e.mount(e.outside.path() + "/dir"), MNT3ERR_NOENT);
     }},
};

const EscapeRow kServerRows[] = {
    {"HandlesOfAServerWithAnotherKey",
     [](Escape& e) {
         Escape other(true);
         e.expect_all(other.w.root, NFS3ERR_BADHANDLE);
         e.expect_all(other.w.find(other.w.root, "file"), NFS3ERR_BADHANDLE);
         other.expect_untouched();
     }},
    {"ObjectsOfAnotherServerUnderOurKey",
     [](Escape& e) {
         Escape other(true);
         for (const Handle& handle : {other.w.root, other.w.find(other.w.root, "file")})
             e.expect_all(e.signed_handle(other.fields_of(handle)), NFS3ERR_STALE);
         other.expect_untouched();
     }},
    {"HandlesThatAreCutOrPaddedInEveryProcedure",
     [](Escape& e) {
         Handle cut = e.w.find(e.w.root, "dir"), padded = cut;
         cut.bytes.pop_back();
         padded.bytes.push_back(0);
         e.expect_all(cut, NFS3ERR_BADHANDLE);
         e.expect_all(padded, NFS3ERR_BADHANDLE);
         e.expect_all({}, NFS3ERR_BADHANDLE);
     }},
    {"HandleWithAnotherExportsIdUnsigned",
     [](Escape& e) {
         const Handle there = e.w.export_also(e.outside.path());
         Handle mixed = e.w.root;
         ASSERT_EQ(mixed.bytes.size(), there.bytes.size());
         // Every stretch of the one in the other: no such mixture is signed.
         for (std::size_t at = 0; at + 4 <= mixed.bytes.size(); at += 4) {
             mixed = e.w.root;
             std::copy_n(there.bytes.begin() + static_cast<std::ptrdiff_t>(at), 4,
                         mixed.bytes.begin() + static_cast<std::ptrdiff_t>(at));
             if (mixed == e.w.root) continue;
             EXPECT_EQ(e.getattr(mixed), NFS3ERR_BADHANDLE) << at;
         }
     }},
};

class EscapesOfExports : public ::testing::TestWithParam<EscapeCase> {};

TEST_P(EscapesOfExports, AreRefused) {
    expect_no_escape(GetParam());
}
NR_ESCAPES(Reload, EscapesOfExports);
NR_ESCAPES(Server, EscapesOfExports);

}  // namespace
}  // namespace nfsrdma::testing
