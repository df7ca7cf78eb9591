#include "tools/nfsrdma/mount_stats.hpp"

#include <cstdlib>
#include <filesystem>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"

namespace nfsrdma::tool {
namespace {

namespace fs = std::filesystem;

// Device numbers that no file system has.
MountEntry entry(std::uint32_t minor) {
    MountEntry out;
    out.major = 4095;
    out.minor = minor + static_cast<std::uint32_t>(::getpid()) % 100000 * 16;
    out.directory = "/nowhere";
    out.type = "fuse.nfsrdma";
    out.owner = ::getuid();
    return out;
}

UniqueFd listen_as(const MountEntry& mount, std::uint32_t number) {
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const StatsAddress at = stats_address(mount.major, mount.minor, number);
    EXPECT_EQ(::bind(fd.get(), at.sa(), at.size), 0);
    EXPECT_EQ(::listen(fd.get(), 1), 0);
    return fd;
}

TEST(MountStats, NobodyThereIsSaidSo) {
    const auto answer = ask_mount(entry(1), false, 1);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::refused);
}

TEST(MountStats, SilentProcessIsNotWaitedForForEver) {
    const UniqueFd silent = listen_as(entry(2), 0);
    const auto answer = ask_mount(entry(2), false, 0.05);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::timed_out);
}

TEST(MountStats, EndlessAnswerIsRefused) {
    const UniqueFd listening = listen_as(entry(3), 0);
    std::thread endless([&] {
        const UniqueFd fd(::accept(listening.get(), nullptr, nullptr));
        const std::string part(65536, 'x');
        while (::send(fd.get(), part.data(), part.size(), MSG_NOSIGNAL) > 0) {
        }
    });
    const auto answer = ask_mount(entry(3), true, 20);
    endless.join();
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Errc::too_big);
}

TEST(MountStats, StrangersAreNotBelieved) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: acts as another user";
    // Another user has taken the first name; the true process has the second.
    UniqueFd stranger;
    {
        ASSERT_EQ(::seteuid(12345), 0);
        stranger = listen_as(entry(4), 0);
        ASSERT_EQ(::seteuid(0), 0);
    }
    const UniqueFd owner = listen_as(entry(4), 1);
    std::thread answers([&] {
        const UniqueFd fd(::accept(owner.get(), nullptr, nullptr));
        char question[8];
        EXPECT_EQ(::recv(fd.get(), question, sizeof question, 0), 5);
        EXPECT_EQ(std::string(question, 5), "json\n");
        EXPECT_EQ(::send(fd.get(), "truth", 5, MSG_NOSIGNAL), 5);
    });
    auto answer = ask_mount(entry(4), true, 20);
    answers.join();
    ASSERT_TRUE(answer);
    EXPECT_EQ(*answer, "truth");
}

TEST(MountStats, DirectoriesAreFoundByName) {
    const std::vector<MountEntry> table = parse_mount_table(
        "1 0 8:1 / / rw - ext4 d rw\n"
        "2 1 0:9 / /no/such/mount rw - fuse.nfsrdma s:/x rw\n"
        "3 2 0:10 / /no/such/mount/tmp rw - tmpfs t rw\n");
    for (const char* path : {"/no/such/mount", "/no/such/mount/", "/no/../no/such//mount/a/b"}) {
        const MountEntry* const found = find_mount(table, path);
        ASSERT_NE(found, nullptr) << path;
        EXPECT_EQ(found->minor, 9u);
    }
    for (const char* path : {"/", "/no/such", "/no/such/mounted", "/no/such/mount/tmp", "host"})
        EXPECT_EQ(find_mount(table, path), nullptr) << path;
}

TEST(MountStats, SymbolicLinksAreFollowed) {
    std::string name = (fs::temp_directory_path() / "nfsrdma-table-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    const std::string real = fs::canonical(name).string();
    fs::create_directory(name + "/true");
    fs::create_symlink("true", name + "/link");
    const std::vector<MountEntry> table = parse_mount_table(
        "1 0 8:1 / / rw - ext4 d rw\n2 1 0:9 / " + real + "/true rw - fuse.nfsrdma s:/x rw\n");
    EXPECT_NE(find_mount(table, name + "/link"), nullptr);
    EXPECT_NE(find_mount(table, name + "/link/below"), nullptr);
    EXPECT_EQ(find_mount(table, name), nullptr);
    fs::remove_all(name);
}

}  // namespace
}  // namespace nfsrdma::tool
