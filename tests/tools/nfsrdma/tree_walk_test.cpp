#include "tools/nfsrdma/tree_walk.hpp"

#include "tests/tools/nfsrdma/tree_test.hpp"

namespace nfsrdma::tool {
namespace {

struct Recorder final : TreeVisitor {
    bool enter(const Entry& directory, const std::string& path) override {
        log.push_back("enter " + path);
        return directory.name != "left-out";
    }
    bool listed(const std::vector<Entry>& entries, const std::string& path) override {
        log.push_back("listed " + path + " " + std::to_string(entries.size()));
        return path != "/flat";
    }
    void leaf(const Entry& /*entry*/, const nfs::client::FileHandle& parent,
              const std::string& path) override {
        EXPECT_FALSE(parent.empty());
        log.push_back("leaf " + path);
        stop = stop || path == stop_at;
    }
    void leave(const Entry& /*directory*/, const nfs::client::FileHandle& /*parent*/,
               const std::string& path) override {
        log.push_back("leave " + path);
    }
    void failed(const std::string& path, const std::string& why) override {
        log.push_back("failed " + path + ": " + why);
    }
    bool stopped() const override { return stop; }
    std::vector<std::string> log;
    std::string stop_at;
    bool stop = false;
};

class TreeWalkTest : public testing::ToolWorld {
  protected:
    std::vector<std::string> walk(const WalkOptions& options = {}) {
        const Found found = calls->walk(url, true);
        walk_tree(*calls, visitor, Entry{"", found.attributes, found.handle, true, false}, "",
                  options);
        return visitor.log;
    }
    Recorder visitor;
};

TEST_F(TreeWalkTest, DepthFirstInTheOrderOfNames) {
    const auto b = mkdir(root, "b");
    create(b, "x");
    create(root, "a");
    symlink(root, "c", "b");
    mkdir(root, "left-out");
    EXPECT_EQ(walk(), (std::vector<std::string>{"enter ", "listed  4", "leaf /a", "enter /b",
                                                "listed /b 1", "leaf /b/x", "leave /b", "leaf /c",
                                                "enter /left-out", "leave "}));
}

TEST_F(TreeWalkTest, WhatIsInADirectoryMayBePassedOver) {
    const auto flat = mkdir(root, "flat");
    create(flat, "x");
    EXPECT_EQ(walk(), (std::vector<std::string>{"enter ", "listed  1", "enter /flat",
                                                "listed /flat 1", "leave /flat", "leave "}));
}

TEST_F(TreeWalkTest, StopsWhenTold) {
    create(root, "a");
    create(root, "b");
    visitor.stop_at = "/a";
    EXPECT_EQ(walk().back(), "leaf /a");
}

TEST_F(TreeWalkTest, DepthHasALimit) {
    mkdir(mkdir(mkdir(root, "1"), "2"), "3");
    WalkOptions options;
    options.depth_max = 3;
    const std::vector<std::string> log = walk(options);
    EXPECT_NE(std::find(log.begin(), log.end(), "failed /1/2/3: the tree is too deep"), log.end());
    EXPECT_EQ(log.back(), "leave ");
}

TEST_F(TreeWalkTest, ALostConnectionEndsIt) {
    create(root, "a");
    xprt->disconnect();
    const std::vector<std::string> log = walk();
    EXPECT_TRUE(log.empty() || log.back().find("leave") == std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::tool
