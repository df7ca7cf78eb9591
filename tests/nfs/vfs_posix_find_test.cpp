#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "nfs/vfs_posix.hpp"
#include "tests/nfs/temp_dir.hpp"

// How handles are found again: by the kernel, by a database on disk, or by one in memory.
namespace nfsrdma::nfs {
namespace {

namespace fs = std::filesystem;

enum class By { kernel, disk, memory };

class VfsPosixFind : public ::testing::TestWithParam<By> {
  protected:
    void SetUp() override {
        start();
        if (GetParam() == By::kernel &&
            std::string_view(vfs->handles_by()) != "the kernel's handles")
            GTEST_SKIP() << "needs root: CAP_DAC_READ_SEARCH, and a file system with handles";
    }
    void start(std::uint32_t open_files = 1024, const std::string& below = {}) {
        vfs.reset();  // one at a time has the journal
        VfsPosixOptions options;
        options.kernel_handles = GetParam() == By::kernel;
        if (GetParam() == By::disk) options.state_dir = state.path();
        options.open_files = open_files;
        options.recheck_ns = 0;
        auto made = VfsPosix::create(dir.path() + below, options);
        ASSERT_TRUE(static_cast<bool>(made)) << to_string(made.error());
        vfs = *std::move(made);
    }
    NodeId find(NodeId in, const std::string& name) {
        Node node;
        EXPECT_EQ(vfs->lookup({}, {in, name}, node), NFS3_OK) << name;
        return node.id;
    }
    nfsstat3 getattr(NodeId node) {
        Attr attr;
        return vfs->getattr({}, node, attr);
    }
    NodeId make_dir(NodeId in, const std::string& name) {
        Node node;
        Wcc wcc;
        EXPECT_EQ(vfs->mkdir({}, {in, name}, {}, node, wcc), NFS3_OK) << name;
        return node.id;
    }
    NodeId make_file(NodeId in, const std::string& name) {
        Node node;
        Wcc wcc;
        EXPECT_EQ(vfs->create({}, {in, name}, {}, node, wcc), NFS3_OK) << name;
        return node.id;
    }
    bool survives() const { return GetParam() != By::memory; }

