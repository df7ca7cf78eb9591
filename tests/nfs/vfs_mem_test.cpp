#include "nfs/vfs_mem.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::nfs {
namespace {

const Cred kNobody;

class VfsMemTest : public ::testing::Test {
  protected:
    Node file(const std::string& name) {
        Node node;
        Wcc wcc;
        EXPECT_EQ(fs.create(kNobody, {fs.root(), name}, {}, node, wcc), NFS3_OK);
        return node;
    }
    nfsstat3 write(const Node& node, std::uint64_t offset, std::size_t bytes) {
        IoFile io;
        EXPECT_EQ(fs.open_io(kNobody, node.id, IoUse::write, io), NFS3_OK);
        const std::vector<std::byte> data(bytes, std::byte{1});
        std::uint32_t moved = 0;
        const nfsstat3 status = fs.write_now(io, offset, data, moved);
        fs.close_io(io);
        return status;
    }
    VfsMemOptions options() {
        VfsMemOptions out;
        out.capacity_bytes = 1 << 20;
        out.max_file_bytes = 512 << 10;
        out.max_nodes = 10;
        return out;
    }
    VfsMem fs{options()};
};

TEST_F(VfsMemTest, HolesReadAsZero) {
    const Node node = file("f");
    EXPECT_EQ(write(node, 1000, 10), NFS3_OK);
    IoFile io;
    ASSERT_EQ(fs.open_io(kNobody, node.id, IoUse::read, io), NFS3_OK);
    std::vector<std::byte> out(2000, std::byte{9});
    std::uint32_t moved = 0;
    EXPECT_EQ(fs.read_now(io, 0, out, moved), NFS3_OK);
    EXPECT_EQ(moved, 1010u);
    EXPECT_EQ(out[999], std::byte{0});
    EXPECT_EQ(out[1000], std::byte{1});
}

TEST_F(VfsMemTest, LimitsAreKept) {
    const Node a = file("a"), b = file("b"), c = file("c");
    EXPECT_EQ(write(a, (512 << 10) - 1, 2), NFS3ERR_FBIG);
    EXPECT_EQ(write(a, UINT64_MAX - 1, 10), NFS3ERR_FBIG);
    EXPECT_EQ(write(a, 0, 512 << 10), NFS3_OK);
    EXPECT_EQ(write(b, 0, 512 << 10), NFS3_OK);
    EXPECT_EQ(write(c, 0, 1), NFS3ERR_NOSPC);
    Wcc wcc;
    EXPECT_EQ(fs.remove(kNobody, {fs.root(), "a"}, wcc), NFS3_OK);
    EXPECT_EQ(write(c, 0, 1), NFS3_OK);
}

TEST_F(VfsMemTest, NodesAreBounded) {
    for (int i = 0; i < 9; ++i)
        file(std::to_string(i));
    Node node;
    Wcc wcc;
    EXPECT_EQ(fs.create(kNobody, {fs.root(), "more"}, {}, node, wcc), NFS3ERR_NOSPC);
}

TEST_F(VfsMemTest, RemovedFileidIsNotReused) {
    const Node old = file("f");
    Wcc wcc;
    EXPECT_EQ(fs.remove(kNobody, {fs.root(), "f"}, wcc), NFS3_OK);
    const Node fresh = file("f");
    EXPECT_NE(old.id, fresh.id);
    Attr attr;
    EXPECT_EQ(fs.getattr(kNobody, old.id, attr), NFS3ERR_STALE);
}

TEST_F(VfsMemTest, DirectoryDoesNotMoveBelowItself) {
    Node a, b;
    Wcc wcc, other;
    ASSERT_EQ(fs.mkdir(kNobody, {fs.root(), "a"}, {}, a, wcc), NFS3_OK);
    ASSERT_EQ(fs.mkdir(kNobody, {a.id, "b"}, {}, b, wcc), NFS3_OK);
    EXPECT_EQ(fs.rename(kNobody, {fs.root(), "a"}, {b.id, "x"}, wcc, other), NFS3ERR_INVAL);
    EXPECT_EQ(fs.rename(kNobody, {fs.root(), "a"}, {a.id, "x"}, wcc, other), NFS3ERR_INVAL);
}

TEST_F(VfsMemTest, EveryChangeMovesCtime) {
    const Node node = file("f");
    Attr before, after;
    ASSERT_EQ(fs.getattr(kNobody, node.id, before), NFS3_OK);
    ASSERT_EQ(write(node, 0, 1), NFS3_OK);
    ASSERT_EQ(fs.getattr(kNobody, node.id, after), NFS3_OK);
    EXPECT_NE(before.ctime, after.ctime);
}

}  // namespace
}  // namespace nfsrdma::nfs
