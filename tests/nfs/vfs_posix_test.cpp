#include "nfs/vfs_posix.hpp"

#include <fcntl.h>
#include <fstream>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <thread>

#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::nfs {
namespace {

namespace fs = std::filesystem;
const Cred kNobody;

void put(const std::string& path, const std::string& content) {
    std::ofstream(path) << content;
}

class VfsPosixTest : public ::testing::Test {
  protected:
    void SetUp() override {
        fs::create_directory(dir.path() + "/export");
        put(dir.path() + "/secret", "outside");
        make({});
    }
    void make(const VfsPosixOptions& options) {
        auto made = VfsPosix::create(root(), options);
        ASSERT_TRUE(static_cast<bool>(made));
        vfs = *std::move(made);
    }
    std::string root() const { return dir.path() + "/export"; }
    nfsstat3 lookup(NodeId in, const std::string& name, Node& out) {
        return vfs->lookup(kNobody, {in, name}, out);
    }
    Node find(NodeId in, const std::string& name) {
        Node node;
        EXPECT_EQ(lookup(in, name, node), NFS3_OK) << name;
        return node;
    }
    nfsstat3 getattr(NodeId id) {
        Attr attr;
        return vfs->getattr(kNobody, id, attr);
    }
    testing::TempDir dir;
    std::unique_ptr<VfsPosix> vfs;
};

TEST_F(VfsPosixTest, CreateRefusesWhatIsNoDirectory) {
    EXPECT_EQ(VfsPosix::create(dir.path() + "/none", {}).error().sys, ENOENT);
    EXPECT_EQ(VfsPosix::create(dir.path() + "/secret", {}).error().sys, ENOTDIR);
}

TEST_F(VfsPosixTest, DotDotAtTheRootIsTheRoot) {
    EXPECT_EQ(find(vfs->root(), "..").id, vfs->root());
    fs::create_directories(root() + "/a/b");
    const Node a = find(vfs->root(), "a"), b = find(a.id, "b");
    EXPECT_EQ(find(b.id, "..").id, a.id);
    EXPECT_EQ(find(a.id, "..").id, vfs->root());
    EXPECT_EQ(find(b.id, ".").id, b.id);
}

TEST_F(VfsPosixTest, LinksOutOfTheExportAreNotFollowed) {
    fs::create_symlink("../secret", root() + "/up");
    fs::create_symlink(dir.path(), root() + "/out");
    const Node up = find(vfs->root(), "up"), out = find(vfs->root(), "out");
    EXPECT_EQ(up.attr.type, NF3LNK);
    Node node;
    EXPECT_EQ(lookup(out.id, "secret", node), NFS3ERR_NOTDIR);
    IoFile io;
    EXPECT_EQ(vfs->open_io(kNobody, up.id, IoUse::read, io), NFS3ERR_INVAL);
}

TEST_F(VfsPosixTest, DirectoryReplacedByALinkIsStale) {
    fs::create_directory(root() + "/d");
    put(root() + "/d/secret", "inside");
    const Node d = find(vfs->root(), "d"), inner = find(d.id, "secret");
    make({});  // nothing open
    find(vfs->root(), "d");
    fs::remove_all(root() + "/d");
    fs::create_symlink("..", root() + "/d");
    EXPECT_EQ(getattr(inner.id), NFS3ERR_STALE);
    EXPECT_EQ(getattr(d.id), NFS3ERR_STALE);
}

TEST_F(VfsPosixTest, HandlesOutliveEviction) {
    VfsPosixOptions options;
    options.open_files = 1;  // as few as can be
    make(options);
    std::vector<Node> nodes;
    for (int i = 0; i < 150; ++i) {
        const std::string name = "d" + std::to_string(i);
        fs::create_directory(root() + "/" + name);
        put(root() + "/" + name + "/f", name);
        nodes.push_back(find(find(vfs->root(), name).id, "f"));
    }
    for (const Node& node : nodes)
        EXPECT_EQ(getattr(node.id), NFS3_OK);
}

TEST_F(VfsPosixTest, HandlesFollowRenamesWithoutAnOpenDescriptor) {
    VfsPosixOptions options;
    options.open_files = 8;
    make(options);
    fs::create_directories(root() + "/a/b");
    put(root() + "/a/b/f", "x");
    const Node a = find(vfs->root(), "a"), b = find(a.id, "b"), f = find(b.id, "f");
    Wcc from, to;
    EXPECT_EQ(vfs->rename(kNobody, {vfs->root(), "a"}, {vfs->root(), "z"}, from, to), NFS3_OK);
    EXPECT_EQ(vfs->rename(kNobody, {b.id, "f"}, {vfs->root(), "g"}, from, to), NFS3_OK);
    for (int i = 0; i < 64; ++i) {  // push everything out
        put(root() + "/x" + std::to_string(i), "");
        getattr(find(vfs->root(), "x" + std::to_string(i)).id);
    }
    EXPECT_EQ(getattr(f.id), NFS3_OK);
    EXPECT_EQ(getattr(b.id), NFS3_OK);
    EXPECT_EQ(find(b.id, "..").id, a.id);
}

TEST_F(VfsPosixTest, HandlesAreTheSameAfterARestart) {
    VfsPosixOptions options;
    options.kernel_handles = false;
    make(options);
    put(root() + "/f", "x");
    const Node before = find(vfs->root(), "f");
    make(options);
    EXPECT_EQ(getattr(before.id), NFS3ERR_STALE);  // not looked up yet
    const Node after = find(vfs->root(), "f");
    EXPECT_EQ(before.id, after.id);
    EXPECT_EQ(getattr(before.id), NFS3_OK);
}

TEST_F(VfsPosixTest, ReusedInodeIsAnotherObject) {
    put(root() + "/f", "x");
    const Node old = find(vfs->root(), "f");
    Wcc wcc;
    ASSERT_EQ(vfs->remove(kNobody, {vfs->root(), "f"}, wcc), NFS3_OK);
    for (int i = 0; i < 20; ++i)
        put(root() + "/f" + std::to_string(i), "y");
    for (int i = 0; i < 20; ++i) {
        EXPECT_NE(find(vfs->root(), "f" + std::to_string(i)).id, old.id);
    }
    EXPECT_EQ(getattr(old.id), NFS3ERR_STALE);
}

TEST_F(VfsPosixTest, FileRemovedBehindTheServerIsStale) {
    put(root() + "/f", "x");
    const Node node = find(vfs->root(), "f");
    EXPECT_EQ(getattr(node.id), NFS3_OK);
    fs::remove(root() + "/f");
    EXPECT_EQ(getattr(node.id), NFS3ERR_STALE);
}

TEST_F(VfsPosixTest, OtherLinkKeepsTheHandle) {
    put(root() + "/a", "x");
    const Node node = find(vfs->root(), "a");
    Wcc wcc;
    ASSERT_EQ(vfs->link(kNobody, node.id, {vfs->root(), "b"}, wcc), NFS3_OK);
    ASSERT_EQ(vfs->remove(kNobody, {vfs->root(), "a"}, wcc), NFS3_OK);
    EXPECT_EQ(getattr(node.id), NFS3_OK);
    EXPECT_EQ(find(vfs->root(), "b").id, node.id);
}

TEST_F(VfsPosixTest, MountPointsAreNotEntered) {
    fs::create_directory(root() + "/m");
    if (::mount("none", (root() + "/m").c_str(), "tmpfs", 0, nullptr) != 0) {
        GTEST_SKIP() << "needs root to mount";
    }
    Node node;
    EXPECT_EQ(lookup(vfs->root(), "m", node), NFS3ERR_XDEV);
    EXPECT_EQ(::umount((root() + "/m").c_str()), 0);
}

TEST_F(VfsPosixTest, NamesThatAreNoneDoNotReachTheKernel) {
    Node node;
    for (const std::string& name :
         {std::string("a/b"), std::string("../secret"), std::string(), std::string("x\0y", 3)}) {
        EXPECT_EQ(lookup(vfs->root(), name, node), NFS3ERR_INVAL) << name;
    }
    EXPECT_EQ(lookup(vfs->root(), std::string(256, 'n'), node), NFS3ERR_NAMETOOLONG);
}

TEST_F(VfsPosixTest, StatfsIsThatOfTheFileSystem) {
    StatFs out;
    ASSERT_EQ(vfs->statfs(kNobody, vfs->root(), out), NFS3_OK);
    struct statvfs expected {};
    ASSERT_EQ(::statvfs(root().c_str(), &expected), 0);
    EXPECT_EQ(out.total_bytes, expected.f_blocks * expected.f_frsize);
    EXPECT_EQ(out.name_max, 255u);
    EXPECT_GE(out.link_max, 1u);
}

TEST_F(VfsPosixTest, DeepTreesAreFound) {
    std::string path = root();
    std::vector<Node> nodes{Node{vfs->root(), {}}};
    for (int i = 0; i < 60; ++i) {
        path += "/directory-" + std::to_string(i);
        fs::create_directory(path);
        nodes.push_back(find(nodes.back().id, fs::path(path).filename()));
    }
    EXPECT_EQ(getattr(nodes.back().id), NFS3_OK);
    EXPECT_EQ(find(nodes.back().id, "..").id, nodes[nodes.size() - 2].id);
}

// Loops share a backend: what several threads do at once must not mix.
TEST_F(VfsPosixTest, ThreadsShareIt) {
    VfsPosixOptions options;
    options.open_files = 64;
    make(options);
    put(root() + "/shared", "0123456789");
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([this, t] {
            Node own, node;
            Wcc wcc, other;
            const std::string mine = "d" + std::to_string(t);
            ASSERT_EQ(vfs->mkdir(kNobody, {vfs->root(), mine}, {}, own, wcc), NFS3_OK);
            for (int i = 0; i < 200; ++i) {
                const std::string a = "a" + std::to_string(i % 7), b = "b" + std::to_string(i);
                ASSERT_EQ(vfs->create(kNobody, {own.id, a}, {}, node, wcc), NFS3_OK);
                IoFile io;
                ASSERT_EQ(vfs->open_io(kNobody, node.id, IoUse::write, io), NFS3_OK);
                std::array<std::byte, 100> data{};
                std::uint32_t moved = 0;
                EXPECT_EQ(vfs->write_now(io, 0, data, moved), NFS3_OK);
                vfs->close_io(io);
                ASSERT_EQ(vfs->rename(kNobody, {own.id, a}, {own.id, b}, wcc, other), NFS3_OK);
                EXPECT_EQ(getattr(node.id), NFS3_OK);
                ASSERT_EQ(lookup(vfs->root(), "shared", node), NFS3_OK);
                ASSERT_EQ(vfs->open_io(kNobody, node.id, IoUse::read, io), NFS3_OK);
                EXPECT_EQ(vfs->read_now(io, 0, data, moved), NFS3_OK);
                EXPECT_EQ(moved, 10u);
                vfs->close_io(io);
                if (i % 10 == 0) vfs->tidy();
                if (i % 2 != 0) continue;
                EXPECT_EQ(vfs->remove(kNobody, {own.id, b}, wcc), NFS3_OK);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace
}  // namespace nfsrdma::nfs
