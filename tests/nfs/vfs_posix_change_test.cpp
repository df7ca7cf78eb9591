#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::nfs {
namespace {

namespace fs = std::filesystem;
const Cred kNobody;

class VfsPosixChange : public ::testing::Test {
  protected:
    void SetUp() override { vfs = *VfsPosix::create(dir.path(), {}); }
    struct stat stat_of(const std::string& name) {
        struct stat st {};
        EXPECT_EQ(::lstat((dir.path() + "/" + name).c_str(), &st), 0) << name;
        return st;
    }
    Node create(const std::string& name, std::uint32_t mode) {
        CreateHow how;
        how.attr.mode = mode;
        Node node;
        Wcc wcc;
        EXPECT_EQ(vfs->create(kNobody, {vfs->root(), name}, how, node, wcc), NFS3_OK);
        return node;
    }
    testing::TempDir dir;
    std::unique_ptr<VfsPosix> vfs;
};

TEST_F(VfsPosixChange, ModesAreTheClientsWhateverTheUmask) {
    create("f", 0666);
    EXPECT_EQ(stat_of("f").st_mode & 07777u, 0666u);
    create("g", 0);
    EXPECT_EQ(stat_of("g").st_mode & 07777u, 0u);
    SetAttr attr;
    attr.mode = 0777;
    Node node;
    Wcc wcc;
    EXPECT_EQ(vfs->mkdir(kNobody, {vfs->root(), "d"}, attr, node, wcc), NFS3_OK);
    EXPECT_EQ(stat_of("d").st_mode & 07777u, 0777u);
    EXPECT_EQ(node.attr.mode, 0777u);
}

TEST_F(VfsPosixChange, SetGroupIdIsInherited) {
    fs::create_directory(dir.path() + "/d");
    ASSERT_EQ(::chmod((dir.path() + "/d").c_str(), 02775), 0);
    Node d, made;
    Wcc wcc;
    ASSERT_EQ(vfs->lookup(kNobody, {vfs->root(), "d"}, d), NFS3_OK);
    SetAttr attr;
    attr.mode = 0777;
    ASSERT_EQ(vfs->mkdir(kNobody, {d.id, "e"}, attr, made, wcc), NFS3_OK);
    EXPECT_EQ(stat_of("d/e").st_mode & 07777u, 02777u);
}

TEST_F(VfsPosixChange, TimesAndOwnerAndSizeAreSet) {
    const Node node = create("f", 0644);
    SetAttr set;
    set.size = 12345;
    set.uid = ::geteuid();
    set.gid = ::getegid();
    set.mode = 0600;
    set.atime = {SET_TO_CLIENT_TIME, {1000, 1}};
    set.mtime = {SET_TO_CLIENT_TIME, {2000, 999'999'999}};
    Wcc wcc;
    ASSERT_EQ(vfs->setattr(kNobody, node.id, set, nullptr, wcc), NFS3_OK);
    const struct stat st = stat_of("f");
    EXPECT_EQ(st.st_size, 12345);
    EXPECT_EQ(st.st_mode & 07777u, 0600u);
    EXPECT_EQ(st.st_atim.tv_sec, 1000);
    EXPECT_EQ(st.st_mtim.tv_sec, 2000);
    EXPECT_EQ(st.st_mtim.tv_nsec, 999'999'999);
    EXPECT_EQ(wcc.after->size, 12345u);
    EXPECT_EQ(wcc.before->size, 0u);
}

TEST_F(VfsPosixChange, TimesOfALinkAreItsOwn) {
    Node node;
    Wcc wcc;
    ASSERT_EQ(vfs->symlink(kNobody, {vfs->root(), "l"}, "nowhere", node, wcc), NFS3_OK);
    SetAttr set;
    set.mtime = {SET_TO_CLIENT_TIME, {5000, 0}};
    EXPECT_EQ(vfs->setattr(kNobody, node.id, set, nullptr, wcc), NFS3_OK);
    EXPECT_EQ(stat_of("l").st_mtim.tv_sec, 5000);
}

TEST_F(VfsPosixChange, SizeBeyondTheRangeIsFbig) {
    const Node node = create("f", 0644);
    SetAttr set;
    set.size = UINT64_MAX;
    Wcc wcc;
    EXPECT_EQ(vfs->setattr(kNobody, node.id, set, nullptr, wcc), NFS3ERR_FBIG);
}

TEST_F(VfsPosixChange, VerifierSurvivesARestart) {
    CreateHow how;
    how.mode = EXCLUSIVE;
    Node first, second;
    Wcc wcc;
    for (const std::uint64_t verifier :
         {0xFFFFFFFF80000001ull, 0ull, 0x8000000000000000ull, 0x7FFFFFFF7FFFFFFFull, ~0ull}) {
        const std::string name = std::to_string(verifier);
        how.verifier = verifier;
        ASSERT_EQ(vfs->create(kNobody, {vfs->root(), name}, how, first, wcc), NFS3_OK);
        vfs = *VfsPosix::create(dir.path(), {});
        ASSERT_EQ(vfs->create(kNobody, {vfs->root(), name}, how, second, wcc), NFS3_OK);
        EXPECT_EQ(first.id, second.id);
        for (int bit = 0; bit < 64; ++bit) {
            how.verifier = verifier ^ (1ull << bit);
            EXPECT_EQ(vfs->create(kNobody, {vfs->root(), name}, how, second, wcc), NFS3ERR_EXIST);
        }
    }
}

TEST_F(VfsPosixChange, RenameOntoAnotherLinkOfTheSameFileChangesNothing) {
    const Node node = create("a", 0644);
    Wcc wcc, other;
    ASSERT_EQ(vfs->link(kNobody, node.id, {vfs->root(), "b"}, wcc), NFS3_OK);
    EXPECT_EQ(vfs->rename(kNobody, {vfs->root(), "a"}, {vfs->root(), "b"}, wcc, other), NFS3_OK);
    stat_of("a");
    stat_of("b");
    Attr attr;
    EXPECT_EQ(vfs->getattr(kNobody, node.id, attr), NFS3_OK);
}

TEST_F(VfsPosixChange, ReplacedFileIsStaleAndItsSpaceComesBack) {
    const Node old = create("a", 0644), fresh = create("b", 0644);
    Wcc wcc, other;
    ASSERT_EQ(vfs->rename(kNobody, {vfs->root(), "b"}, {vfs->root(), "a"}, wcc, other), NFS3_OK);
    Attr attr;
    EXPECT_EQ(vfs->getattr(kNobody, old.id, attr), NFS3ERR_STALE);
    EXPECT_EQ(vfs->getattr(kNobody, fresh.id, attr), NFS3_OK);
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
        std::error_code ignored;
        const std::string target = fs::read_symlink(entry, ignored);
        EXPECT_EQ(target.find(dir.path() + "/a (deleted)"), target.npos) << target;
    }
}

