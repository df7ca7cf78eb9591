#include "tools/nfsrdmad/handles.hpp"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include <gtest/gtest.h>

#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

namespace fs = std::filesystem;

nfs::SipTag tag_of(const HandleOptions& options) {
    std::string where;
    auto key = handle_key_of(options, where);
    EXPECT_TRUE(static_cast<bool>(key));
    EXPECT_FALSE(where.empty());
    return key ? key->tag({}) : nfs::SipTag{};
}

class Handles : public ::testing::Test {
  protected:
    const testing::TempDir dir;
    HandleOptions options;
};

TEST_F(Handles, WithoutAPlaceTheKeyIsOfThisStart) {
    EXPECT_NE(tag_of(options), tag_of(options));
}

TEST_F(Handles, KeyOfTheStateDirectoryStays) {
    options.state_dir = dir.path() + "/state";
    ASSERT_TRUE(static_cast<bool>(make_state_dir(options)));
    struct stat st {};
    ASSERT_EQ(::stat(options.state_dir.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777u, 0700u);
    ASSERT_TRUE(static_cast<bool>(make_state_dir(options)));
    EXPECT_EQ(tag_of(options), tag_of(options));
    EXPECT_TRUE(fs::exists(options.state_dir + "/handle-key"));
}

TEST_F(Handles, KeyFileGoesBeforeTheStateDirectory) {
    options.state_dir = dir.path();
    options.key_file = dir.path() + "/shared";
    const nfs::SipTag tag = tag_of(options);
    EXPECT_FALSE(fs::exists(dir.path() + "/handle-key"));
    options.state_dir.clear();
    EXPECT_EQ(tag_of(options), tag);
}

TEST_F(Handles, WhatIsInTheWayIsSaid) {
    std::ofstream(dir.path() + "/file") << "x";
    options.state_dir = dir.path() + "/file";
    EXPECT_FALSE(static_cast<bool>(make_state_dir(options)));
    options.state_dir = dir.path() + "/none/state";
    EXPECT_FALSE(static_cast<bool>(make_state_dir(options)));
    std::string where;
    EXPECT_FALSE(static_cast<bool>(handle_key_of(options, where)));
    options.key_file = dir.path() + "/file";
    EXPECT_FALSE(static_cast<bool>(handle_key_of(options, where)));
    EXPECT_EQ(where, options.key_file);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
