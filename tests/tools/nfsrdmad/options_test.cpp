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

ExportOption export_of(const std::string& text) {
    std::string why;
    ExportOption out = parse_export(text, why);
    EXPECT_TRUE(why.empty()) << text << ": " << why;
    return out;
}

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

TEST(Options, Handles) {
    Options out;
    ASSERT_EQ(parse({"--export", "/tmp"}, out), 0);
    EXPECT_EQ(out.handles.state_dir + out.handles.key_file, "");
    EXPECT_EQ(out.handles.places_max, nfs::PosixHandles::kCapacity);
    ASSERT_EQ(parse({"--export", "/tmp", "--state-dir", "/s", "--handle-key", "/k", "--places-max",
                     "5000"},
                    out),
              0);
    EXPECT_EQ(out.handles.state_dir, "/s");
    EXPECT_EQ(out.handles.key_file, "/k");
    EXPECT_EQ(out.handles.places_max, 5000u);
    EXPECT_EQ(parse({"--export", "/tmp", "--places-max", "3"}, out), kUsage);
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
    EXPECT_EQ(export_of("/x=/y").path, "/x");
    EXPECT_EQ(export_of("/x=/y").name, "/y");
    EXPECT_EQ(export_of("/x=y").path, "/x=y");  // no name without '/'
    EXPECT_EQ(export_of("/x=y").name, "/x=y");
    EXPECT_EQ(export_of("/a/../b/").name, "/b/");
    EXPECT_EQ(export_of("sub").name, std::filesystem::current_path().string() + "/sub");
}

TEST(Options, DirectoryThatLooksLikeANameIsItself) {
    const std::string base = ::testing::TempDir() + "nfsrdmad-options=";
    std::filesystem::create_directories(base + "/y");
    EXPECT_EQ(export_of(base + "/y").path, base + "/y");
    std::filesystem::remove_all(base);
}

TEST(Options, ExportOptions) {
    const ExportOption plain = export_of("/nonexistent/x");
    EXPECT_FALSE(plain.has_options);
    const ExportOption rw = export_of("/nonexistent/x=/n:rw,no_root_squash,fsid=7");
    EXPECT_EQ(rw.path, "/nonexistent/x");
    EXPECT_EQ(rw.name, "/n");
    ASSERT_TRUE(rw.has_options);
    EXPECT_FALSE(rw.list.options.read_only);
    EXPECT_TRUE(rw.list.options.secure);
    EXPECT_EQ(rw.list.options.squash, nfs::Squash::none);
    EXPECT_EQ(rw.list.fsid, "7");
    EXPECT_TRUE(export_of("/nonexistent/x:").has_options);
    EXPECT_FALSE(export_of("/nonexistent/a:b/c").has_options);  // a ':' in the path
    std::string why;
    parse_export("/nonexistent/x:rw,foo", why);
    EXPECT_EQ(why, "unknown option 'foo'");
}

TEST(Options, ExportsFileAndCheck) {
    Options out;
    ASSERT_EQ(parse({"--exports-file", "f", "--check", "--foreground", "--manage-gids"}, out), 0);
    EXPECT_EQ(out.exports_file, "f");
    EXPECT_TRUE(out.check);
    EXPECT_TRUE(out.manage_gids);
    Options bad;
    EXPECT_EQ(parse({"--export", "/nonexistent/x:foo"}, bad), kUsage);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
