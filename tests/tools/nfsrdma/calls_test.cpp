#include "tools/nfsrdma/calls.hpp"

#include "tests/tools/nfsrdma/tree_test.hpp"

namespace nfsrdma::tool {
namespace {

using CallsTest = testing::ToolWorld;

TEST_F(CallsTest, TheExportIsFoundInThePath) {
    mkdir(root, "a");
    Calls other(*client, url);
    EXPECT_TRUE(other.mount("/export/a/b/c"));
    EXPECT_EQ(other.export_path(), "/export");
    Calls none(*client, url);
    EXPECT_FALSE(none.mount("/elsewhere/x"));
    EXPECT_EQ(none.export_path(), "");
}

TEST_F(CallsTest, HoldsWhatIsBelow) {
    EXPECT_TRUE(calls->holds(at("/x")));
    EXPECT_TRUE(calls->holds(url));
    Url other = at("/x");
    other.port = 1;
    EXPECT_FALSE(calls->holds(other));
    other = url;
    other.path = "/exportx";
    EXPECT_FALSE(calls->holds(other));
}

TEST_F(CallsTest, WalkAndList) {
    const auto dir = mkdir(root, "dir");
    create(dir, "b");
    create(dir, "a");
    symlink(root, "link", "dir");
    EXPECT_EQ(calls->walk(at("/link"), true).handle, dir);
    EXPECT_EQ(calls->walk(at("/link"), false).attributes.type, NF3LNK);
    EXPECT_EQ(calls->walk(at("/link/"), false).handle, dir);
    EXPECT_EQ(calls->walk(at("/none"), true).outcome.status, NFS3ERR_NOENT);
    EXPECT_EQ(calls->walk_to_parent(at("/dir/new")).name, "new");
    std::vector<Entry> entries;
    ASSERT_TRUE(calls->list(dir, entries, {}).ok());
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_EQ(entries[0].name, "a");
    EXPECT_EQ(entries[1].name, "b");
    EXPECT_TRUE(entries[0].known);
    ASSERT_TRUE(calls->list(dir, entries, ListOptions{true, false}).ok());
    ASSERT_EQ(entries.size(), 2u);
    EXPECT_FALSE(entries[0].known);
    ASSERT_TRUE(calls->list(dir, entries, ListOptions{false, true}).ok());
    ASSERT_EQ(entries.size(), 4u);
    EXPECT_EQ(entries[1].name, "..");
    EXPECT_TRUE(entries[0].known);
}

TEST_F(CallsTest, ErrorsSayWhatMayHelp) {
    using nfs::client::Outcome;
    EXPECT_NE(calls->explain(Outcome::failed(NFS3ERR_NOSPC)).find("no space"), std::string::npos);
    EXPECT_NE(calls->explain(Outcome::failed(Error{Errc::reconnect, 0, ""})).find("may or may not"),
              std::string::npos);
}

}  // namespace
}  // namespace nfsrdma::tool
