#include "tools/mount_nfsrdma/mount.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

// What the kernel may keep of the root, by the options.
struct Kept {
    double name = 0, negative = 0;
};

Kept kept(const std::string& list) {
    MountOptions options;
    EXPECT_EQ(parse_list(list, true, false, options), "");
    Mount mount(options, nfs::client::FileHandle());
    Node& root = mount.nodes.root();
    fattr3 attributes{};
    attributes.type = NF3DIR;
    (void)mount.take(root, attributes, mount.next_order());
    return {mount.name_seconds(root), mount.negative_seconds(root)};
}

TEST(MountTimes, NamesAreKeptAsLookupcacheSays) {
    EXPECT_EQ(kept("").name, 30);
    EXPECT_EQ(kept("").negative, 5);
    EXPECT_EQ(kept("lookupcache=positive").name, 30);
    EXPECT_EQ(kept("lookupcache=positive").negative, 0);
    EXPECT_EQ(kept("lookupcache=none").name, 0);
    EXPECT_EQ(kept("lookupcache=none").negative, 0);
}

TEST(MountTimes, NamesAreKeptAsLongAsTheirDirectoryIsBelieved) {
    EXPECT_EQ(kept("actimeo=7").name, 7);
    EXPECT_EQ(kept("acdirmin=2").negative, 2);
    EXPECT_EQ(kept("noac").name, 0);
    EXPECT_EQ(kept("noac").negative, 0);
}

class MountNodes : public ::testing::Test {
  protected:
    static nfs::client::FileHandle handle_of(const std::string& bytes) {
        nfs::client::FileHandle handle;
        EXPECT_TRUE(handle.assign(bytes.data(), static_cast<std::uint32_t>(bytes.size())));
        return handle;
    }
    static fattr3 of_type(ftype3 type) {
        fattr3 attributes{};
        attributes.type = type;
        return attributes;
    }
    Mount mount{MountOptions(), handle_of("root")};
};

TEST_F(MountNodes, HandleThatComesBackWithAnotherTypeIsNotTakenOver) {
    const fattr3 file = of_type(NF3REG), directory = of_type(NF3DIR);
    Node* const node = mount.node_of(handle_of("f"), &file, mount.next_order());
    ASSERT_NE(node, nullptr);
    EXPECT_EQ(mount.node_of(handle_of("f"), &directory, mount.next_order()), nullptr);
    EXPECT_EQ(node->type(), NF3REG);
    EXPECT_FALSE(node->attributes.fresh(mount.now_ns()));
    EXPECT_EQ(mount.take(*node, directory, mount.next_order()), Change::none);
    EXPECT_EQ(node->type(), NF3REG);
    EXPECT_EQ(mount.node_of(handle_of("f"), &file, mount.next_order()), node);
}

TEST_F(MountNodes, NamesThatComeJustAfterOthersWereExpiredAreBelievedBriefly) {
    const fattr3 file = of_type(NF3REG), directory = of_type(NF3DIR);
    Node& root = mount.nodes.root();
    (void)mount.take(root, directory, mount.next_order());
    Node* const node = mount.node_of(handle_of("f"), &file, mount.next_order());
    ASSERT_NE(node, nullptr);
    mount.nodes.set_name(root, "f", *node);
    EXPECT_EQ(mount.name_seconds(root), 30);
    mount.expire_names(root);
    EXPECT_LE(mount.name_seconds(root), 1);
    root.expired_at_ns -= kNsPerSec;
    EXPECT_EQ(mount.name_seconds(root), 30);
}

}  // namespace
}  // namespace nfsrdma::mount