TEST_F(VfsPosixChange, OddNamesAreJustBytes) {
    for (const std::string& name :
         {std::string("with space"), std::string("ü\xff\x01\n"), std::string(255, 'n'),
          std::string("-rf"), std::string("...")}) {
        const Node node = create(name, 0644);
        Node again;
        EXPECT_EQ(vfs->lookup(kNobody, {vfs->root(), name}, again), NFS3_OK);
        EXPECT_EQ(node.id, again.id);
        Wcc wcc;
        EXPECT_EQ(vfs->remove(kNobody, {vfs->root(), name}, wcc), NFS3_OK);
    }
}

// Where no file can be made one that is there is still found, and by its verifier.
TEST_F(VfsPosixChange, ExclusiveCreateWhereNothingCanBeMadeFindsTheName) {
    fs::create_directory(dir.path() + "/d");
    Node d, made;
    Wcc wcc;
    ASSERT_EQ(vfs->lookup(kNobody, {vfs->root(), "d"}, d), NFS3_OK);
    CreateHow how;
    how.mode = EXCLUSIVE;
    how.verifier = 0x1234567890abcdefu;
    ASSERT_EQ(vfs->create(kNobody, {d.id, "there"}, how, made, wcc), NFS3_OK);
    ASSERT_EQ(::chmod((dir.path() + "/d").c_str(), 0555), 0);
    ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
    // As a user whom the mode binds; in a process of its own, which does not come back from that.
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
        constexpr uid_t kSomebody = 61001;
        if (::geteuid() == 0 && ::setresuid(kSomebody, kSomebody, kSomebody) != 0) ::_exit(10);
        CreateHow other = how;
        other.verifier = 1;
        if (vfs->create(kNobody, {d.id, "new"}, how, made, wcc) != NFS3ERR_ACCES) ::_exit(1);
        if (vfs->create(kNobody, {d.id, "there"}, other, made, wcc) != NFS3ERR_EXIST) ::_exit(2);
        if (vfs->create(kNobody, {d.id, "there"}, how, made, wcc) != NFS3_OK) ::_exit(3);
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A directory whose file system has files without a name; "" when there is none.
std::string parent_with_nameless_files() {
    for (const std::string& parent : {::testing::TempDir(), std::string("/dev/shm/")}) {
        const UniqueFd fd(::open(parent.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
        if (fd) return parent;
    }
    return "";
}

// A client sends an exclusive create again when the server was killed; the next server knows the
// file by its verifier, if there is one (RFC 1813 s3.3.8).
TEST_F(VfsPosixChange, KilledServerLeavesNoExclusiveFileWithoutItsVerifier) {
    const std::string parent = parent_with_nameless_files();
    ASSERT_FALSE(parent.empty());
    const testing::TempDir nameless(parent);
    vfs = *VfsPosix::create(nameless.path(), {});
    CreateHow how;
    how.mode = EXCLUSIVE;
    how.verifier = 0x1234567890abcdefu;
    for (int round = 0; round < 40; ++round) {
        const std::string prefix = "r" + std::to_string(round) + "-";
        int ready[2];
        ASSERT_EQ(::pipe(ready), 0);
        const pid_t pid = ::fork();
        ASSERT_GE(pid, 0);
        if (pid == 0) {
            for (int i = 0;; ++i) {
                Node made;
                Wcc changes;
                if (vfs->create(kNobody, {vfs->root(), prefix + std::to_string(i)}, how, made,
                                changes) != NFS3_OK)
                    ::_exit(1);
                if (i == 3 && ::write(ready[1], "", 1) != 1) ::_exit(1);
            }
        }
        char byte = 0;
        EXPECT_EQ(::read(ready[0], &byte, 1), 1);
        EXPECT_EQ(::kill(pid, SIGKILL), 0);
        int status = 0;
        EXPECT_EQ(::waitpid(pid, &status, 0), pid);
        EXPECT_TRUE(WIFSIGNALED(status));
        ::close(ready[0]);
        ::close(ready[1]);
    }
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(nameless.path())) {
        Node node;
        Wcc wcc;
        EXPECT_EQ(
            vfs->create(kNobody, {vfs->root(), entry.path().filename().string()}, how, node, wcc),
            NFS3_OK)
            << entry.path();
        ++files;
    }
    EXPECT_GE(files, 160u);
}

}  // namespace
}  // namespace nfsrdma::nfs
