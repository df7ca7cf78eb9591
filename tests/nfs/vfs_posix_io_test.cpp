#include <fcntl.h>
#include <fstream>
#include <sys/stat.h>

#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::nfs {
namespace {

const Cred kNobody;

class VfsPosixIo : public ::testing::Test {
  protected:
    void SetUp() override { vfs = *VfsPosix::create(dir.path(), {}); }
    Node file(const std::string& name, mode_t mode) {
        std::ofstream(dir.path() + "/" + name) << "0123456789";
        EXPECT_EQ(::chmod((dir.path() + "/" + name).c_str(), mode), 0);
        Node node;
        EXPECT_EQ(vfs->lookup(kNobody, {vfs->root(), name}, node), NFS3_OK);
        return node;
    }
    nfsstat3 open(const Node& node, IoUse use) {
        IoFile io;
        const nfsstat3 status = vfs->open_io(kNobody, node.id, use, io);
        if (status == NFS3_OK) vfs->close_io(io);
        return status;
    }
    testing::TempDir dir;
    std::unique_ptr<VfsPosix> vfs;
};

TEST_F(VfsPosixIo, OwnerReadsAndWritesWhateverTheMode) {
    for (const mode_t mode : {0444u, 0200u, 0u}) {
        const std::string name = "f" + std::to_string(mode);
        const Node node = file(name, mode);
        EXPECT_EQ(open(node, IoUse::read), NFS3_OK) << mode;
        EXPECT_EQ(open(node, IoUse::write), NFS3_OK) << mode;
        EXPECT_EQ(open(node, IoUse::sync), NFS3_OK) << mode;
        struct stat st {};
        ASSERT_EQ(::stat((dir.path() + "/" + name).c_str(), &st), 0);
        EXPECT_EQ(st.st_mode & 07777u, mode);
    }
}

TEST_F(VfsPosixIo, FifoIsNeverOpened) {
    ASSERT_EQ(::mkfifo((dir.path() + "/p").c_str(), 0666), 0);
    Node node;
    ASSERT_EQ(vfs->lookup(kNobody, {vfs->root(), "p"}, node), NFS3_OK);
    EXPECT_EQ(open(node, IoUse::read), NFS3ERR_INVAL);
    EXPECT_EQ(open(node, IoUse::write), NFS3ERR_INVAL);
}

TEST_F(VfsPosixIo, DescriptorIsKeptBetweenUses) {
    const Node node = file("f", 0644);
    IoFile first, second;
    ASSERT_EQ(vfs->open_io(kNobody, node.id, IoUse::read, first), NFS3_OK);
    ASSERT_EQ(vfs->open_io(kNobody, node.id, IoUse::read, second), NFS3_OK);
    EXPECT_EQ(first.fd, second.fd);
    vfs->close_io(first);
    vfs->close_io(second);
}

TEST_F(VfsPosixIo, ProgramThatWasWrittenCanBeStartedAfterTidying) {
    std::ofstream(dir.path() + "/prog") << "#!/bin/true\n";
    ASSERT_EQ(::chmod((dir.path() + "/prog").c_str(), 0755), 0);
    Node node;
    ASSERT_EQ(vfs->lookup(kNobody, {vfs->root(), "prog"}, node), NFS3_OK);
    EXPECT_EQ(open(node, IoUse::write), NFS3_OK);
    vfs->tidy();
    const std::string command = "'" + dir.path() + "/prog'";
    EXPECT_EQ(std::system(command.c_str()), 0);  // NOLINT(cert-env33-c,concurrency-mt-unsafe)
}

TEST_F(VfsPosixIo, MovesBytesAndStopsAtTheEnd) {
    const Node node = file("f", 0644);
    IoFile io;
    ASSERT_EQ(vfs->open_io(kNobody, node.id, IoUse::read, io), NFS3_OK);
    std::vector<std::byte> out(100);
    std::uint32_t moved = 0;
    EXPECT_EQ(vfs->read_now(io, 4, out, moved), NFS3_OK);
    EXPECT_EQ(moved, 6u);
    EXPECT_EQ(vfs->read_now(io, UINT64_MAX - 1, out, moved), NFS3_OK);
    EXPECT_EQ(moved, 0u);
    vfs->close_io(io);
    ASSERT_EQ(vfs->open_io(kNobody, node.id, IoUse::write, io), NFS3_OK);
    EXPECT_EQ(vfs->write_now(io, 10, out, moved), NFS3_OK);
    EXPECT_EQ(moved, 100u);
    EXPECT_EQ(vfs->write_now(io, UINT64_MAX - 1, out, moved), NFS3ERR_FBIG);
    Attr attr;
    EXPECT_EQ(vfs->io_attr(io, attr), NFS3_OK);
    EXPECT_EQ(attr.size, 110u);
    vfs->close_io(io);
}

}  // namespace
}  // namespace nfsrdma::nfs
