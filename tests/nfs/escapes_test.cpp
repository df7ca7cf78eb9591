// Attempts by names and by symbolic links.
#include "tests/nfs/escapes.hpp"

#include <atomic>
#include <thread>

namespace nfsrdma::testing {
namespace {

const std::vector<std::string> kPathNames = {
    "../x",   "a/b",  "/",    "/etc/passwd",           "dir/../../x",
    "./file", "dir/", "..//", "../../../../etc/passwd"};

// `call` refuses every name that is more than one.
void expect_refused(const std::function<nfsstat3(const std::string&)>& call, nfsstat3 dots) {
    for (const std::string& name : kPathNames)
        EXPECT_EQ(call(name), NFS3ERR_INVAL) << name;
    EXPECT_EQ(call(""), NFS3ERR_INVAL);
    EXPECT_EQ(call("."), dots);
    EXPECT_EQ(call(".."), dots);
    EXPECT_EQ(call(std::string(256, 'n')), NFS3ERR_NAMETOOLONG);
}

const EscapeRow kNameRows[] = {
    {"LookupOfDotDotAtTheRootStays",
     [](Escape& e) {
         EXPECT_EQ(e.w.find(e.w.root, ".."), e.w.root);
         EXPECT_EQ(e.w.find(e.w.find(e.w.root, "dir"), ".."), e.w.root);
     }},
    {"LookupOfPaths",
     [](Escape& e) {
         expect_refused([&](const std::string& n) { return e.lookup(e.w.root, n); }, NFS3_OK);
     }},
    {"CreateOfPaths",
     [](Escape& e) {
         for (const createmode3 mode : {UNCHECKED, GUARDED, EXCLUSIVE}) {
             expect_refused([&](const std::string& n) { return e.create(e.w.root, n, mode); },
                            NFS3ERR_EXIST);
         }
     }},
    {"MkdirOfPaths",
     [](Escape& e) {
         expect_refused([&](const std::string& n) { return e.mkdir(e.w.root, n); }, NFS3ERR_EXIST);
     }},
    {"SymlinkOfPaths",
     [](Escape& e) {
         expect_refused([&](const std::string& n) { return e.symlink(e.w.root, n); },
                        NFS3ERR_EXIST);
     }},
    {"MknodOfPaths",
     [](Escape& e) {
         expect_refused([&](const std::string& n) { return e.mknod(e.w.root, n); }, NFS3ERR_EXIST);
     }},
    {"RemoveOfPaths",
     [](Escape& e) {
         expect_refused([&](const std::string& n) { return e.remove(e.w.root, n); }, NFS3ERR_INVAL);
     }},
    {"RmdirOfPaths",
     [](Escape& e) {
         expect_refused([&](const std::string& n) { return e.rmdir(e.w.root, n); }, NFS3ERR_INVAL);
     }},
    {"RenameFromPaths",
     [](Escape& e) {
         expect_refused(
             [&](const std::string& n) { return e.rename(e.w.root, n, e.w.root, "stolen"); },
             NFS3ERR_INVAL);
     }},
    {"RenameToPaths",
     [](Escape& e) {
         expect_refused(
             [&](const std::string& n) { return e.rename(e.w.root, "file", e.w.root, n); },
             NFS3ERR_INVAL);
     }},
    {"LinkToPaths",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.root, "file");
         expect_refused([&](const std::string& n) { return e.link(file, e.w.root, n); },
                        NFS3ERR_EXIST);
     }},
    {"NamesOf255BytesAreNames",
     [](Escape& e) {
         const std::string dots(255, '.');
         EXPECT_EQ(e.create(e.w.root, dots), NFS3_OK);
         EXPECT_EQ(e.getattr(e.w.find(e.w.root, dots)), NFS3_OK);
         EXPECT_EQ(e.mkdir(e.w.root, "..."), NFS3_OK);
     }},
    {"ListingOfTheRootTellsNothingOfItsParent",
     [](Escape& e) {
         struct stat above {};
         ASSERT_EQ(::stat((e.w.dir.path() + "/..").c_str(), &above), 0);
         for (const Listed& entry : e.w.readdir(e.w.root, 0, 32768).entries)
             EXPECT_NE(entry.fileid, above.st_ino) << entry.name;
         for (const Listed& entry : e.w.readdirplus(e.w.root, 0, 32768, 32768).entries)
             EXPECT_NE(entry.fileid, above.st_ino) << entry.name;
     }},
    {"CookiesAreNoWayOut",
     [](Escape& e) {
         const ListReply all = e.w.readdir(e.w.root, 0, 32768);
         std::set<std::string> names;
         for (const Listed& entry : all.entries)
             names.insert(entry.name);
         for (unsigned bit = 0; bit < 64; ++bit) {
             const ListReply page = e.w.readdir(e.w.root, std::uint64_t{1} << bit, 32768);
             for (const Listed& entry : page.entries)
                 EXPECT_TRUE(names.contains(entry.name)) << entry.name;
         }
     }},
    {"MountOfPathsThatLeave",
     [](Escape& e) {
         for (const char* path : {"/export/..", "/export/../", "/export/dir/../..",
                                  "/export/to_dir", "/export/to_dir/deep", "/export/to_file",
                                  "/exports", "/expor", "/", "", "export", "/etc"})
             EXPECT_NE(e.mount(path), MNT3_OK) << path;
         EXPECT_NE(e.mount(e.outside.path()), MNT3_OK);
         EXPECT_NE(e.mount("/export/" + e.outside.path()), MNT3_OK);
         EXPECT_EQ(e.mount("/export/dir"), MNT3_OK);
     }},
};

