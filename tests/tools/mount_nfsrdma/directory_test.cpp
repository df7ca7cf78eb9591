#include "tools/mount_nfsrdma/directory.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

namespace fs = std::filesystem;

class DirectoryTest : public testing::Test {
  protected:
    void SetUp() override {
        name_ = (fs::temp_directory_path() / "nfsrdma-directory-XXXXXX").string();
        ASSERT_NE(::mkdtemp(name_.data()), nullptr);
        name_ = fs::canonical(name_).string();
    }
    void TearDown() override { fs::remove_all(name_); }
    bool settle(const std::string& directory) {
        options_.server = "s";
        options_.export_path = "/x";
        options_.directory = directory;
        return settle_directory(options_, why_);
    }
    std::string name_, why_;
    MountOptions options_;
};

TEST_F(DirectoryTest, NameBecomesAbsoluteAndReal) {
    fs::create_directory(name_ + "/true");
    fs::create_symlink("true", name_ + "/link");
    ASSERT_TRUE(settle(name_ + "/./link/")) << why_;
    EXPECT_EQ(options_.directory, name_ + "/true");
}

TEST_F(DirectoryTest, WhatIsNoneIsSaidSo) {
    EXPECT_FALSE(settle(name_ + "/none"));
    EXPECT_NE(why_.find("no such directory; make it first"), std::string::npos) << why_;
    std::ofstream(name_ + "/file") << "x";
    EXPECT_FALSE(settle(name_ + "/file"));
    EXPECT_NE(why_.find("is no directory"), std::string::npos) << why_;
    EXPECT_FALSE(settle(name_ + "/" + std::string(5000, 'x')));
    EXPECT_NE(why_.find("File name too long"), std::string::npos);
}

TEST_F(DirectoryTest, OtherMountsMayBeCovered) {
    EXPECT_TRUE(settle("/proc")) << why_;
    EXPECT_EQ(options_.directory, "/proc");
}

}  // namespace
}  // namespace nfsrdma::mount
