#include "nfs/client/walk.hpp"

#include "tests/nfs/client/world.hpp"

namespace nfsrdma::nfs::client {
namespace {

class PathWalkTest : public testing::NfsWorld {
  protected:
    PathWalkTest() {
        a = mkdir(root, "a");
        b = mkdir(a, "b");
        file = create(b, "file");
        walk = std::make_unique<PathWalk>(*client);
        walk->user = &finished;
        walk->done = [](PathWalk& w) noexcept { *static_cast<bool*>(w.user) = true; };
    }
    const Outcome& go(const std::string& path, bool follow_last = true, bool parent_only = false) {
        finished = false;
        PathWalk::Options options;
        options.root = root;
        options.path = path;
        options.follow_last = follow_last;
        options.parent_only = parent_only;
        walk->start(options);
        EXPECT_TRUE(world.run_until([&] { return finished; }));
        return walk->outcome;
    }
    FileHandle a, b, file;
    std::unique_ptr<PathWalk> walk;
    bool finished = false;
};

TEST_F(PathWalkTest, PathsToTheSameFile) {
    for (const char* path : {"a/b/file", "/a/b/file", "//a///b/./file", "a/../a/b/file",
                             "../../a/b/file", "a/b/../b/file"}) {
        ASSERT_TRUE(go(path).ok()) << path << " " << to_string(walk->outcome);
        EXPECT_EQ(walk->object, file) << path;
        EXPECT_EQ(walk->attributes.type, NF3REG);
    }
}

TEST_F(PathWalkTest, TheRootItself) {
    for (const char* path : {"", "/", ".", "..", "a/.."}) {
        ASSERT_TRUE(go(path).ok()) << path;
        EXPECT_EQ(walk->object, root) << path;
        EXPECT_EQ(walk->attributes.type, NF3DIR);
    }
}

TEST_F(PathWalkTest, FailureNamesWhereItFailed) {
    EXPECT_EQ(go("a/none/file").status, NFS3ERR_NOENT);
    EXPECT_EQ(walk->failed_at(), "/a/none");
    EXPECT_EQ(go("a/b/file/x").status, NFS3ERR_NOTDIR);
}

TEST_F(PathWalkTest, LinksAreFollowed) {
    symlink(root, "to_b", "a/b");
    symlink(b, "up", "../b/file");
    symlink(root, "last", "to_b/up");
    for (const char* path : {"to_b/file", "to_b/up", "a/b/up", "last"}) {
        ASSERT_TRUE(go(path).ok()) << path << " " << to_string(walk->outcome);
        EXPECT_EQ(walk->object, file) << path;
    }
    ASSERT_TRUE(go("last", false).ok());
    EXPECT_EQ(walk->attributes.type, NF3LNK);
    ASSERT_TRUE(go("to_b/up", false).ok());
    EXPECT_EQ(walk->attributes.type, NF3LNK);
}

TEST_F(PathWalkTest, LoopsAndAbsoluteLinksEnd) {
    symlink(root, "loop", "loop");
    symlink(root, "grow", "grow/x/x/x/x");
    symlink(root, "absolute", "/etc/passwd");
    EXPECT_FALSE(go("loop").ok());
    EXPECT_FALSE(go("grow").ok());
    EXPECT_FALSE(go("absolute").ok());
    EXPECT_TRUE(go("absolute", false).ok());
}

TEST_F(PathWalkTest, ParentOnly) {
    ASSERT_TRUE(go("a/b/new", true, true).ok());
    EXPECT_EQ(walk->object, b);
    EXPECT_EQ(walk->last_name(), "new");
    ASSERT_TRUE(go("new", true, true).ok());
    EXPECT_EQ(walk->object, root);
    EXPECT_EQ(go("a/b/file/new", true, true).status, NFS3ERR_NOTDIR);
    EXPECT_FALSE(go("", true, true).ok());
    EXPECT_FALSE(go("a/..", true, true).ok());
}

}  // namespace
}  // namespace nfsrdma::nfs::client
