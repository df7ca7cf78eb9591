#include "nfs/handle_open.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfs {
namespace {

using Answer = Subtree::Answer;

UniqueFd open_path(const std::string& path) {
    UniqueFd fd(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    EXPECT_TRUE(static_cast<bool>(fd)) << path;
    return fd;
}

class HandleOpen : public ::testing::Test {
  protected:
    HandleOpen() {
        std::filesystem::create_directories(path("export/sub/deep"));
        std::filesystem::create_directories(path("outside/sub"));
        for (const char* name : {"export/file", "export/sub/file", "outside/file"})
            EXPECT_EQ(::mknod(path(name).c_str(), S_IFREG | 0644, 0), 0);
        EXPECT_EQ(::symlink("../outside", path("export/link").c_str()), 0);
    }
    std::string path(const std::string& name) const { return dir.path() + "/" + name; }
    const testing::TempDir dir;
};

TEST_F(HandleOpen, BeneathTakesOneNameAndFollowsNothing) {
    const UniqueFd root = open_path(path("export"));
    EXPECT_TRUE(static_cast<bool>(open_beneath(root.get(), "file")));
    EXPECT_TRUE(static_cast<bool>(open_beneath(root.get(), "sub")));
    const UniqueFd link = open_beneath(root.get(), "link");
    struct stat st {};
    ASSERT_EQ(::fstat(link.get(), &st), 0);
    EXPECT_TRUE(S_ISLNK(st.st_mode));
    for (const char* name : {"..", "../outside", "link/file", "/etc", "sub/../../outside", "none"})
        EXPECT_FALSE(static_cast<bool>(open_beneath(root.get(), name))) << name;
}

TEST_F(HandleOpen, KernelHandleIsOfTheObject) {
    const UniqueFd root = open_path(path("export"));
    KernelHandle by_name, by_fd, other;
    std::uint64_t hash_name = 0, hash_fd = 0, hash_other = 0;
    const int error = kernel_handle(root.get(), "file", by_name, hash_name);
    if (error == EOPNOTSUPP) GTEST_SKIP() << "needs root: a file system that has handles";
    ASSERT_EQ(error, 0);
    ASSERT_EQ(kernel_handle(open_path(path("export/file")).get(), "", by_fd, hash_fd), 0);
    ASSERT_EQ(kernel_handle(root.get(), "sub", other, hash_other), 0);
    EXPECT_EQ(hash_name, hash_fd);
    EXPECT_EQ(by_name.bytes, by_fd.bytes);
    EXPECT_NE(hash_name, hash_other);
    EXPECT_EQ(kernel_handle(root.get(), "none", other, hash_other), ENOENT);
}

TEST_F(HandleOpen, KernelHandleOpensUntilTheObjectIsGone) {
    const UniqueFd root = open_path(path("export"));
    KernelHandle handle;
    std::uint64_t hash = 0;
    ASSERT_EQ(kernel_handle(root.get(), "file", handle, hash), 0);
    const UniqueFd mount(::open(path("export").c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd opened = open_kernel_handle(mount.get(), handle);
    if (!opened && errno == EPERM) GTEST_SKIP() << "needs root: CAP_DAC_READ_SEARCH";
    ASSERT_TRUE(static_cast<bool>(opened));
    std::filesystem::rename(path("export/file"), path("export/sub/renamed"));
    EXPECT_TRUE(static_cast<bool>(open_kernel_handle(mount.get(), handle)));
    ASSERT_EQ(::unlink(path("export/sub/renamed").c_str()), 0);
}

TEST_F(HandleOpen, SubtreeTellsInsideFromOutside) {
    const UniqueFd root(::open(path("export").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto made = Subtree::create(root.get());
    ASSERT_TRUE(static_cast<bool>(made));
    const Subtree& subtree = **made;
    EXPECT_FALSE(subtree.is_whole());
    const auto where = [&](const std::string& name) {
        return subtree.where(open_path(path(name)).get());
    };
    for (const char* name : {"export", "export/file", "export/sub", "export/sub/deep",
                             "export/sub/file", "export/link"})
        EXPECT_EQ(where(name), Answer::inside) << name;
    std::filesystem::create_directory(path("export-too"));
    for (const char* name : {"outside", "outside/file", "outside/sub", "export-too", ""})
        EXPECT_EQ(where(name), Answer::outside) << name;
    EXPECT_EQ(subtree.where(open_path("/").get()), Answer::outside);
}

TEST_F(HandleOpen, SubtreeFollowsRenames) {
    const UniqueFd root(::open(path("export").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto made = Subtree::create(root.get());
    ASSERT_TRUE(static_cast<bool>(made));
    const UniqueFd deep = open_path(path("export/sub/deep")), file = open_path(path("export/file"));
    std::filesystem::rename(path("export/sub"), path("outside/moved"));
    EXPECT_EQ((*made)->where(deep.get()), Answer::outside);
    std::filesystem::rename(path("outside/moved"), path("export/back"));
    EXPECT_EQ((*made)->where(deep.get()), Answer::inside);
    // The export itself.
    std::filesystem::rename(path("export"), path("renamed"));
    EXPECT_EQ((*made)->where(deep.get()), Answer::inside);
    EXPECT_EQ((*made)->where(file.get()), Answer::inside);
    // Another one in its old place.
    std::filesystem::create_directories(path("export/sub"));
    EXPECT_EQ((*made)->where(open_path(path("export/sub")).get()), Answer::outside);
}

TEST_F(HandleOpen, ANameThatIsGoneIsOutside) {
    const UniqueFd root(::open(path("export").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto made = Subtree::create(root.get());
    ASSERT_TRUE(static_cast<bool>(made));
    const UniqueFd file = open_path(path("export/file")), deep = open_path(path("export/sub/deep"));
    std::filesystem::create_hard_link(path("export/file"), path("outside/link"));
    std::filesystem::remove(path("export/file"));
    std::filesystem::remove(path("export/sub/deep"));
    EXPECT_EQ((*made)->where(file.get()), Answer::outside);
    EXPECT_EQ((*made)->where(deep.get()), Answer::outside);
    std::filesystem::create_directory(path("export/sub (deleted)"));
    EXPECT_EQ((*made)->where(open_path(path("export/sub (deleted)")).get()), Answer::inside);
}

TEST_F(HandleOpen, PathsThatAreTooLongAreWalkedUp) {
    const UniqueFd root(::open(path("export").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto made = Subtree::create(root.get());
    ASSERT_TRUE(static_cast<bool>(made));
    const std::string name(250, 'd');
    const auto descend = [&](UniqueFd at) {
        for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
            at.reset(::openat(at.get(), name.c_str(), O_PATH | O_CLOEXEC));
        }
        return at;
    };
    EXPECT_EQ((*made)->where(descend(open_path(path("export"))).get()), Answer::inside);
    EXPECT_EQ((*made)->where(descend(open_path(path("outside"))).get()), Answer::outside);
}

std::string kernel_path(int fd) {
    std::array<char, 4096> room{};
    const ssize_t size = ::readlink(ProcPath(fd).c_str(), room.data(), room.size());
    return {room.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// The export is a bind mount of "export" on "mount". A directory is moved out of it to where, in
// the file system, the mount's own path leads: below the mount, where nothing is exported.
void try_bind_mount(const std::string& dir) {
    const UniqueFd covered = open_path(dir + "/mount");
    ASSERT_EQ(
        ::mount((dir + "/export").c_str(), (dir + "/mount").c_str(), nullptr, MS_BIND, nullptr), 0);
    const UniqueFd root(::open((dir + "/mount").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    auto made = Subtree::create(root.get());
    ASSERT_TRUE(static_cast<bool>(made));
    const Subtree& subtree = **made;
    EXPECT_FALSE(subtree.is_whole());
    const UniqueFd sub = open_path(dir + "/mount/sub"), deep = open_path(dir + "/mount/sub/deep");
    const UniqueFd file = open_path(dir + "/mount/sub/file");
    for (const UniqueFd* fd : {&root, &sub, &deep, &file})
        EXPECT_EQ(subtree.where(fd->get()), Answer::inside);
    ASSERT_EQ(::renameat(AT_FDCWD, (dir + "/export/sub").c_str(), covered.get(), "sub"), 0);
    for (const UniqueFd* fd : {&sub, &deep, &file})
        EXPECT_EQ(kernel_path(fd->get()), "/");
    EXPECT_EQ(subtree.where(sub.get()), Answer::outside);
    EXPECT_EQ(subtree.where(deep.get()), Answer::outside);
    EXPECT_EQ(subtree.where(file.get()), Answer::unknown);
    // Something else in its place does not make it true.
    std::filesystem::create_directories(dir + "/export/sub/deep");
    EXPECT_EQ(subtree.where(sub.get()), Answer::outside);
    EXPECT_EQ(subtree.where(deep.get()), Answer::outside);
    EXPECT_EQ(subtree.where(open_path(dir + "/mount/sub").get()), Answer::inside);
}

TEST_F(HandleOpen, WhatWasMovedOutOfABindMount) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: to mount";
    std::filesystem::create_directory(path("mount"));
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
            ::_exit(77);
        }
        try_bind_mount(dir.path());
        ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "needs root: to mount";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(MountedDirectory, IsTheFourthField) {
    constexpr std::string_view kText =
        "24 30 0:22 / /proc rw,nosuid - proc proc rw\n"
        "30 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
        "31 30 254:0 /srv/data /mnt rw - ext4 /dev/vda rw\n";
    EXPECT_EQ(mounted_directory(kText, 30), "/");
    EXPECT_EQ(mounted_directory(kText, 31), "/srv/data");
    EXPECT_EQ(mounted_directory(kText, 3), "");
    EXPECT_EQ(mounted_directory("", 3), "");
    EXPECT_EQ(mounted_directory("3", 3), "");
}

}  // namespace
}  // namespace nfsrdma::nfs