const EscapeRow kLinkRows[] = {
    {"LinkToADirectoryIsNone",
     [](Escape& e) {
         const Handle link = e.w.find(e.w.root, "to_dir");
         EXPECT_EQ(e.w.attr(link).type, NF3LNK);
         EXPECT_EQ(e.lookup(link, "file"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.lookup(link, ".."), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.lookup(link, "."), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.readdir(link), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.readdirplus(link), NFS3ERR_NOTDIR);
     }},
    {"ChangesInALinkToADirectory",
     [](Escape& e) {
         const Handle link = e.w.find(e.w.root, "to_dir");
         EXPECT_EQ(e.create(link, "new"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.mkdir(link, "new"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.symlink(link, "new"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.mknod(link, "new"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.remove(link, "file"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.rmdir(link, "deep"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.rename(link, "file", e.w.root, "stolen"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.rename(e.w.root, "file", link, "smuggled"), NFS3ERR_NOTDIR);
         EXPECT_EQ(e.link(e.w.find(e.w.root, "file"), link, "new"), NFS3ERR_NOTDIR);
     }},
    {"IoThroughALink",
     [](Escape& e) {
         for (const char* name : {"to_file", "to_dir", "to_none"}) {
             const Handle link = e.w.find(e.w.root, name);
             EXPECT_EQ(e.read(link), NFS3ERR_INVAL);
             EXPECT_EQ(e.write(link), NFS3ERR_INVAL);
             EXPECT_EQ(e.commit(link), NFS3ERR_INVAL);
         }
     }},
    {"SetattrThroughALink",
     [](Escape& e) {
         for (const char* name : {"to_file", "to_dir", "to_none"}) {
             const Handle link = e.w.find(e.w.root, name);
             e.chmod(link);  // there are systems on which links have modes
             e.touch(link);
             EXPECT_EQ(e.truncate(link), NFS3ERR_INVAL);
             EXPECT_EQ(e.w.attr(link).type, NF3LNK);
         }
     }},
    {"CreateOverALink",
     [](Escape& e) {
         for (const char* name : {"to_file", "to_dir", "to_none"}) {
             for (const createmode3 mode : {UNCHECKED, GUARDED, EXCLUSIVE})
                 EXPECT_EQ(e.create(e.w.root, name, mode), NFS3ERR_EXIST) << name;
             EXPECT_EQ(e.truncate_by_create(e.w.root, name), NFS3ERR_EXIST) << name;
         }
     }},
    {"MakingOtherThingsOverALink",
     [](Escape& e) {
         for (const char* name : {"to_file", "to_dir", "to_none"}) {
             EXPECT_EQ(e.mkdir(e.w.root, name), NFS3ERR_EXIST);
             EXPECT_EQ(e.symlink(e.w.root, name), NFS3ERR_EXIST);
             EXPECT_EQ(e.mknod(e.w.root, name), NFS3ERR_EXIST);
             EXPECT_EQ(e.link(e.w.find(e.w.root, "file"), e.w.root, name), NFS3ERR_EXIST);
         }
     }},
    {"RemoveOfALinkRemovesTheLink",
     [](Escape& e) {
         EXPECT_EQ(e.rmdir(e.w.root, "to_dir"), NFS3ERR_NOTDIR);
         for (const char* name : {"to_file", "to_dir", "to_none"})
             EXPECT_EQ(e.remove(e.w.root, name), NFS3_OK);
     }},
    {"RenameOntoALinkReplacesTheLink",
     [](Escape& e) {
         EXPECT_EQ(e.rename(e.w.root, "file", e.w.root, "to_file"), NFS3_OK);
         EXPECT_EQ(e.w.attr(e.w.find(e.w.root, "to_file")).type, NF3REG);
         EXPECT_EQ(e.rename(e.w.root, "dir", e.w.root, "to_dir"), NFS3ERR_NOTDIR);
     }},
    {"RenameOfALinkMovesTheLink",
     [](Escape& e) {
         EXPECT_EQ(e.rename(e.w.root, "to_dir", e.w.find(e.w.root, "dir"), "moved"), NFS3_OK);
         EXPECT_EQ(e.w.attr(e.w.find(e.w.find(e.w.root, "dir"), "moved")).type, NF3LNK);
     }},
    {"HardLinkOfALinkIsOfTheLink",
     [](Escape& e) {
         for (const std::string name : {"to_file", "to_dir", "to_none"}) {
             const Handle link = e.w.find(e.w.root, name);
             ASSERT_EQ(e.link(link, e.w.root, name + "2"), NFS3_OK);
             EXPECT_EQ(e.w.find(e.w.root, name + "2"), link);
         }
     }},
    {"ListingShowsTheLinkAndNotWhereItLeads",
     [](Escape& e) {
         struct stat st {};
         ASSERT_EQ(::stat(e.out("secret").c_str(), &st), 0);
         for (const Listed& entry : e.w.readdirplus(e.w.root, 0, 32768, 32768).entries) {
             EXPECT_NE(entry.fileid, st.st_ino);
             if (entry.name != "to_file") continue;
             EXPECT_EQ(e.w.attr(entry.handle).type, NF3LNK);
         }
     }},
    {"LinksIntoProc",
     [](Escape& e) {
         const std::string own = "/proc/" + std::to_string(::getpid());
         const UniqueFd secret(::open(e.out("secret").c_str(), O_RDWR | O_CLOEXEC));
         const UniqueFd dir(::open(e.outside.path().c_str(), O_RDONLY | O_CLOEXEC));
         int i = 0;
         for (const std::string& target :
              {own + "/root", own + "/cwd", own + "/fd/" + std::to_string(dir.get()),
               own + "/fd/" + std::to_string(secret.get()), std::string("/proc/self/root")}) {
             const std::string name = "magic" + std::to_string(i++);
             fs::create_symlink(target, e.in(name));
             const Handle link = e.w.find(e.w.root, name);
             EXPECT_EQ(e.lookup(link, "etc"), NFS3ERR_NOTDIR);
             EXPECT_EQ(e.readdir(link), NFS3ERR_NOTDIR);
             EXPECT_EQ(e.create(link, "new"), NFS3ERR_NOTDIR);
             EXPECT_EQ(e.read(link), NFS3ERR_INVAL);
             EXPECT_EQ(e.write(link), NFS3ERR_INVAL);
             EXPECT_EQ(e.truncate_by_create(e.w.root, name), NFS3ERR_EXIST);
         }
     }},
    {"LinkPutInPlaceOfADirectoryThatIsGone",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir"), deep = e.w.find(dir, "deep");
         const Handle file = e.w.find(deep, "file");
         fs::remove_all(e.in("dir"));
         fs::create_symlink(e.outside.path() + "/dir", e.in("dir"));
         e.w.settle();
         for (const Handle* handle : {&dir, &deep, &file})
             e.expect_all(*handle, NFS3ERR_STALE);
         EXPECT_EQ(e.w.attr(e.w.find(e.w.root, "dir")).type, NF3LNK);
     }},
    {"LinkPutInPlaceOfADirectoryThatWasClosed",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir"), deep = e.w.find(dir, "deep");
         const Handle file = e.w.find(deep, "file");
         fs::remove_all(e.in("dir"));
         fs::create_symlink(e.outside.path() + "/dir", e.in("dir"));
         e.push_out();
         for (const Handle* handle : {&dir, &deep, &file})
             e.expect_all(*handle, NFS3ERR_STALE);
     }},
    {"LinkPutInPlaceOfAFileThatWasClosed",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.root, "file");
         fs::remove(e.in("file"));
         fs::create_symlink(e.outside.path() + "/secret", e.in("file"));
         e.push_out();
         EXPECT_EQ(e.read(file), NFS3ERR_STALE);
         EXPECT_EQ(e.write(file), NFS3ERR_STALE);
         EXPECT_EQ(e.truncate(file), NFS3ERR_STALE);
     }},
    // Somebody exchanges a directory and a link without end, and a client works in what it found.
    {"LinkAndDirectoryAreExchangedAllTheTime",
     [](Escape& e) {
         std::atomic<bool> stop{false};
         std::thread other([&] {
             while (!stop.load(std::memory_order_relaxed)) {
                 ::renameat2(AT_FDCWD, e.in("dir").c_str(), AT_FDCWD, e.in("to_dir").c_str(),
                             RENAME_EXCHANGE);
             }
         });
         for (int i = 0; i < 300; ++i) {
             auto found = e.w.lookup(e.w.root, i % 2 == 0 ? "dir" : "to_dir");
             if (found->status != NFS3_OK) continue;
             const Handle dir = Handle::of(found->LOOKUP3res_u.resok.object);
             const std::string name = "n" + std::to_string(i);
             e.create(dir, name);
             e.mkdir(dir, name + "d");
             e.rename(dir, name, dir, name + "r");
             e.remove(dir, "file" + name);
             auto file = e.w.lookup(dir, "file");
             if (file->status == NFS3_OK) e.read(Handle::of(file->LOOKUP3res_u.resok.object));
         }
         stop = true;
         other.join();
     }},
};

class EscapesByName : public ::testing::TestWithParam<EscapeCase> {};

TEST_P(EscapesByName, AreRefused) {
    expect_no_escape(GetParam());
}
NR_ESCAPES(Name, EscapesByName);
NR_ESCAPES(Link, EscapesByName);

#ifndef NR_ESCAPES_OVER_RDMA
// Below the checks of the procedures: the backend has its own.
const EscapeRow kBackendRows[] = {
    {"BackendTakesNoPathsEither",
     [](Escape& e) {
         const nfs::NodeId root = e.w.vfs->root();
         nfs::Node node;
         nfs::Wcc wcc, to;
         std::vector<std::string> names = kPathNames;
         names.insert(names.end(), {"", "..", ".", std::string("a\0b", 3), std::string("\0", 1),
                                    std::string("file\0/../..", 11)});
         for (const std::string& name : names) {
             const nfs::DirName where{root, name};
             EXPECT_EQ(e.w.vfs->create({}, where, {}, node, wcc), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->mkdir({}, where, {}, node, wcc), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->symlink({}, where, "x", node, wcc), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->mknod({}, where, {}, node, wcc), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->remove({}, where, wcc), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->rmdir({}, where, wcc), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->rename({}, where, {root, "x"}, wcc, to), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->rename({}, {root, "file"}, where, wcc, to), NFS3ERR_INVAL) << name;
             EXPECT_EQ(e.w.vfs->link({}, root, where, wcc), NFS3ERR_INVAL) << name;
             if (name == "." || name == "..") continue;
             EXPECT_EQ(e.w.vfs->lookup({}, where, node), NFS3ERR_INVAL) << name;
         }
     }},
};
NR_ESCAPES(Backend, EscapesByName);
#endif

}  // namespace
}  // namespace nfsrdma::testing
