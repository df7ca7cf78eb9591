#include "tools/nfsrdmad/options.hpp"

#include <filesystem>

#include <gtest/gtest.h>

namespace nfsrdma::nfsrdmad {
namespace {

int parse(std::vector<const char*> args, Options& out) {
    args.insert(args.begin(), "nfsrdmad");
    int status = -1;
    return parse_options(static_cast<int>(args.size()), args.data(), out, status) ? 0 : status + 10;
}
constexpr int kHelp = 10, kUsage = 12;

TEST(Options, DefaultsAreLoopbackAndAutomatic) {
    Options out;
    ASSERT_EQ(parse({"--export", "/tmp"}, out), 0);
    EXPECT_EQ(out.listen.to_string(), "127.0.0.1:20049");
    EXPECT_EQ(out.loops, 1u);
    EXPECT_EQ(out.roce_port, 4791);
    EXPECT_EQ(out.registration, pools::Registration::automatic);
    EXPECT_EQ(out.loop, LoopBackend::automatic);
    ASSERT_EQ(out.exports.size(), 1u);
    EXPECT_EQ(out.exports[0].name, "/tmp");
}

TEST(Options, EverythingIsTaken) {
    Options out;
    ASSERT_EQ(parse({"--export", "/a b", "--export", "/c=/name", "--listen", "[::1]:1234",
                     "--loops", "3", "--registration", "static", "--loop", "epoll", "--roce-port",
                     "4000", "--log-level", "debug", "--stats-json", "file"},
                    out),
              0);
    EXPECT_EQ(out.exports[0].path, "/a b");
    EXPECT_EQ(out.exports[1].path, "/c");
    EXPECT_EQ(out.exports[1].name, "/name");
    EXPECT_EQ(out.listen.to_string(), "[::1]:1234");
    EXPECT_EQ(out.loops, 3u);
    EXPECT_EQ(out.registration, pools::Registration::fixed);
    EXPECT_EQ(out.loop, LoopBackend::epoll);
    EXPECT_EQ(out.roce_port, 4000);
    EXPECT_EQ(out.log_level, log::Level::debug);
    EXPECT_EQ(out.stats_file, "file");
}

TEST(Options, BadUsageIsTwo) {
    Options out;
    EXPECT_EQ(parse({}, out), kUsage);
    EXPECT_EQ(parse({"--export", "/tmp", "--loops", "0"}, out), kUsage);
    EXPECT_EQ(parse({"--export", "/tmp", "--device", "other"}, out), kUsage);
    EXPECT_EQ(parse({"--export", "/tmp", "--listen", "name"}, out), kUsage);
    EXPECT_EQ(parse({"--export", "/tmp", "--unknown"}, out), kUsage);
    EXPECT_EQ(parse({"--help"}, out), kHelp);
}

TEST(Options, ExportNames) {
    EXPECT_EQ(parse_export("/x=/y").path, "/x");
    EXPECT_EQ(parse_export("/x=/y").name, "/y");
    EXPECT_EQ(parse_export("/x=y").path, "/x=y");  // no name without '/'
    EXPECT_EQ(parse_export("/x=y").name, "/x=y");
    EXPECT_EQ(parse_export("/a/../b/").name, "/b/");
    EXPECT_EQ(parse_export("sub").name, std::filesystem::current_path().string() + "/sub");
}

TEST(Options, DirectoryThatLooksLikeANameIsItself) {
    const std::string base = ::testing::TempDir() + "nfsrdmad-options=";
    std::filesystem::create_directories(base + "/y");
    EXPECT_EQ(parse_export(base + "/y").path, base + "/y");
    std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
