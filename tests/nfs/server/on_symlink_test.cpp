#include "tests/nfs/nfs_world.hpp"

namespace nfsrdma::testing {
namespace {

class OnSymlink : public NfsTest {};
NR_ON_BACKENDS(OnSymlink);

TEST_P(OnSymlink, PathComesByChunkAndInline) {
    for (const std::size_t size : {1u, 3u, 5u, 1000u, 4095u}) {
        const std::string target(size, 't'), name = "l" + std::to_string(size);
        ASSERT_EQ(w.symlink(w.root, name, target)->status, NFS3_OK);
        const fattr3 attr = w.attr(w.find(w.root, name));
        EXPECT_EQ(attr.type, NF3LNK);
        EXPECT_EQ(attr.size, size);
    }
}

TEST_P(OnSymlink, WhatIsThere) {
    w.file(w.root, "f");
    EXPECT_EQ(w.symlink(w.root, "f", "x")->status, NFS3ERR_EXIST);
}

TEST_P(OnSymlink, TargetMayBeAnything) {
    for (const std::string target : {"../../etc/passwd", "/", "with space", "\xff\xfe"}) {
        EXPECT_EQ(w.symlink(w.root, "l" + std::to_string(target.size()), target)->status, NFS3_OK);
    }
}

}  // namespace
}  // namespace nfsrdma::testing
