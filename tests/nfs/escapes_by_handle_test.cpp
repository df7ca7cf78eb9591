// Attempts by renames on the server, by handles, by special files and by mounts.
#include <atomic>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <thread>

#include "nfs/vfs_posix.hpp"
#include "tests/nfs/escapes.hpp"

namespace nfsrdma::testing {
namespace {

using nfs::FhFields;

const EscapeRow kMoveRows[] = {
    {"DirectoryThatWasMovedOut",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir");
         fs::rename(e.in("dir"), e.out("moved"));
         e.seal();
         e.expect_all(dir, NFS3ERR_STALE);
     }},
    {"DirectoryBelowOneThatWasMovedOut",
     [](Escape& e) {
         const Handle deep = e.w.find(e.w.find(e.w.root, "dir"), "deep");
         fs::rename(e.in("dir"), e.out("moved"));
         e.seal();
         e.expect_all(deep, NFS3ERR_STALE);
     }},
    {"FileBelowADirectoryThatWasMovedOut",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.find(e.w.root, "dir"), "file");
         EXPECT_EQ(e.read(file), NFS3_OK);
         EXPECT_EQ(e.getattr(file), NFS3_OK);
         fs::rename(e.in("dir"), e.out("moved"));
         e.seal();
         e.expect_all(file, NFS3ERR_STALE);
     }},
    {"FileThatWasMovedOutWhileOpenForWriting",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.root, "file");
         EXPECT_EQ(e.write(file), NFS3_OK);
         fs::rename(e.in("file"), e.out("moved"));
         e.seal();
         e.expect_all(file, NFS3ERR_STALE);
     }},
    {"DirectoryThatWasMovedOutAndClosed",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir"), deep = e.w.find(dir, "deep");
         fs::rename(e.in("dir"), e.out("moved"));
         e.seal();
         e.push_out();
         e.expect_all(dir, NFS3ERR_STALE);
         e.expect_all(deep, NFS3ERR_STALE);
     }},
    {"DirectoryThatWasMovedOutAndReplaced",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir");
         fs::rename(e.in("dir"), e.out("moved"));
         fs::create_directory(e.in("dir"));
         e.seal();
         e.expect_all(dir, NFS3ERR_STALE);
         EXPECT_NE(e.w.find(e.w.root, "dir"), dir);
     }},
    {"DirectoryThatWasMovedOutAndIn",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir");
         fs::rename(e.in("dir"), e.out("moved"));
         e.w.settle();
         EXPECT_EQ(e.create(dir, "new"), NFS3ERR_STALE);
         fs::rename(e.out("moved"), e.in("back"));
         e.seal();
         EXPECT_EQ(e.w.find(e.w.root, "back"), dir);
         EXPECT_EQ(e.create(dir, "new"), NFS3_OK);
     }},
    {"FileWithANameInsideStillIsInside",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.root, "file");
         EXPECT_EQ(e.link(file, e.w.find(e.w.root, "dir"), "other"), NFS3_OK);
         fs::rename(e.in("file"), e.out("moved"));
         EXPECT_EQ(e.w.find(e.w.find(e.w.root, "dir"), "other"), file);
         EXPECT_EQ(e.getattr(file), NFS3_OK);
         EXPECT_FALSE(fs::exists(e.in("file")));
         e.seal();
     }},
    {"ParentThatBecameOneOutside",
     [](Escape& e) {
         const Handle deep = e.w.find(e.w.find(e.w.root, "dir"), "deep");
         EXPECT_EQ(e.getattr(deep), NFS3_OK);
         fs::rename(e.in("dir/deep"), e.out("moved"));
         e.seal();
         EXPECT_EQ(e.lookup(deep, ".."), NFS3ERR_STALE);
     }},
    {"ExportThatWasRenamedItself",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir");
         const std::string moved = e.w.dir.path() + "-moved";
         fs::rename(e.w.dir.path(), moved);
         fs::create_symlink(e.outside.path(), e.w.dir.path());
         EXPECT_EQ(e.lookup(e.w.root, "secret"), NFS3ERR_NOENT);
         EXPECT_EQ(e.create(dir, "new"), NFS3_OK);
         EXPECT_EQ(e.w.find(dir, ".."), e.w.root);
         EXPECT_EQ(e.w.find(e.w.root, ".."), e.w.root);
         EXPECT_TRUE(fs::exists(moved + "/dir/new"));
         fs::remove(e.w.dir.path());
         fs::rename(moved, e.w.dir.path());
     }},
    // Somebody moves a directory out and in without end. What is changed at such a moment may be
    // changed in the directory where it is, as by any process that stands in it; nothing else may.
    {"DirectoryIsMovedOutAndInAllTheTime",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir");
         std::atomic<bool> stop{false};
         std::thread other([&] {
             while (!stop.load(std::memory_order_relaxed)) {
                 ::rename(e.in("dir").c_str(), e.out("moved").c_str());
                 ::rename(e.out("moved").c_str(), e.in("dir").c_str());
             }
         });
         for (int i = 0; i < 200; ++i) {
             e.lookup(dir, "secret");
             e.remove(dir, "secret");
             auto above = e.w.lookup(dir, "..");
             if (above->status == NFS3_OK) {
                 EXPECT_EQ(Handle::of(above->LOOKUP3res_u.resok.object), e.w.root);
             }
             auto deep = e.w.lookup(dir, "deep");
             if (deep->status != NFS3_OK) continue;
             e.create(Handle::of(deep->LOOKUP3res_u.resok.object), "n" + std::to_string(i));
         }
         stop = true;
         other.join();
         if (fs::exists(e.out("moved"))) fs::rename(e.out("moved"), e.in("dir"));
         EXPECT_TRUE(fs::exists(e.out("secret")));
         EXPECT_FALSE(fs::exists(e.out("new")));
         e.seal();
     }},
};

