#include <fcntl.h>
#include <fstream>
#include <string>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "tests/nfs/nfs_world.hpp"
#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kFile = 256 * 1024, kRead = 64 * 1024;
const Cred kNobody;

// Files of memory that are read again and again.
class VfsPosixMapping : public ::testing::Test {
  protected:
    void SetUp() override {
        struct statfs fs {};
        ASSERT_EQ(::statfs("/dev/shm", &fs), 0);
        ASSERT_EQ(fs.f_type, 0x01021994) << "/dev/shm is no tmpfs";
        ASSERT_TRUE(FileMapping::allow());
        options_.map_files = true;
        make();
    }
    void make() { vfs_ = *VfsPosix::create(dir_.path(), options_); }
    std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
    NodeId file(const std::string& name, off_t bytes, bool hole = false) {
        const UniqueFd fd(::open(path(name).c_str(), O_CREAT | O_RDWR, 0644));
        const std::vector<char> block(static_cast<std::size_t>(hole ? bytes / 2 : bytes), 'x');
        EXPECT_EQ(::pwrite(fd.get(), block.data(), block.size(), 0),
                  static_cast<ssize_t>(block.size()));
        EXPECT_EQ(::ftruncate(fd.get(), bytes), 0);
        Node node;
        EXPECT_EQ(vfs_->lookup(kNobody, {vfs_->root(), name}, node), NFS3_OK);
        return node.id;
    }
    // As READ does it: true when it would go through a mapping.
    bool mapped(NodeId id, std::uint32_t bytes = kRead) {
        IoFile io;
        EXPECT_EQ(vfs_->open_io(kNobody, id, IoUse::read, io), NFS3_OK);
        Attr attr;
        EXPECT_EQ(vfs_->io_attr(io, attr), NFS3_OK);
        const bool is_mapped = vfs_->mapping(io, attr, bytes) != nullptr;
        vfs_->close_io(io);
        return is_mapped;
    }
    // Whether some file of the directory is mapped by this process.
    bool is_in_our_memory() const {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            if (line.find(dir_.path()) != std::string::npos) return true;
        }
        return false;
    }
    testing::TempDir dir_{"/dev/shm/"};
    VfsPosixOptions options_;
    std::unique_ptr<VfsPosix> vfs_;
};

TEST_F(VfsPosixMapping, FileIsMappedWhenItIsReadASecondTime) {
    const NodeId id = file("f", kFile);
    for (std::uint32_t done = 0; done < kFile; done += kRead)
        EXPECT_FALSE(mapped(id)) << done;
    EXPECT_TRUE(mapped(id));
    EXPECT_TRUE(mapped(id));
}

TEST_F(VfsPosixMapping, FileWithAHoleIsNot) {
    const NodeId id = file("f", kFile, true);
    for (int i = 0; i < 20; ++i)
        EXPECT_FALSE(mapped(id));
}

// A fault in a hole takes memory, so a file that got holes later is read from its descriptor.
TEST_F(VfsPosixMapping, MappingIsLeftAloneWhileTheFileHasHoles) {
    const NodeId id = file("f", kFile);
    while (!mapped(id)) {
    }
    ASSERT_EQ(::truncate(path("f").c_str(), 0), 0);
    ASSERT_EQ(::truncate(path("f").c_str(), kFile), 0);
    EXPECT_FALSE(mapped(id));
    file("f", kFile);
    EXPECT_TRUE(mapped(id));
}

TEST_F(VfsPosixMapping, OnlyWhereItIsWished) {
    options_.map_files = false;
    make();
    const NodeId id = file("f", kFile);
    for (int i = 0; i < 20; ++i)
        EXPECT_FALSE(mapped(id));
}

TEST_F(VfsPosixMapping, MappingGoesWhenTheFileIsClosed) {
    options_.open_files = 1;  // the least that it keeps: some for each of its parts
    make();
    const NodeId id = file("f", kFile);
    while (!mapped(id)) {
    }
    for (std::uint32_t i = 0; i < 4 * PosixFiles::kShards * PosixFiles::kEachMin; ++i)
        mapped(file("g" + std::to_string(i), 1));
    EXPECT_FALSE(mapped(id));
}

// A file that is removed gives its memory back once nothing holds it.
TEST_F(VfsPosixMapping, RemovedFileIsNotMappedAnyLonger) {
    const NodeId id = file("f", kFile);
    while (!mapped(id)) {
    }
    EXPECT_TRUE(is_in_our_memory());
    Wcc wcc;
    ASSERT_EQ(vfs_->remove(kNobody, {vfs_->root(), "f"}, wcc), NFS3_OK);
    EXPECT_FALSE(is_in_our_memory());
}

TEST_F(VfsPosixMapping, EmptyFileIsNotAndWhatShrankIsStill) {
    const NodeId id = file("f", 0);
    for (int i = 0; i < 4; ++i)
        EXPECT_FALSE(mapped(id, 0));
    const NodeId other = file("g", kFile);
    while (!mapped(other)) {
    }
    ASSERT_EQ(::truncate(path("g").c_str(), 10), 0);
    EXPECT_TRUE(mapped(other)) << "what it does not reach is read from the file";
}

}  // namespace
}  // namespace nfsrdma::nfs
