#include "tools/mount_nfsrdma/silly.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

nfs::client::FileHandle handle_of(const std::string& bytes) {
    nfs::client::FileHandle handle;
    EXPECT_TRUE(handle.assign(bytes.data(), static_cast<std::uint32_t>(bytes.size())));
    return handle;
}

fattr3 attributes_of(ftype3 type) {
    fattr3 attributes{};
    attributes.type = type;
    attributes.fileid = 7;
    return attributes;
}

struct Tree {
    Tree() : mount(MountOptions{}, handle_of("root")) {
        const auto know = [](Node& node, ftype3 type) {
            node.attributes.take(attributes_of(type), 1, 1, CacheRange{}, Before());
        };
        know(directory, NF3DIR);
        know(file, NF3REG);
    }
    Mount mount;
    Node& directory = mount.nodes.root();
    Node& file = mount.nodes.get(handle_of("file"));
};

TEST(Silly, NameHasTheFileidAndACounter) {
    EXPECT_EQ(hidden_name(0x1234, 0xab), ".nfs0000000000001234000000ab");
    EXPECT_EQ(hidden_name(~std::uint64_t{0}, ~std::uint32_t{0}), ".nfsffffffffffffffffffffffff");
    EXPECT_NE(hidden_name(1, 1), hidden_name(1, 2));
}

TEST(Silly, OnlyWhatIsOpenIsHidden) {
    Tree tree;
    EXPECT_FALSE(must_hide(tree.file));
    tree.file.opens = 1;
    EXPECT_TRUE(must_hide(tree.file));
    tree.directory.opens = 1;
    EXPECT_FALSE(must_hide(tree.directory));
    tree.file.opens = 0;
}

TEST(Silly, WhatIsHiddenOutlivesItsOtherNames) {
    Tree tree;
    tree.file.opens = 1;
    tree.file.silly_name = hidden_name(7, 1);
    EXPECT_FALSE(must_hide(tree.file));
}

TEST(Silly, WhatMayHaveNoHiddenNameIsHiddenOnceMore) {
    Tree tree;
    tree.file.opens = 1;
    tree.file.silly_name = hidden_name(7, 1);
    tree.file.silly_in_doubt = true;
    EXPECT_TRUE(must_hide(tree.file));
    tree.file.opens = 0;
}

TEST(Silly, HiddenAsIsOfOneDirectory) {
    Tree tree;
    EXPECT_FALSE(is_hidden_as(tree.file, tree.directory, ""));
    tree.file.silly_name = hidden_name(7, 1);
    tree.file.silly_parent = &tree.directory;
    EXPECT_TRUE(is_hidden_as(tree.file, tree.directory, tree.file.silly_name));
    EXPECT_FALSE(is_hidden_as(tree.file, tree.directory, hidden_name(7, 2)));
    EXPECT_FALSE(is_hidden_as(tree.file, tree.file, tree.file.silly_name));
}

TEST(Silly, RevealedNodeEndsWhenNobodyNeedsIt) {
    Tree tree;
    tree.file.silly_name = hidden_name(7, 1);
    tree.file.silly_parent = &tree.directory;
    tree.mount.nodes.pin(tree.file);
    tree.mount.nodes.pin(tree.directory);
    ++tree.directory.silly_children;
    const std::uint32_t pins = tree.directory.pins;
    EXPECT_EQ(tree.mount.nodes.silly_ones().size(), 1u);
    const std::uint64_t ino = tree.file.ino;
    reveal(tree.mount, tree.file);
    EXPECT_EQ(tree.mount.nodes.at(ino), nullptr);
    EXPECT_EQ(tree.directory.pins, pins - 1);
    EXPECT_EQ(tree.directory.silly_children, 0u);
    EXPECT_TRUE(tree.mount.nodes.silly_ones().empty());
}

}  // namespace
}  // namespace nfsrdma::mount