const EscapeRow kHandleRows[] = {
    {"EveryBitOfAHandle",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.root, "file");
         for (std::size_t at = 0; at < file.bytes.size(); ++at) {
             Handle forged = file;
             forged.bytes[at] = static_cast<char>(forged.bytes[at] ^ (1 << at % 8));
             EXPECT_EQ(e.getattr(forged), NFS3ERR_BADHANDLE) << at;
         }
     }},
    {"ForgedHandleInEveryProcedure",
     [](Escape& e) {
         Handle forged = e.w.find(e.w.root, "dir");
         forged.bytes[10] = static_cast<char>(forged.bytes[10] ^ 1);
         e.expect_all(forged, NFS3ERR_BADHANDLE);
     }},
    {"HandlesOfOtherLengths",
     [](Escape& e) {
         Handle long_one = e.w.find(e.w.root, "file");
         const std::size_t size = long_one.bytes.size();
         long_one.bytes.resize(64);
         for (std::size_t length = 0; length <= 64; ++length) {
             Handle handle = long_one;
             handle.bytes.resize(length);
             EXPECT_EQ(e.getattr(handle), length == size ? NFS3_OK : NFS3ERR_BADHANDLE) << length;
         }
     }},
    {"HandlesOfZerosAndOnes",
     [](Escape& e) {
         for (const char fill : {'\0', '\1', '\x7f', '\xff'}) {
             for (const std::size_t length : {32u, 40u, 48u, 52u, 64u})
                 EXPECT_EQ(e.getattr({std::vector<char>(length, fill)}), NFS3ERR_BADHANDLE);
         }
     }},
    {"HandleOfAnotherServer",
     [](Escape& e) {
         const FhFields fields = e.fields_of(e.w.find(e.w.root, "file"));
         nfs::FhBytes bytes = nfs::encode_fh(nfs::HandleKey::random(), fields);
         e.expect_all(Handle::of(nfs::to_fh3(bytes)), NFS3ERR_BADHANDLE);
     }},
    {"HandleWithoutAMac",
     [](Escape& e) {
         Handle old = e.w.find(e.w.root, "file");
         std::fill(old.bytes.end() - 16, old.bytes.end(), '\0');
         EXPECT_EQ(e.getattr(old), NFS3ERR_BADHANDLE);
         old.bytes[0] = 1;
         EXPECT_EQ(e.getattr(old), NFS3ERR_BADHANDLE);
     }},
    {"HandleOfAnExportThatIsNoMore",
     [](Escape& e) {
         FhFields fields = e.fields_of(e.w.find(e.w.root, "file"));
         fields.export_id = nfs::export_id_of("/removed");
         EXPECT_EQ(e.getattr(e.signed_handle(fields)), NFS3ERR_STALE);
         EXPECT_EQ(e.read(e.signed_handle(fields)), NFS3ERR_STALE);
     }},
    {"ObjectsOfAnotherExport",
     [](Escape& e) {
         const Handle there = e.w.export_also(e.outside.path());
         const Handle file = e.w.find(there, "secret");
         EXPECT_EQ(e.getattr(file), NFS3_OK);
         // From one to the other.
         EXPECT_EQ(e.rename(e.w.root, "file", there, "smuggled"), NFS3ERR_XDEV);
         EXPECT_EQ(e.rename(there, "secret", e.w.root, "stolen"), NFS3ERR_XDEV);
         EXPECT_EQ(e.link(e.w.find(e.w.root, "file"), there, "smuggled"), NFS3ERR_XDEV);
         EXPECT_EQ(e.link(file, e.w.root, "stolen"), NFS3ERR_XDEV);
         // The one's objects under the other's id, as a server would that mixed them up.
         const std::uint32_t own = e.fields_of(e.w.root).export_id;
         for (const Handle* foreign : {&there, &file}) {
             FhFields fields = e.fields_of(*foreign);
             fields.export_id = own;
             e.expect_all(e.signed_handle(fields), NFS3ERR_STALE);
         }
     }},
    {"HandleOfWhatIsAboveTheExport",
     [](Escape& e) {
         auto above = nfs::VfsPosix::create(fs::path(e.w.dir.path()).parent_path().string(), {});
         ASSERT_TRUE(static_cast<bool>(above));
         const std::uint32_t own = nfs::export_id_of("/export");
         e.expect_all(e.signed_handle({own, (*above)->root()}), NFS3ERR_STALE);
     }},
    {"HandleOfARemovedFile",
     [](Escape& e) {
         const Handle file = e.w.find(e.w.root, "file");
         EXPECT_EQ(e.read(file), NFS3_OK);
         EXPECT_EQ(e.remove(e.w.root, "file"), NFS3_OK);
         fs::create_hard_link(e.in("spare"), e.in("file"));
         EXPECT_EQ(e.getattr(file), NFS3ERR_STALE);
         EXPECT_EQ(e.read(file), NFS3ERR_STALE);
         EXPECT_EQ(e.write(file), NFS3ERR_STALE);
     }},
};

