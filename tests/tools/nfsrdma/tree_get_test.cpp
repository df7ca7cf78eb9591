#include "tools/nfsrdma/tree_get.hpp"

#include "tests/tools/nfsrdma/hostile_server.hpp"
#include "tests/tools/nfsrdma/tree_test.hpp"

namespace nfsrdma::tool {
namespace {

namespace fs = std::filesystem;

using testing::HostileServer;

class TreeGetTest : public ::testing::Test {
  protected:
    TreeGetTest() {
        url.host = "server";
        url.path = "/";
        EXPECT_TRUE(calls.mount("/"));
        fs::create_directories(local / "target");
    }
    bool get() {
        Progress progress(*world.loop, false, 0);
        CopyOptions how{true, 4, 2, rules, 20};
        TreeGetter getter(calls, how, progress, report);
        getter.get(url, local.fd(), "target", local / "target");
        return getter.finish();
    }
    testing::LocalDir local;
    testing::DirectWorld world;
    CopyReport report;
    CopyRules rules;
    HostileServer server;
    testing::DirectXprt xprt{*world.loop, server.dispatcher, testing::DirectOptions{}};
    nfs::client::Client client{xprt, nullptr};
    Url url;
    Calls calls{client, url};
};

TEST_F(TreeGetTest, NamesThatLeadOutAreRefusedAndTheRestIsCopied) {
    server.listings["root"] = {{"../evil1", NF3REG, "evil", ""},
                               {"..", NF3DIR, "", "sub"},
                               {"a/../../evil2", NF3REG, "e", ""},
                               {"/tmp/nfsrdma-evil3", NF3REG, "e", ""},
                               {"", NF3REG, "e", ""},
                               {"good", NF3REG, "good", ""},
                               {"sub", NF3DIR, "", "sub"}};
    server.listings["sub"] = {{"../../evil4", NF3LNK, "/etc", ""}, {"inner", NF3REG, "inner", ""}};
    EXPECT_FALSE(get());
    EXPECT_EQ(local.read("target/good"), "good");
    EXPECT_EQ(local.read("target/sub/inner"), "inner");
    for (const char* name : {"evil1", "evil2", "evil4"})
        EXPECT_FALSE(local.has(name)) << name;
    EXPECT_FALSE(fs::exists("/tmp/nfsrdma-evil3"));
    EXPECT_EQ(std::distance(fs::directory_iterator(local / "target"), fs::directory_iterator()), 2);
}

// The same name first as a link that leads out and then as a directory, or a file: nothing goes
// through the link.
TEST_F(TreeGetTest, ALinkIsNotWrittenThrough) {
    fs::create_directories(local / "outside");
    local.write("outside/file", "precious");
    server.listings["root"] = {{"d", NF3LNK, "../outside", ""},
                               {"d", NF3DIR, "", "sub"},
                               {"f", NF3LNK, "../outside/file", ""},
                               {"f", NF3REG, "evil", ""}};
    server.listings["sub"] = {{"evil", NF3REG, "evil", ""}};
    EXPECT_FALSE(get());
    EXPECT_FALSE(local.has("outside/evil"));
    EXPECT_EQ(local.read("outside/file"), "precious");
}

TEST_F(TreeGetTest, ATreeWithoutEndEnds) {
    server.listings["root"] = {{"again", NF3DIR, "", "root"}};
    EXPECT_FALSE(get());
}

TEST_F(TreeGetTest, SetUidIsNotTakenOver) {
    server.listings["root"] = {{"tool", NF3REG, "x", ""}};
    EXPECT_TRUE(get());
    struct stat st {};
    ASSERT_EQ(::stat((local / "target/tool").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0755u);
}

TEST_F(TreeGetTest, DevicesAreLeftOut) {
    server.listings["root"] = {{"device", NF3BLK, "x", ""}, {"fifo", NF3FIFO, "x", ""}};
    EXPECT_TRUE(get());
    EXPECT_TRUE(fs::is_empty(local / "target"));
    EXPECT_EQ(report.omitted, 2u);
}

// The same name twice for the same thing: a directory that changed while it was read.
TEST_F(TreeGetTest, ARepeatedEntryIsTakenOnce) {
    server.listings["root"] = {{"f", NF3REG, "text", ""}, {"f", NF3REG, "text", ""}};
    EXPECT_TRUE(get());
    EXPECT_EQ(report.files, 1u);
    EXPECT_EQ(local.read("target/f"), "text");
}

TEST_F(TreeGetTest, EveryFailureIsInTheReport) {
    server.listings["root"] = {
        {"..", NF3REG, "x", ""}, {"a/b", NF3REG, "x", ""}, {"good", NF3REG, "x", ""}};
    EXPECT_FALSE(get());
    ASSERT_EQ(report.failures().size(), 1u);
    EXPECT_NE(report.failures()[0].path.find("a/b"), std::string::npos);
    EXPECT_EQ(report.files, 1u);
    JsonObject object;
    report.add_to(object);
    EXPECT_NE(object.text().find("\"failed\":1"), std::string::npos);
}

// What is there already as a link, put by whomever, is not written through, whatever the server
// says.
TEST_F(TreeGetTest, LocalLinksInTheTargetAreNotFollowed) {
    fs::create_directories(local / "outside");
    local.write("outside/file", "precious");
    fs::create_symlink("../outside", local / "target/d");
    fs::create_symlink("../outside/file", local / "target/f");
    server.listings["root"] = {{"d", NF3DIR, "", "sub"}, {"f", NF3REG, "evil", ""}};
    server.listings["sub"] = {{"evil", NF3REG, "evil", ""}};
    EXPECT_FALSE(get());
    EXPECT_FALSE(local.has("outside/evil"));
    EXPECT_EQ(local.read("outside/file"), "precious");
    EXPECT_EQ(report.failures().size(), 2u);
}

TEST_F(TreeGetTest, VerifyingReadsItBack) {
    server.listings["root"] = {{"f", NF3REG, std::string(60, 'v'), ""}, {"empty", NF3REG, "", ""}};
    rules.verify = true;
    (void)get();
    EXPECT_EQ(report.verified, 1u);  // the other one's handle is none
    EXPECT_EQ(local.read("target/f"), std::string(60, 'v'));
}

}  // namespace
}  // namespace nfsrdma::tool
