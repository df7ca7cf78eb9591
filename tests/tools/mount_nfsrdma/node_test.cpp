#include "tools/mount_nfsrdma/node.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

using nfs::client::FileHandle;

FileHandle handle(const std::string& text) {
    FileHandle made;
    EXPECT_TRUE(made.assign(text.data(), static_cast<std::uint32_t>(text.size())));
    return made;
}

class NodeTableTest : public ::testing::Test {
  protected:
    NodeTableTest() {
        table.arg = this;
        table.ending = [](void* arg, Node& node) noexcept {
            static_cast<NodeTableTest*>(arg)->ended.push_back(node.ino);
        };
        table.get(handle("root")).lookups = 1;
    }
    Node& looked_up(const std::string& text) {
        Node& node = table.get(handle(text));
        ++node.lookups;
        return node;
    }
    std::vector<std::uint64_t> ended;
    NodeTable table;
};

TEST_F(NodeTableTest, OneHandleIsOneNode) {
    Node& a = looked_up("a");
    EXPECT_EQ(&table.get(handle("a")), &a);
    EXPECT_EQ(table.find(handle("a")), &a);
    EXPECT_EQ(table.at(a.ino), &a);
    EXPECT_EQ(table.root().ino, 1u);
    EXPECT_EQ(table.find(handle("b")), nullptr);
    EXPECT_EQ(table.at(0), nullptr);
    EXPECT_EQ(table.at(99), nullptr);
}

TEST_F(NodeTableTest, ForgottenOnceTheKernelHasNoLookupOfIt) {
    Node& a = looked_up("a");
    ++a.lookups;
    const std::uint64_t ino = a.ino;
    table.forget(a, 1);
    EXPECT_EQ(table.at(ino), &a);
    table.forget(a, 1);
    EXPECT_EQ(table.at(ino), nullptr);
    EXPECT_EQ(table.find(handle("a")), nullptr);
    EXPECT_EQ(ended, std::vector<std::uint64_t>{ino});
}

TEST_F(NodeTableTest, NumberIsUsedAgainWithAnotherGeneration) {
    Node& a = looked_up("a");
    const std::uint64_t ino = a.ino, generation = a.generation;
    table.forget(a, 1);
    Node& b = looked_up("b");
    EXPECT_EQ(b.ino, ino);
    EXPECT_NE(b.generation, generation);
}

TEST_F(NodeTableTest, PinKeepsWhatTheKernelForgot) {
    Node& a = looked_up("a");
    const std::uint64_t ino = a.ino;
    NodePin pin(table, a);
    table.forget(a, 1);
    EXPECT_EQ(table.at(ino), &a);
    NodePin other = std::move(pin);
    pin.reset();
    EXPECT_EQ(table.at(ino), &a);
    other.reset();
    EXPECT_EQ(table.at(ino), nullptr);
}

TEST_F(NodeTableTest, RootIsNeverForgotten) {
    table.forget(table.root(), 1000);
    EXPECT_EQ(table.at(1), &table.root());
}

TEST_F(NodeTableTest, NamesLeadToNodesAndGoWithThem) {
    Node& directory = looked_up("directory");
    Node& file = looked_up("file");
    table.set_name(table.root(), "d", directory);
    table.set_name(directory, "f", file);
    table.set_name(directory, "second", file);
    EXPECT_EQ(table.child(directory, "f"), &file);
    EXPECT_EQ(table.child(directory, "second"), &file);
    EXPECT_EQ(file.names.size(), 2u);
    EXPECT_EQ(directory.children.size(), 2u);
    table.forget(file, 1);
    EXPECT_EQ(directory.children.size(), 0u);
    EXPECT_EQ(table.child(directory, "f"), nullptr);
}

// The kernel may forget a directory before what is in it.
TEST_F(NodeTableTest, DirectoryLivesAsLongAsThereAreNamesInIt) {
    Node& directory = looked_up("directory");
    Node& file = looked_up("file");
    const std::uint64_t ino = directory.ino;
    table.set_name(table.root(), "d", directory);
    table.set_name(directory, "f", file);
    table.forget(directory, 1);
    EXPECT_EQ(table.at(ino), &directory);
    table.forget(file, 1);
    EXPECT_EQ(table.at(ino), nullptr);
    EXPECT_EQ(table.size(), 1u);
}

TEST_F(NodeTableTest, NameOfSomebodyElseIsReplaced) {
    Node& a = looked_up("a");
    Node& b = looked_up("b");
    table.set_name(table.root(), "n", a);
    table.set_name(table.root(), "n", b);
    EXPECT_EQ(table.child(table.root(), "n"), &b);
    EXPECT_EQ(a.names.size(), 0u);
    EXPECT_EQ(table.root().children.size(), 1u);
}

TEST_F(NodeTableTest, RenameMovesOverWhatWasThere) {
    Node& a = looked_up("a");
    Node& b = looked_up("b");
    Node& directory = looked_up("directory");
    table.set_name(table.root(), "a", a);
    table.set_name(directory, "b", b);
    table.move_name(table.root(), "a", directory, "b");
    EXPECT_EQ(table.child(directory, "b"), &a);
    EXPECT_EQ(table.child(table.root(), "a"), nullptr);
    EXPECT_EQ(b.names.size(), 0u);
    table.move_name(directory, "b", directory, "b");
    EXPECT_EQ(table.child(directory, "b"), &a);
    // What is not known here takes the name from whom is.
    table.move_name(table.root(), "unknown", directory, "b");
    EXPECT_EQ(table.child(directory, "b"), nullptr);
}

TEST_F(NodeTableTest, ThoseThatWaitForTheirLastCloseAreListed) {
    Node& a = looked_up("a");
    looked_up("b");
    a.silly_name = ".nfs1";
    EXPECT_EQ(table.silly_ones(), std::vector<Node*>{&a});
}

TEST_F(NodeTableTest, ManyNodesAndNamesComeAndGo) {
    for (int round = 0; round < 3; ++round) {
        std::vector<Node*> nodes;
        for (int i = 0; i < 5000; ++i) {
            Node& node = looked_up("n" + std::to_string(i));
            table.set_name(table.root(), "name" + std::to_string(i), node);
            nodes.push_back(&node);
        }
        EXPECT_EQ(table.size(), 5001u);
        for (Node* const node : nodes)
            table.forget(*node, 1);
        EXPECT_EQ(table.size(), 1u);
        EXPECT_EQ(table.root().children.size(), 0u);
    }
    EXPECT_EQ(ended.size(), 15000u);
}

}  // namespace
}  // namespace nfsrdma::mount
