#include "tools/nfsrdma/local_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "tests/tools/nfsrdma/local_dir.hpp"

namespace nfsrdma::tool {
namespace {

TEST(LocalFile, LinksAreNotFollowed) {
    testing::LocalDir dir;
    dir.write("victim", "precious");
    ASSERT_EQ(::symlink("victim", (dir / "link").c_str()), 0);
    ASSERT_EQ(::symlink(".", (dir / "dirlink").c_str()), 0);
    Result<UniqueFd> file = create_file(dir.fd(), "link");
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().sys, ELOOP);
    EXPECT_EQ(dir.read("victim"), "precious");
    EXPECT_FALSE(open_directory(dir.fd(), "dirlink", false));
    EXPECT_FALSE(make_directory(dir.fd(), "dirlink"));
    EXPECT_TRUE(open_directory(dir.fd(), "dirlink", true));
    EXPECT_FALSE(open_source(dir.fd(), "link", false));
    EXPECT_TRUE(open_source(dir.fd(), "link", true));
}

TEST(LocalFile, AFifoInTheWayDoesNotBlock) {
    testing::LocalDir dir;
    ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
    EXPECT_FALSE(create_file(dir.fd(), "fifo"));
}

TEST(LocalFile, DirectoriesAreMadeOrTaken) {
    testing::LocalDir dir;
    EXPECT_TRUE(make_directory(dir.fd(), "new"));
    EXPECT_TRUE(make_directory(dir.fd(), "new"));
    dir.write("file", "x");
    EXPECT_FALSE(make_directory(dir.fd(), "file"));
}

TEST(LocalFile, SymlinksReplaceSymlinksOnly) {
    testing::LocalDir dir;
    EXPECT_TRUE(make_symlink(dir.fd(), "link", "one", {1000, 5}));
    EXPECT_TRUE(make_symlink(dir.fd(), "link", "two", {1000, 5}));
    Result<std::string> text = read_symlink(dir.fd(), "link");
    ASSERT_TRUE(text);
    EXPECT_EQ(*text, "two");
    dir.write("file", "x");
    EXPECT_FALSE(make_symlink(dir.fd(), "file", "two", {1000, 5}));
    EXPECT_EQ(dir.read("file"), "x");
}

TEST(LocalFile, ModeAndTimeWithoutSetUid) {
    testing::LocalDir dir;
    Result<UniqueFd> fd = create_file(dir.fd(), "file");
    ASSERT_TRUE(fd);
    EXPECT_TRUE(set_mode_and_mtime(fd->get(), 04755, {1234567890, 4'000'000'000u}));
    struct stat st {};
    ASSERT_EQ(::fstat(fd->get(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0755u);
    EXPECT_EQ(st.st_mtim.tv_sec, 1234567890);
}

TEST(LocalFile, ZeroesAndTimes) {
    std::vector<std::byte> bytes(5000);
    EXPECT_TRUE(is_zero(bytes.data(), bytes.size()));
    EXPECT_TRUE(is_zero(bytes.data(), 0));
    bytes.back() = std::byte{1};
    EXPECT_FALSE(is_zero(bytes.data(), bytes.size()));
    bytes.front() = std::byte{1};
    EXPECT_FALSE(is_zero(bytes.data(), 1));
    EXPECT_EQ(to_nfstime(timespec{-5, 0}).seconds, 0u);
    EXPECT_EQ(to_nfstime(timespec{5'000'000'000, 7}).seconds, UINT32_MAX);
}

}  // namespace
}  // namespace nfsrdma::tool
