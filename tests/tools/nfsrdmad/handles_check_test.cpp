#include "tools/nfsrdmad/handles_check.hpp"

#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HandlesCheckTest : public ::testing::Test {
  protected:
    std::string in(const std::string& name) const { return dir.path() + "/" + name; }
    // A key file of that many bytes.
    std::string key(std::size_t bytes, mode_t mode) {
        const std::string path = in("key");
        std::ofstream(path) << std::string(bytes, 'k');
        ::chmod(path.c_str(), mode);
        return options.key_file = path;
    }
    std::vector<std::string> errors() const { return check_handles(options).errors; }
    std::vector<std::string> plan() const {
        const HandlesCheck found = check_handles(options);
        EXPECT_THAT(found.errors, IsEmpty());
        return found.plan;
    }

    const testing::TempDir dir;
    HandleOptions options;
};

TEST_F(HandlesCheckTest, WithoutOptionsTheKeyIsNew) {
    EXPECT_THAT(plan(), ElementsAre(HasSubstr("a new key at each start")));
}

TEST_F(HandlesCheckTest, GoodOnesAreNamedAndNothingIsMade) {
    key(32, 0600);
    options.state_dir = in("state");
    EXPECT_THAT(plan(), ElementsAre(HasSubstr("state, which would be made"),
                                    "file handles signed by " + in("key")));
    EXPECT_FALSE(fs::exists(in("state")));
    fs::create_directory(in("state"));
    options.key_file = in("state/new");
    EXPECT_THAT(plan(), ElementsAre("state directory " + in("state"),
                                    HasSubstr("/new, which would be made")));
    EXPECT_FALSE(fs::exists(in("state/new")));
}

TEST_F(HandlesCheckTest, KeyOfAnotherLength) {
    for (const std::size_t bytes : {0u, 31u, 33u}) {
        key(bytes, 0600);
        EXPECT_THAT(errors(),
                    ElementsAre(AllOf(HasSubstr("--handle-key " + in("key")),
                                      HasSubstr(std::to_string(bytes) + " bytes, not 32 bytes"),
                                      HasSubstr("put the right one back"))));
    }
}

TEST_F(HandlesCheckTest, KeyThatOthersMayUse) {
    for (const mode_t mode : {0640u, 0604u, 0620u, 0601u}) {
        key(32, mode);
        EXPECT_THAT(errors(), ElementsAre(AllOf(HasSubstr("others may read it"),
                                                HasSubstr("chmod 0600 " + in("key")))));
    }
}

TEST_F(HandlesCheckTest, KeyThatIsNoFile) {
    fs::create_directory(in("key"));
    options.key_file = in("key");
    EXPECT_THAT(errors(), ElementsAre(HasSubstr("no regular file")));
    fs::remove(in("key"));
    fs::create_symlink(in("none"), in("key"));
    EXPECT_THAT(errors(), ElementsAre(HasSubstr("a symbolic link to nothing")));
}

TEST_F(HandlesCheckTest, PlaceThatCannotBeMade) {
    options.key_file = in("none/key");
    options.state_dir = in("none/state");
    EXPECT_THAT(errors(),
                ElementsAre(AllOf(HasSubstr("--state-dir"), HasSubstr("mkdir -p " + in("none"))),
                            AllOf(HasSubstr("--handle-key"), HasSubstr("mkdir -p " + in("none")))));
    std::ofstream(in("file")) << "x";
    options.key_file = in("file/key");
    options.state_dir = in("file");
    EXPECT_THAT(errors(), ElementsAre(HasSubstr("--state-dir " + in("file") + ": Not a directory"),
                                      HasSubstr("Not a directory")));
}

TEST_F(HandlesCheckTest, StateDirectoryThatOthersMayWriteTo) {
    options.state_dir = in("state");
    fs::create_directory(in("state"));
    for (const mode_t mode : {0770u, 0702u, 01777u}) {
        ::chmod(in("state").c_str(), mode);
        EXPECT_THAT(errors(), ElementsAre(AllOf(HasSubstr("others may write to it"),
                                                HasSubstr("chmod 0700 " + in("state")))));
    }
    ::chmod(in("state").c_str(), 0755);
    EXPECT_THAT(errors(), IsEmpty());
}

TEST_F(HandlesCheckTest, KeyInTheStateDirectoryIsLookedAtToo) {
    options.state_dir = in("state");
    fs::create_directory(in("state"));
    EXPECT_THAT(plan(), ElementsAre("state directory " + in("state"),
                                    HasSubstr("handle-key, which would be made")));
    std::ofstream(in("state/handle-key")) << "short";
    ::chmod(in("state/handle-key").c_str(), 0600);
    EXPECT_THAT(errors(), ElementsAre(AllOf(HasSubstr(in("state/handle-key")),
                                            HasSubstr("5 bytes, not 32 bytes"))));
}

TEST_F(HandlesCheckTest, WhatBelongsToOthers) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: to give files away";
    options.state_dir = in("state");
    fs::create_directory(in("state"));
    key(32, 0600);
    ASSERT_EQ(::chown(in("state").c_str(), 61001, 61001), 0);
    ASSERT_EQ(::chown(in("key").c_str(), 61001, 61001), 0);
    EXPECT_THAT(errors(), ElementsAre(HasSubstr("belongs to user 61001: chown 0 " + in("state")),
                                      HasSubstr("belongs to user 61001: chown 0 " + in("key"))));
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
