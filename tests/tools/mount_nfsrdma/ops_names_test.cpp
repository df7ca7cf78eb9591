#include "tools/mount_nfsrdma/ops_names.hpp"

#include <cerrno>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

nfs::client::FileHandle handle_of(const std::string& bytes) {
    nfs::client::FileHandle handle;
    EXPECT_TRUE(handle.assign(bytes.data(), static_cast<std::uint32_t>(bytes.size())));
    return handle;
}

TEST(Names, LongerThanTheServersAreRefusedHere) {
    Mount mount(MountOptions{}, handle_of("root"));
    mount.limits.name_max = 255;
    EXPECT_EQ(error_of_name(mount, std::string(255, 'n')), 0);
    EXPECT_EQ(error_of_name(mount, std::string(256, 'n')), ENAMETOOLONG);
    mount.limits.name_max = 14;
    EXPECT_EQ(error_of_name(mount, std::string(15, 'n')), ENAMETOOLONG);
}

TEST(Names, PlaceIsTheHandleAndTheName) {
    Mount mount(MountOptions{}, handle_of("root"));
    std::string name = "file";
    const diropargs3 where = place(mount.nodes.root(), name);
    EXPECT_EQ(std::string(where.dir.data.data_val, where.dir.data.data_len), "root");
    EXPECT_STREQ(where.name, "file");
}

TEST(Names, AttributesOfNoTypeAreOfTypeNought) {
    post_op_attr attributes{};
    EXPECT_EQ(told(attributes), nullptr);
    attributes.attributes_follow = TRUE;
    attributes.post_op_attr_u.attributes.type = NF3FIFO;
    ASSERT_NE(told(attributes), nullptr);
    EXPECT_EQ(nfs::client::raw_value(told(attributes)->type), NF3FIFO);
    const std::int32_t wrong = 99;
    std::memcpy(&attributes.post_op_attr_u.attributes.type, &wrong, sizeof wrong);
    EXPECT_EQ(nfs::client::raw_value(told(attributes)->type), 0);
}

TEST(Names, ChangingEndsOnce) {
    Mount mount(MountOptions{}, handle_of("root"));
    Node& root = mount.nodes.root();
    const std::uint32_t pins = root.pins;
    {
        Changing one, two;
        one.begin(mount, root);
        two.begin(mount, root);
        EXPECT_TRUE(root.attributes.changing());
        one.end();
        one.end();
        EXPECT_TRUE(root.attributes.changing());
        EXPECT_EQ(root.pins, pins + 1);
    }
    EXPECT_FALSE(root.attributes.changing());
    EXPECT_EQ(root.pins, pins);
}

}  // namespace
}  // namespace nfsrdma::mount
