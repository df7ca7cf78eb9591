#include "tools/mount_nfsrdma/stats_server.hpp"

#include <atomic>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tools/nfsrdma/mount_stats.hpp"

namespace nfsrdma::mount {
namespace {

// Device numbers that no file system has.
tool::MountEntry entry(std::uint32_t minor) {
    tool::MountEntry out;
    out.major = 4094;
    out.minor = minor + static_cast<std::uint32_t>(::getpid()) % 100000 * 16;
    out.type = "fuse.nfsrdma";
    out.owner = ::getuid();
    return out;
}

UniqueFd connect_to(const tool::MountEntry& mount) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const tool::StatsAddress at = tool::stats_address(mount.major, mount.minor, 0);
    EXPECT_EQ(::connect(fd.get(), at.sa(), at.size), 0);
    return fd;
}

TEST(StatsServer, TellsWhoAsks) {
    std::atomic<int> asked{0};
    auto server = StatsServer::create(entry(1).major, entry(1).minor, [&](bool json) {
        ++asked;
        return json ? std::string("{}") : std::string(200000, 't');
    });
    ASSERT_TRUE(server) << to_string(server.error());
    for (int i = 0; i < 3; ++i) {
        auto text = tool::ask_mount(entry(1), false, 20);
        ASSERT_TRUE(text);
        EXPECT_EQ(text->size(), 200000u);
    }
    auto json = tool::ask_mount(entry(1), true, 20);
    ASSERT_TRUE(json);
    EXPECT_EQ(*json, "{}");
    EXPECT_EQ(asked, 4);
    server->reset();
    EXPECT_FALSE(tool::ask_mount(entry(1), true, 1)) << "it has ended";
}

TEST(StatsServer, TakenNamesArePassedOver) {
    const auto tell = [](const char* text) { return [text](bool) { return std::string(text); }; };
    const tool::MountEntry at = entry(2);
    auto first = StatsServer::create(at.major, at.minor, tell("first"));
    auto second = StatsServer::create(at.major, at.minor, tell("second"));
    ASSERT_TRUE(first && second);
    first->reset();
    auto answer = tool::ask_mount(at, false, 20);
    ASSERT_TRUE(answer);
    EXPECT_EQ(*answer, "second");
    std::vector<std::unique_ptr<StatsServer>> others;
    for (std::uint32_t i = 1; i < tool::kStatsNames; ++i) {
        auto one = StatsServer::create(at.major, at.minor, tell("other"));
        ASSERT_TRUE(one);
        others.push_back(*std::move(one));
    }
    const auto none = StatsServer::create(at.major, at.minor, tell("none"));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::system);
}

TEST(StatsServer, StrangeQuestionsAreNotAnswered) {
    std::atomic<int> asked{0};
    const tool::MountEntry at = entry(3);
    auto server = StatsServer::create(at.major, at.minor, [&](bool) {
        ++asked;
        return std::string("x");
    });
    ASSERT_TRUE(server);
    for (const std::string& question :
         {std::string("GET / HTTP/1.0\n"), std::string("\n"), std::string(100, 'x')}) {
        const UniqueFd fd = connect_to(at);
        (void)::send(fd.get(), question.data(), question.size(), MSG_NOSIGNAL);
        char byte = 0;
        EXPECT_LE(::recv(fd.get(), &byte, 1, 0), 0) << question;
    }
    EXPECT_EQ(asked, 0);
    // In pieces, it is one.
    const UniqueFd fd = connect_to(at);
    for (const char c : std::string("text\n"))
        ASSERT_EQ(::send(fd.get(), &c, 1, MSG_NOSIGNAL), 1);
    char byte = 0;
    EXPECT_EQ(::recv(fd.get(), &byte, 1, 0), 1);
    EXPECT_EQ(asked, 1);
}

TEST(StatsServer, SilentAskersHoldNobodyUpForLong) {
    const tool::MountEntry at = entry(4);
    auto server = StatsServer::create(at.major, at.minor, [](bool) { return std::string("x"); });
    ASSERT_TRUE(server);
    const UniqueFd silent = connect_to(at);
    EXPECT_TRUE(tool::ask_mount(at, false, 30));
    const UniqueFd left = connect_to(at);  // the server ends while it is asked
}

TEST(StatsServer, DirectoryWithoutAMountIsNone) {
    const auto server =
        StatsServer::at_directory("/no/such/place", [](bool) { return std::string(); });
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace nfsrdma::mount