    const testing::TempDir dir, state;
    std::unique_ptr<VfsPosix> vfs;
};
INSTANTIATE_TEST_SUITE_P(By, VfsPosixFind, ::testing::Values(By::kernel, By::disk, By::memory),
                         [](const auto& param_info) {
                             return std::string(param_info.param == By::kernel ? "Kernel"
                                                : param_info.param == By::disk ? "Disk"
                                                                               : "Memory");
                         });

TEST_P(VfsPosixFind, HandlesOfBeforeARestart) {
    const NodeId a = make_dir(vfs->root(), "a"), b = make_dir(a, "b");
    const NodeId file = make_file(b, "f"), gone = make_file(b, "gone");
    fs::create_symlink("f", dir.path() + "/a/b/link");
    const NodeId link = find(b, "link");
    Wcc from, to;
    ASSERT_EQ(vfs->rename({}, {a, "b"}, {vfs->root(), "c"}, from, to), NFS3_OK);
    ASSERT_EQ(vfs->remove({}, {b, "gone"}, from), NFS3_OK);
    EXPECT_EQ(vfs->survives_restart(), survives());
    start();
    const nfsstat3 wanted = survives() ? NFS3_OK : NFS3ERR_STALE;
    EXPECT_EQ(getattr(file), wanted);
    EXPECT_EQ(getattr(link), wanted);
    EXPECT_EQ(getattr(b), wanted);
    EXPECT_EQ(getattr(a), wanted);
    EXPECT_EQ(getattr(gone), NFS3ERR_STALE);
    EXPECT_EQ(getattr(vfs->root()), NFS3_OK);
    EXPECT_EQ(find(find(vfs->root(), "c"), "f"), file);
    EXPECT_EQ(getattr(file), NFS3_OK);
    EXPECT_EQ(find(find(vfs->root(), "c"), ".."), vfs->root());
}

TEST_P(VfsPosixFind, ListedNamesAreKnownAfterARestart) {
    for (int i = 0; i < 100; ++i)
        std::ofstream(dir.path() + "/f" + std::to_string(i)) << i;
    struct Sink final : DirSink {
        bool add(const DirEntry& entry) noexcept override {
            if (entry.node != nullptr) ids.push_back(entry.node->id);
            return true;
        }
        std::vector<NodeId> ids;
    } sink;
    bool eof = false;
    ASSERT_EQ(vfs->readdir({}, {vfs->root(), 0, true}, sink, eof), NFS3_OK);
    ASSERT_GE(sink.ids.size(), 100u);
    start();
    for (const NodeId id : sink.ids)
        EXPECT_EQ(getattr(id), survives() || id == vfs->root() ? NFS3_OK : NFS3ERR_STALE);
}

// An export that was reloaded while calls of its earlier self are in progress.
TEST_P(VfsPosixFind, SecondBackendOfOneProcessGoesOnInMemory) {
    const NodeId file = make_file(vfs->root(), "f");
    const std::unique_ptr<VfsPosix> earlier = std::move(vfs);
    start();
    EXPECT_EQ(vfs->survives_restart(), GetParam() == By::kernel);
    EXPECT_EQ(find(vfs->root(), "f"), file);
    EXPECT_EQ(getattr(file), NFS3_OK);
    Attr attr;
    EXPECT_EQ(earlier->getattr({}, file, attr), NFS3_OK);
}

TEST_P(VfsPosixFind, OnlyWhatTheKernelCannotOpenIsRemembered) {
    for (int i = 0; i < 50; ++i)
        make_file(vfs->root(), "f" + std::to_string(i));
    EXPECT_EQ(vfs->handles().size(), GetParam() == By::kernel ? 0u : 50u);
}

TEST_P(VfsPosixFind, DotDotNeedsNoMemory) {
    fs::create_directories(dir.path() + "/a/b/c");
    const NodeId a = find(vfs->root(), "a"), b = find(a, "b"), c = find(b, "c");
    for (int i = 0; i < 20; ++i)
        fs::create_directory(dir.path() + "/x" + std::to_string(i));
    start(8);
    const NodeId again = find(find(find(vfs->root(), "a"), "b"), "c");
    EXPECT_EQ(again, c);
    for (int i = 0; i < 20; ++i)
        getattr(find(vfs->root(), "x" + std::to_string(i)));
    EXPECT_EQ(find(c, ".."), b);
    EXPECT_EQ(find(b, ".."), a);
    EXPECT_EQ(find(a, ".."), vfs->root());
    EXPECT_EQ(find(vfs->root(), ".."), vfs->root());
}

// The handle of an object that another export of the file system gave out, signed by us all the
// same.
TEST_P(VfsPosixFind, ObjectsOutsideAreStaleWhateverTheHandleSays) {
    fs::create_directories(dir.path() + "/export/in");
    fs::create_directories(dir.path() + "/other/deep");
    std::ofstream(dir.path() + "/other/deep/file") << "secret";
    const NodeId other = find(vfs->root(), "other"), deep = find(other, "deep");
    const NodeId file = find(deep, "file"), top = vfs->root();
    start(1024, "/export");
    for (const NodeId id : {other, deep, file, top})
        EXPECT_EQ(getattr(id), NFS3ERR_STALE);
    EXPECT_EQ(getattr(find(vfs->root(), "in")), NFS3_OK);
}

TEST_P(VfsPosixFind, KernelHandleOfAnotherObjectIsStale) {
    const NodeId a = make_file(vfs->root(), "a"), b = make_file(vfs->root(), "b");
    NodeId mixed = a;
    mixed.kernel = b.kernel;
    start();
    EXPECT_EQ(getattr(mixed), GetParam() == By::disk ? NFS3_OK : NFS3ERR_STALE);
    mixed.kernel.bytes.fill(std::byte{0xff});
    start();
    EXPECT_EQ(getattr(mixed), GetParam() == By::disk ? NFS3_OK : NFS3ERR_STALE);
}

TEST_P(VfsPosixFind, AnotherDirectoryUnderTheNameKnowsNothing) {
    fs::create_directory(dir.path() + "/e");
    start(1024, "/e");
    const NodeId file = make_file(vfs->root(), "f");
    fs::rename(dir.path() + "/e", dir.path() + "/old");
    fs::create_directory(dir.path() + "/e");
    std::ofstream(dir.path() + "/e/f") << "another";
    start(1024, "/e");
    EXPECT_EQ(getattr(file), NFS3ERR_STALE);
    EXPECT_NE(find(vfs->root(), "f"), file);
}

TEST_P(VfsPosixFind, FilesKeepTheirHandleByAnotherName) {
    const NodeId file = make_file(vfs->root(), "a");
    Wcc wcc;
    ASSERT_EQ(vfs->link({}, file, {vfs->root(), "b"}, wcc), NFS3_OK);
    ASSERT_EQ(vfs->remove({}, {vfs->root(), "a"}, wcc), NFS3_OK);
    EXPECT_EQ(getattr(file), NFS3_OK);
    start();
    EXPECT_EQ(getattr(file), survives() ? NFS3_OK : NFS3ERR_STALE);
}

// Renamed by somebody else while the server was down: only the kernel knows.
TEST_P(VfsPosixFind, RenamedBehindTheServersBack) {
    const NodeId file = make_file(vfs->root(), "a");
    vfs.reset();
    fs::rename(dir.path() + "/a", dir.path() + "/b");
    start();
    EXPECT_EQ(getattr(file), GetParam() == By::kernel ? NFS3_OK : NFS3ERR_STALE);
    EXPECT_EQ(find(vfs->root(), "b"), file);
    EXPECT_EQ(getattr(file), NFS3_OK);
}

}  // namespace
}  // namespace nfsrdma::nfs
