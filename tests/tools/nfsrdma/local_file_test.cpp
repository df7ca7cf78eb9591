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
    Result<CopyFile> file = open_copy(dir.fd(), "link", {});
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
    EXPECT_FALSE(open_copy(dir.fd(), "fifo", {}));
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
    Result<CopyFile> file = open_copy(dir.fd(), "file", {});
    ASSERT_TRUE(file);
    EXPECT_TRUE(file->created);
    const int fd = file->fd.get();
    EXPECT_TRUE(set_mode_and_times(fd, 04755, {5, 6}, {1234567890, 4'000'000'000u}));
    struct stat st {};
    ASSERT_EQ(::fstat(fd, &st), 0);
    EXPECT_EQ(st.st_atim.tv_sec, 5);
    EXPECT_EQ(st.st_mode & 07777, 0755u);
    EXPECT_EQ(st.st_mtim.tv_sec, 1234567890);
}

// A copy that was broken off is taken up before its last pieces; one that is whole is left alone.
TEST(LocalFile, CopiesAreResumed) {
    testing::LocalDir dir;
    dir.write("file", std::string(100'000, 'x'));
    struct stat st {};
    ASSERT_EQ(::stat((dir / "file").c_str(), &st), 0);
    CopyWish wish;
    wish.size = 200'000;
    wish.mtime = {static_cast<unsigned>(st.st_mtim.tv_sec) - 100, 0};
    wish.resume = true;
    wish.overlap = 10'000;
    {
        Result<CopyFile> file = open_copy(dir.fd(), "file", wish);
        ASSERT_TRUE(file);
        EXPECT_FALSE(file->created);
        EXPECT_FALSE(file->complete);
        EXPECT_EQ(file->begin, 90'000u / 4096 * 4096);
        EXPECT_EQ(dir.read("file").size(), file->begin);
    }
    wish.mtime = {1234567890, 5};
    wish.size = dir.read("file").size();
    ASSERT_TRUE(set_mode_and_times(open_source(dir.fd(), "file", false)->get(), 0444, wish.mtime,
                                   wish.mtime));
    Result<CopyFile> whole = open_copy(dir.fd(), "file", wish);
    ASSERT_TRUE(whole);
    EXPECT_TRUE(whole->complete);
    EXPECT_EQ(dir.read("file").size(), wish.size);
    // Another time: anew, though its owner may not write to it.
    wish.mtime.nseconds = 7;
    Result<CopyFile> anew = open_copy(dir.fd(), "file", wish);
    ASSERT_TRUE(anew);
    EXPECT_FALSE(anew->complete);
    EXPECT_EQ(anew->begin, 0u);
    EXPECT_EQ(dir.read("file"), "");
}

TEST(LocalFile, WhereACopyGoesOn) {
    CopyWish wish;
    wish.size = 1'000'000;
    wish.mtime = {100, 50};
    wish.overlap = 65536;
    EXPECT_EQ(resume_offset(500'000, {200, 0}, wish), 0u);  // nobody asked for it
    wish.resume = true;
    EXPECT_EQ(resume_offset(500'000, {200, 0}, wish), (500'000u - 65536) / 4096 * 4096);
    EXPECT_EQ(resume_offset(500'000, {100, 50}, wish), (500'000u - 65536) / 4096 * 4096);
    EXPECT_EQ(resume_offset(500'000, {100, 49}, wish), 0u);  // the source was changed since
    EXPECT_EQ(resume_offset(1'000'001, {200, 0}, wish), 0u);
    EXPECT_EQ(resume_offset(65536, {200, 0}, wish), 0u);
    EXPECT_EQ(resume_offset(0, {200, 0}, wish), 0u);
}

TEST(LocalFile, TimesAreTheSameAsFarAsBothCanTell) {
    EXPECT_TRUE(same_time({5, 123456789}, {5, 123456789}));
    EXPECT_TRUE(same_time({5, 123456789}, {5, 0}));
    EXPECT_TRUE(same_time({5, 123456789}, {5, 123456000}));
    EXPECT_TRUE(same_time({5, 123456700}, {5, 123456789}));
    EXPECT_FALSE(same_time({5, 123456789}, {5, 123456788}));
    EXPECT_FALSE(same_time({5, 123456789}, {5, 123457000}));
    EXPECT_FALSE(same_time({5, 0}, {6, 0}));
    EXPECT_TRUE(is_before({5, 9}, {6, 0}));
    EXPECT_FALSE(is_before({5, 9}, {5, 9}));
}

// Taken over from an earlier copy, it may be one that lets nobody write.
TEST(LocalFile, DirectoriesThatAreThereBecomeWritable) {
    testing::LocalDir dir;
    ASSERT_EQ(::mkdir((dir / "sub").c_str(), 0555), 0);
    EXPECT_TRUE(make_directory(dir.fd(), "sub"));
    struct stat st {};
    ASSERT_EQ(::stat((dir / "sub").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0755u);
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
