#include "tools/nfsrdma/tree_put.hpp"

#include <array>
#include <fcntl.h>
#include <unistd.h>

#include "tests/tools/nfsrdma/tree_test.hpp"
#include "tools/nfsrdma/tree_get.hpp"

namespace nfsrdma::tool {
namespace {

namespace fs = std::filesystem;

class TreePutTest : public testing::ToolWorld {
  protected:
    bool put(const std::string& path, const std::string& name, bool recursive = true) {
        report = {};
        TreePutter putter(*calls, CopyOptions{recursive, 4, 3, rules}, *progress, report);
        putter.put(path, root, name);
        return putter.finish();
    }
    bool get(const std::string& below, const std::string& name, bool recursive = true) {
        report = {};
        TreeGetter getter(*calls, CopyOptions{recursive, 4, 3, rules}, *progress, report);
        getter.get(at(below), local.fd(), name, local / name);
        return getter.finish();
    }
    CopyRules rules;
    CopyReport report;
};

TEST_F(TreePutTest, ATreeThereAndBackIsTheSame) {
    fs::create_directories(local / "tree/sub/deeper");
    fs::create_directories(local / "tree/empty");
    std::size_t n = 0;
    for (const std::size_t size : {0u, 1u, 3u, 4096u, 65537u, 1048576u, 1048577u, 3000000u}) {
        std::string data(size, '\0');
        for (std::size_t i = 0; i < size; ++i)
            data[i] = testing::file_byte(i + n);
        local.write("tree/sub/f" + std::to_string(n++), data);
    }
    for (int i = 0; i < 50; ++i)
        local.write("tree/sub/deeper/" + std::to_string(i), std::to_string(i));
    fs::create_symlink("../sub/f1", local / "tree/sub/link");
    ASSERT_EQ(::chmod((local / "tree/sub/f1").c_str(), 0640), 0);
    ASSERT_EQ(::chmod((local / "tree/empty").c_str(), 0555), 0);
    const timespec times[2] = {{0, UTIME_OMIT}, {1234567890, 123456789}};
    ASSERT_EQ(::utimensat(local.fd(), "tree/sub/f1", times, 0), 0);
    ASSERT_EQ(::utimensat(local.fd(), "tree/sub/deeper", times, 0), 0);

    ASSERT_TRUE(put(local / "tree", "copy"));
    ASSERT_TRUE(get("/copy", "back"));
    for (std::size_t i = 0; i < n; ++i) {
        const std::string name = "/sub/f" + std::to_string(i);
        EXPECT_EQ(local.read("back" + name), local.read("tree" + name)) << i;
    }
    EXPECT_EQ(local.read("back/sub/deeper/49"), "49");
    EXPECT_EQ(fs::read_symlink(local / "back/sub/link"), "../sub/f1");
    const struct stat file = stat_of(local / "back/sub/f1");
    EXPECT_EQ(file.st_mode & 07777, 0640u);
    EXPECT_EQ(file.st_mtim.tv_sec, 1234567890);
    EXPECT_EQ(file.st_mtim.tv_nsec, 123456789);
    EXPECT_EQ(stat_of(local / "back/sub/deeper").st_mtim.tv_sec, 1234567890);
    EXPECT_EQ(stat_of(local / "back/empty").st_mode & 07777, 0555u);
    // Once more, over what is there.
    EXPECT_TRUE(put(local / "tree", "copy"));
    EXPECT_TRUE(get("/copy", "back"));
    EXPECT_EQ(fs::read_symlink(local / "back/sub/link"), "../sub/f1");
}

TEST_F(TreePutTest, AShorterFileReplacesALongerOne) {
    local.write("long", std::string(100000, 'x'));
    local.write("short", "y");
    ASSERT_TRUE(put(local / "long", "file"));
    ASSERT_TRUE(put(local / "short", "file"));
    ASSERT_TRUE(get("/file", "long"));
    EXPECT_EQ(local.read("long"), "y");
}

TEST_F(TreePutTest, HolesStayHoles) {
    {
        std::ofstream out(local / "sparse", std::ios::binary);
        out << "begin";
        out.seekp(5 << 20);
        out << "middle";
    }
    fs::resize_file(local / "sparse", 9 << 20);
    ASSERT_TRUE(put(local / "sparse", "sparse"));
    EXPECT_LT(progress->bytes(), 1u << 20);
    ASSERT_TRUE(get("/sparse", "back"));
    EXPECT_EQ(local.read("back"), local.read("sparse"));
}

TEST_F(TreePutTest, ContinueLeavesOutWhatIsThere) {
    fs::create_directories(local / "tree");
    local.write("tree/a", "aaa");
    local.write("tree/b", "bbb");
    rules.resume = true;
    ASSERT_TRUE(put(local / "tree", "copy"));
    EXPECT_EQ(report.files, 2u);
    local.write("tree/b", "BBBB");
    ASSERT_TRUE(put(local / "tree", "copy"));
    EXPECT_EQ(report.files, 1u);
    EXPECT_EQ(report.skipped, 1u);
    ASSERT_TRUE(get("/copy", "back"));
    EXPECT_EQ(report.files, 2u);
    EXPECT_EQ(local.read("back/b"), "BBBB");
    ASSERT_TRUE(get("/copy", "back"));
    EXPECT_EQ(report.files, 0u);
    EXPECT_EQ(report.skipped, 2u);
}

// Equal in size and time, yet not in content: only a look into it tells, and then it is copied.
TEST_F(TreePutTest, VerifyFindsWhatSizeAndTimeDoNotTell) {
    local.write("file", std::string(3'000'000, 'x'));
    rules.resume = rules.verify = true;
    ASSERT_TRUE(put(local / "file", "file"));
    EXPECT_EQ(report.verified, 1u);
    ASSERT_TRUE(get("/file", "back"));
    EXPECT_EQ(report.verified, 1u);
    const struct stat before = stat_of(local / "back");
    std::string changed(3'000'000, 'x');
    changed[2'500'000] = 'y';
    local.write("back", changed);
    const timespec times[2] = {before.st_atim, before.st_mtim};
    ASSERT_EQ(::utimensat(local.fd(), "back", times, 0), 0);
    ASSERT_TRUE(get("/file", "back"));
    EXPECT_EQ(report.files, 1u);
    EXPECT_EQ(report.skipped, 0u);
    EXPECT_EQ(local.read("back"), local.read("file"));
}

TEST_F(TreePutTest, ABrokenCopyGoesOn) {
    const std::size_t size = 24 << 20;
    std::string data(size, '\0');
    for (std::size_t i = 0; i < size; ++i)
        data[i] = testing::file_byte(i);
    local.write("file", data);
    const timespec old[2] = {{1000, 0}, {1000, 0}};
    ASSERT_EQ(::utimensat(local.fd(), "file", old, 0), 0);
    ASSERT_TRUE(put(local / "file", "file"));
    rules.resume = true;
    local.write("back", data.substr(0, 20 << 20));
    const std::uint64_t before = progress->bytes();
    ASSERT_TRUE(get("/file", "back"));
    EXPECT_EQ(report.continued, 1u);
    EXPECT_LT(progress->bytes() - before, size / 2 + (1 << 20));
    EXPECT_EQ(local.read("back"), data);
    // The other way.
    ASSERT_TRUE(put(local / "file", "again"));
    const Found again = calls->walk(at("/again"), true);
    nfs::client::SetattrOp cut;
    cut.args.object = again.handle.view();
    cut.args.new_attributes.size.set_it = TRUE;
    cut.args.new_attributes.size.set_size3_u.size = 20 << 20;
    ASSERT_TRUE(calls->run(cut).ok());
    ASSERT_TRUE(put(local / "file", "again"));
    EXPECT_EQ(report.continued, 1u);
    ASSERT_TRUE(get("/again", "again"));
    EXPECT_EQ(local.read("again"), data);
}

// Deeper than any path that a system call takes.
TEST_F(TreePutTest, DeepTreesThereAndBack) {
    const std::string name(200, 'd');
    UniqueFd at(::dup(local.fd()));
    ASSERT_EQ(::mkdirat(at.get(), "deep", 0755), 0);
    at = *open_directory(at.get(), "deep", false);
    for (int i = 0; i < 40; ++i) {
        ASSERT_EQ(::mkdirat(at.get(), name.c_str(), 0755), 0);
        at = *open_directory(at.get(), name, false);
    }
    {
        const UniqueFd file(::openat(at.get(), "end", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        ASSERT_EQ(::write(file.get(), "end", 3), 3);
    }
    ASSERT_TRUE(put(local / "deep", "deep"));
    ASSERT_TRUE(get("/deep", "back"));
    EXPECT_EQ(report.files, 1u);
    EXPECT_EQ(report.directories, 41u);
    at = *open_directory(local.fd(), "back", false);
    for (int i = 0; i < 40; ++i)
        at = *open_directory(at.get(), name, false);
    const UniqueFd file(::openat(at.get(), "end", O_RDONLY | O_CLOEXEC));
    std::array<char, 8> text{};
    EXPECT_EQ(::read(file.get(), text.data(), text.size()), 3);
}

TEST_F(TreePutTest, NamesAreAnyBytes) {
    fs::create_directories(local / "tree");
    const std::vector<std::string> names = {"-rf",      "with space", "new\nline",
                                            "\xff\xfe", "100%41",     std::string(255, 'x'),
                                            "...",      "\\",         "a:b"};
    for (const std::string& name : names)
        local.write("tree/" + name, name);
    ASSERT_TRUE(put(local / "tree", "copy"));
    ASSERT_TRUE(get("/copy", "back"));
    for (const std::string& name : names)
        EXPECT_EQ(local.read("back/" + name), name);
    EXPECT_EQ(report.files, names.size());
}

TEST_F(TreePutTest, DirectoriesNeedTheirOption) {
    fs::create_directories(local / "dir");
    EXPECT_FALSE(put(local / "dir", "dir", false));
    EXPECT_EQ(calls->walk(at("/dir"), true).outcome.status, NFS3ERR_NOENT);
    mkdir(root, "there");
    EXPECT_FALSE(get("/there", "there", false));
    EXPECT_FALSE(local.has("there"));
}

TEST_F(TreePutTest, WhatIsInTheWayIsToldAndTheRestGoesOn) {
    fs::create_directories(local / "tree/x");
    local.write("tree/x/f", "f");
    local.write("tree/y", "y");
    const auto dir = mkdir(root, "copy");
    create(dir, "x");  // a file where a directory must go
    EXPECT_FALSE(put(local / "tree", "copy"));
    EXPECT_TRUE(calls->walk(at("/copy/y"), true).outcome.ok());
}

TEST_F(TreePutTest, AbsentSourcesAreToldOf) {
    EXPECT_FALSE(put(local / "none", "none"));
    EXPECT_FALSE(get("/none", "none"));
    EXPECT_FALSE(local.has("none"));
}

}  // namespace
}  // namespace nfsrdma::tool
