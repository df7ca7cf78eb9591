#include "nfs/server/server.hpp"

#include <set>

#include <gtest/gtest.h>

#include "nfs/vfs_mem.hpp"

namespace nfsrdma::nfs {
namespace {

TEST(Server, ExportNamesAreNormal) {
    EXPECT_EQ(normal_export_name("/a"), "/a");
    EXPECT_EQ(normal_export_name("a//b/"), "/a/b");
    EXPECT_EQ(normal_export_name(""), "/");
    EXPECT_EQ(normal_export_name("///"), "/");
    EXPECT_EQ(normal_export_name("/with space"), "/with space");
}

TEST(Server, SameNameTwiceIsRefused) {
    Server server;
    EXPECT_TRUE(static_cast<bool>(server.add_export("/a", std::make_unique<VfsMem>())));
    EXPECT_FALSE(static_cast<bool>(server.add_export("a/", std::make_unique<VfsMem>())));
    EXPECT_FALSE(static_cast<bool>(server.add_export("", std::make_unique<VfsMem>())));
    EXPECT_EQ(server.exports().size(), 1u);
}

TEST(Server, ExportIsFoundByItsId) {
    Server server;
    ASSERT_TRUE(static_cast<bool>(server.add_export("/a", std::make_unique<VfsMem>())));
    EXPECT_EQ(server.find_export(export_id_of("/a")), server.exports().front());
    EXPECT_EQ(server.find_export(1), nullptr);
}

TEST(B90, VerifierDiffersAtEveryStart) {
    std::set<std::array<char, 8>> seen;
    for (int i = 0; i < 100; ++i)
        seen.insert(Server().write_verifier());
    EXPECT_EQ(seen.size(), 100u);
}

TEST(Server, MountsAreBounded) {
    Server server;
    for (std::size_t i = 0; i < 2 * Server::kMountsMax; ++i) {
        server.note_mount("h" + std::to_string(i), "/a");
    }
    EXPECT_EQ(server.mounts().size(), Server::kMountsMax);
}

}  // namespace
}  // namespace nfsrdma::nfs
