#include "nfs/handle_key.hpp"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/nfs/temp_dir.hpp"

namespace nfsrdma::nfs {
namespace {

using testing::TempDir;

bool same(const HandleKey& a, const HandleKey& b) {
    return equal_tags(a.tag({}), b.tag({}));
}

void write_file(const std::string& path, std::size_t bytes, mode_t mode) {
    std::ofstream(path) << std::string(bytes, 'k');
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

TEST(HandleKey, RandomOnesDiffer) {
    EXPECT_FALSE(same(HandleKey::random(), HandleKey::random()));
}

TEST(HandleKey, BothHalvesOfTheSecretCount) {
    std::array<std::byte, HandleKey::kFileBytes> secret{};
    const HandleKey zero(secret);
    for (std::byte& b : secret) {
        b = std::byte{1};
        EXPECT_FALSE(same(HandleKey(secret), zero));
        b = std::byte{0};
    }
    EXPECT_TRUE(same(HandleKey(secret), zero));
}

TEST(HandleKey, IsMadeOnceAndKeptPrivate) {
    const TempDir dir;
    const std::string path = dir.path() + "/key";
    auto made = HandleKey::of_file(path);
    ASSERT_TRUE(static_cast<bool>(made));
    struct stat st {};
    ASSERT_EQ(::stat(path.c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777u, 0600u);
    EXPECT_EQ(st.st_size, 32);
    auto again = HandleKey::of_file(path);
    ASSERT_TRUE(static_cast<bool>(again));
    EXPECT_TRUE(same(*made, *again));
    // No scratch file is left.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(HandleKey, FilesThatAreNoneAreRefused) {
    struct Row {
        const char* what;
        std::size_t bytes;
        mode_t mode;
        Errc error;
    };
    const TempDir dir;
    for (const Row& row :
         {Row{"group-readable", 32, 0640, Errc::refused},
          Row{"world-readable", 32, 0604, Errc::refused},
          Row{"world-writable", 32, 0602, Errc::refused}, Row{"short", 31, 0600, Errc::bad_message},
          Row{"long", 33, 0600, Errc::bad_message}, Row{"empty", 0, 0600, Errc::bad_message}}) {
        const std::string path = dir.path() + "/" + row.what;
        write_file(path, row.bytes, row.mode);
        auto key = HandleKey::of_file(path);
        ASSERT_FALSE(static_cast<bool>(key)) << row.what;
        EXPECT_EQ(key.error().code, row.error) << row.what;
    }
    ASSERT_EQ(::mkfifo((dir.path() + "/fifo").c_str(), 0600), 0);
    EXPECT_EQ(HandleKey::of_file(dir.path() + "/fifo").error().code, Errc::refused);
    EXPECT_EQ(HandleKey::of_file(dir.path()).error().code, Errc::refused);
    EXPECT_EQ(HandleKey::of_file(dir.path() + "/none/key").error().code, Errc::system);
}

TEST(HandleKey, FileIsReadAsItStands) {
    const TempDir dir;
    write_file(dir.path() + "/key", 32, 0600);
    auto key = HandleKey::of_file(dir.path() + "/key");
    ASSERT_TRUE(static_cast<bool>(key));
    std::array<std::byte, HandleKey::kFileBytes> secret{};
    secret.fill(static_cast<std::byte>('k'));
    EXPECT_TRUE(same(*key, HandleKey(secret)));
}

}  // namespace
}  // namespace nfsrdma::nfs
