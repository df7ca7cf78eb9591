// get -r from a server that means harm, with RPC-over-RDMA and the soft device between them: over a
// LoopWire, in virtual time.
#include <filesystem>

#include <gtest/gtest.h>

#include "svcrdma/listener.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/tools/nfsrdma/hostile_server.hpp"
#include "tests/tools/nfsrdma/local_dir.hpp"
#include "tools/nfsrdma/tree_get.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::tool {
namespace {

namespace fs = std::filesystem;

class HostileGetTest : public ::testing::Test {
  protected:
    HostileGetTest() {
        svcrdma::ServerOptions how;
        how.demand.credits = 8;
        how.payload_runs = 4;
        how.connections_max = 4;
        auto listening = svcrdma::Listener::create(*world.server, test::LoopWorld::server_address(),
                                                   server.dispatcher, how);
        NR_ASSERT(static_cast<bool>(listening));
        listener = *std::move(listening);
        xprtrdma::TransportOptions options;
        options.demand.credits = 8;
        const auto connected = [](void* arg, Result<void> how_it_went) noexcept {
            *static_cast<int*>(arg) = how_it_went ? 1 : -1;
        };
        auto made = xprtrdma::Transport::create(*world.client, test::LoopWorld::server_address(),
                                                options, connected, &outcome);
        NR_ASSERT(static_cast<bool>(made));
        xprt = *std::move(made);
        EXPECT_TRUE(world.run_until([this] { return outcome != 0; }));
        client = std::make_unique<nfs::client::Client>(*xprt, nullptr);
        url.host = "server";
        url.path = "/";
        calls = std::make_unique<Calls>(*client, url);
        EXPECT_TRUE(calls->mount("/"));
        fs::create_directories(local / "outside");
        fs::create_directories(local / "target");
        local.write("outside/file", "precious");
    }
    ~HostileGetTest() override {
        calls.reset();
        client.reset();
        xprt->close();
        EXPECT_TRUE(world.run_until([this] { return xprt->idle(); }));
        xprt.reset();
        listener->shut_down(0);
        EXPECT_TRUE(world.run_until([this] { return listener->idle(); }));
        // Whatever happened: nothing went out of the target.
        EXPECT_EQ(local.read("outside/file"), "precious");
        EXPECT_EQ(count(local / "outside"), 1);
        EXPECT_EQ(count(local / ""), 2);
    }
    static std::ptrdiff_t count(const std::string& path) {
        return std::distance(fs::directory_iterator(path), fs::directory_iterator());
    }
    bool get() {
        Progress progress(*world.loop, false, 0);
        CopyOptions how{true, 4, 2, {}, 30};
        TreeGetter getter(*calls, how, progress, report);
        getter.get(url, local.fd(), "target", local / "target");
        return getter.finish();
    }
    testing::LocalDir local;
    test::LoopWorld world;
    testing::HostileServer server;
    std::unique_ptr<svcrdma::Listener> listener;
    std::unique_ptr<xprtrdma::Transport> xprt;
    std::unique_ptr<nfs::client::Client> client;
    std::unique_ptr<Calls> calls;
    Url url;
    CopyReport report;
    int outcome = 0;
};

TEST_F(HostileGetTest, NoNameLeadsOut) {
    std::vector<testing::HostileServer::Item> items;
    for (const char* name :
         {"..", ".", "", "/", "//", "../x", "../../x", "a/..", "a/../../x", "./x", "/etc/x", "x/",
          "../outside/file", "target/../../outside/file", "..//outside", "outside/./file"}) {
        items.push_back({name, NF3REG, "evil", ""});
        items.push_back({name, NF3DIR, "", "sub"});
        items.push_back({name, NF3LNK, "../outside", ""});
    }
    items.push_back({"good", NF3REG, "good", ""});
    server.listings["root"] = items;
    server.listings["sub"] = {{"evil", NF3REG, "evil", ""}};
    EXPECT_FALSE(get());
    EXPECT_EQ(count(local / "target"), 1);
    EXPECT_EQ(local.read("target/good"), "good");
}

// First a link that leads out, then something to be written through it, in one listing and in two.
TEST_F(HostileGetTest, PlantedLinksAreNotWrittenThrough) {
    server.listings["root"] = {{"d", NF3LNK, "../outside", ""},
                               {"d", NF3DIR, "", "sub"},
                               {"f", NF3LNK, "../outside/file", ""},
                               {"f", NF3REG, "evil", ""},
                               {"up", NF3LNK, "..", ""}};
    server.listings["sub"] = {{"file", NF3REG, "evil", ""}};
    EXPECT_FALSE(get());
    server.listings["root"] = {
        {"d", NF3DIR, "", "sub"}, {"f", NF3REG, "evil", ""}, {"up", NF3DIR, "", "up"}};
    server.listings["up"] = {{"outside", NF3DIR, "", "sub"}};
    EXPECT_FALSE(get());
}

// What the listing does not tell is looked up, and that answer is as hostile.
TEST_F(HostileGetTest, LookedUpEntriesAreNoWayOut) {
    server.tells_nothing = true;
    server.listings["root"] = {{"a", NF3REG, "x", ""}, {"b/c", NF3REG, "x", ""}};
    EXPECT_FALSE(get());
    EXPECT_TRUE(fs::is_symlink(local / "target/a"));
    EXPECT_FALSE(local.has("target/b"));
}

TEST_F(HostileGetTest, B77_ListingsThatNeverEndDoEnd) {
    server.never_ends = true;
    server.listings["root"] = {{"a", NF3REG, "a", ""}, {"b", NF3REG, "b", ""}};
    const std::uint64_t begin = world.clock.now_ns();
    EXPECT_FALSE(get());
    server.listings["root"] = {};
    EXPECT_FALSE(get());
    EXPECT_LT(world.clock.now_ns() - begin, 5 * kNsPerSec);
    EXPECT_LT(server.listings_asked, 10u);
}

TEST_F(HostileGetTest, TreesWithoutEndEnd) {
    server.listings["root"] = {{"again", NF3DIR, "", "root"}};
    EXPECT_FALSE(get());
    EXPECT_EQ(report.failures().size(), 1u);
}

TEST_F(HostileGetTest, B109_PatienceIsRewarded) {
    server.jukebox_left = 2;
    server.listings["root"] = {{"a", NF3REG, "a", ""}};
    EXPECT_TRUE(get());
    EXPECT_EQ(server.listings_asked, 3u);
}

TEST_F(HostileGetTest, AFileThatChangesIsCopiedAnew) {
    server.changes = 1;
    server.listings["root"] = {{"a", NF3REG, "content", ""}};
    EXPECT_TRUE(get());
    EXPECT_EQ(server.reads, 2u);
    EXPECT_EQ(local.read("target/a"), "content");
    EXPECT_EQ(report.files, 1u);
}

TEST_F(HostileGetTest, AFileThatKeepsChangingIsAFailure) {
    server.changes = 1000;
    server.listings["root"] = {{"a", NF3REG, "content", ""}, {"b", NF3LNK, "fine", ""}};
    EXPECT_FALSE(get());
    EXPECT_EQ(server.reads, 3u);
    ASSERT_EQ(report.failures().size(), 1u);
    EXPECT_NE(report.failures()[0].why.find("keeps changing"), std::string::npos);
    EXPECT_TRUE(fs::is_symlink(local / "target/b"));
}

}  // namespace
}  // namespace nfsrdma::tool