// Kinds of objects that are not to be opened.
void expect_no_io(Escape& e, const std::string& name) {
    const Handle special = e.w.find(e.w.root, name);
    EXPECT_EQ(e.read(special), NFS3ERR_INVAL);
    EXPECT_EQ(e.write(special), NFS3ERR_INVAL);
    EXPECT_EQ(e.commit(special), NFS3ERR_INVAL);
    EXPECT_EQ(e.truncate(special), NFS3ERR_INVAL);
    EXPECT_EQ(e.truncate_by_create(e.w.root, name), NFS3ERR_EXIST);
}

const EscapeRow kSpecialRows[] = {
    {"IoOfAFifo",
     [](Escape& e) {
         ASSERT_EQ(::mkfifo(e.in("fifo").c_str(), 0666), 0);
         expect_no_io(e, "fifo");  // and waits for no writer
     }},
    {"IoOfAFifoWithAReader",
     [](Escape& e) {
         ASSERT_EQ(::mkfifo(e.in("fifo").c_str(), 0666), 0);
         const UniqueFd reader(::open(e.in("fifo").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
         expect_no_io(e, "fifo");
         char byte = 0;
         EXPECT_EQ(::read(reader.get(), &byte, 1), 0);
     }},
    {"IoOfASocket",
     [](Escape& e) {
         ASSERT_EQ(::mknod(e.in("socket").c_str(), S_IFSOCK | 0666, 0), 0);
         expect_no_io(e, "socket");
     }},
    {"IoOfDevices",
     [](Escape& e) {
         if (e.mknod(e.w.root, "null", NF3CHR) != NFS3_OK) return;  // not for everybody
         expect_no_io(e, "null");
     }},
    {"IoOfDirectories",
     [](Escape& e) {
         const Handle dir = e.w.find(e.w.root, "dir");
         EXPECT_EQ(e.read(dir), NFS3ERR_ISDIR);
         EXPECT_EQ(e.write(dir), NFS3ERR_ISDIR);
         EXPECT_EQ(e.truncate(dir), NFS3ERR_ISDIR);
         EXPECT_EQ(e.truncate_by_create(e.w.root, "dir"), NFS3ERR_EXIST);
     }},
    // A hard link is the file: who makes one in the export exports it. No client can.
    {"HardLinkOfAFileOutsideIsMadeByNoClient",
     [](Escape& e) {
         fs::create_hard_link(e.out("secret"), e.in("given"));
         e.seal();
         const Handle given = e.w.find(e.w.root, "given");
         EXPECT_EQ(e.w.attr(given).nlink, 2u);
         EXPECT_EQ(e.w.read(given, 0, 100).data, "secret");
         EXPECT_EQ(e.remove(e.w.root, "given"), NFS3_OK);
         e.w.settle();
         EXPECT_EQ(e.getattr(given), NFS3ERR_STALE);
         EXPECT_EQ(e.link(given, e.w.root, "again"), NFS3ERR_STALE);
         struct stat st {};
         EXPECT_EQ(::stat(e.out("secret").c_str(), &st), 0);
         EXPECT_EQ(st.st_nlink, 1u);
         fs::create_hard_link(e.out("secret"), e.in("x"));  // as it was sealed
     }},
};

class EscapesByHandle : public ::testing::TestWithParam<EscapeCase> {};

TEST_P(EscapesByHandle, AreRefused) {
    expect_no_escape(GetParam());
}
NR_ESCAPES(Move, EscapesByHandle);
NR_ESCAPES(Handle, EscapesByHandle);
NR_ESCAPES(Special, EscapesByHandle);

// In a mount namespace of its own, which only root may make.
class EscapesOfMounts : public ::testing::TestWithParam<EscapeCase> {};

TEST_P(EscapesOfMounts, AreRefused) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: to mount";
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
            ::_exit(77);
        }
        {
            const auto& [kernel_handles, row] = GetParam();
            Escape e(kernel_handles);
            row.attempt(e);
            e.expect_untouched();
            while (::umount2(e.in("mnt").c_str(), MNT_DETACH) == 0) {
            }
        }
        ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs root: to mount";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// What is mounted on "mnt" is not to be reached, nor what lies below it to be changed.
void expect_no_way_into_mount(Escape& e) {
    EXPECT_EQ(e.lookup(e.w.root, "mnt"), NFS3ERR_XDEV);
    for (const Listed& entry : e.w.readdirplus(e.w.root, 0, 32768, 32768).entries)
        EXPECT_TRUE(entry.name != "mnt" || !entry.has_handle);
    EXPECT_NE(e.mount("/export/mnt"), MNT3_OK);
    EXPECT_EQ(e.create(e.w.root, "mnt", GUARDED), NFS3ERR_EXIST);
    EXPECT_NE(e.truncate_by_create(e.w.root, "mnt"), NFS3_OK);
    EXPECT_NE(e.remove(e.w.root, "mnt"), NFS3_OK);
    EXPECT_NE(e.rmdir(e.w.root, "mnt"), NFS3_OK);
    EXPECT_NE(e.rename(e.w.root, "mnt", e.w.root, "stolen"), NFS3_OK);
    EXPECT_NE(e.rename(e.w.root, "dir", e.w.root, "mnt"), NFS3_OK);
}

const EscapeRow kMountRows[] = {
    {"FileSystemMountedInside",
     [](Escape& e) {
         fs::create_directory(e.in("mnt"));
         ASSERT_EQ(::mount("none", e.in("mnt").c_str(), "tmpfs", 0, nullptr), 0);
         std::ofstream(e.in("mnt/secret")) << "secret";
         expect_no_way_into_mount(e);
         EXPECT_TRUE(fs::exists(e.in("mnt/secret")));
     }},
    {"DirectoryOfTheSameDeviceMountedInside",
     [](Escape& e) {
         fs::create_directory(e.in("mnt"));
         ASSERT_EQ(
             ::mount(e.outside.path().c_str(), e.in("mnt").c_str(), nullptr, MS_BIND, nullptr), 0);
         expect_no_way_into_mount(e);
     }},
    {"DirectoryThatIsMountedOverAfterItWasFound",
     [](Escape& e) {
         fs::create_directory(e.in("mnt"));
         const Handle mnt = e.w.find(e.w.root, "mnt");
         EXPECT_EQ(e.create(mnt, "before"), NFS3_OK);
         ASSERT_EQ(
             ::mount(e.outside.path().c_str(), e.in("mnt").c_str(), nullptr, MS_BIND, nullptr), 0);
         // Its own directory, which is below the mount, and nothing of the mount.
         EXPECT_NE(e.lookup(mnt, "secret"), NFS3_OK);
         e.create(mnt, "after");
         e.push_out();
         EXPECT_NE(e.lookup(mnt, "secret"), NFS3_OK);
         e.create(mnt, "later");
         e.remove(mnt, "secret");
     }},
    {"FileMountedOnAFile",
     [](Escape& e) {
         std::ofstream(e.in("mnt")) << "public";
         ASSERT_EQ(::mount(e.out("secret").c_str(), e.in("mnt").c_str(), nullptr, MS_BIND, nullptr),
                   0);
         EXPECT_EQ(e.lookup(e.w.root, "mnt"), NFS3ERR_XDEV);
         EXPECT_NE(e.create(e.w.root, "mnt"), NFS3_OK);
         EXPECT_NE(e.truncate_by_create(e.w.root, "mnt"), NFS3_OK);
     }},
};
NR_ESCAPES(Mount, EscapesOfMounts);

}  // namespace
}  // namespace nfsrdma::testing
