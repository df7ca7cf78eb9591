#include "base/file_mapping.hpp"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/file_io.hpp"
#include "base/unique_fd.hpp"
#include "tests/support/byte_pattern.hpp"

namespace nfsrdma {
namespace {

constexpr std::size_t kPage = 4096;

class FileMappingTest : public ::testing::Test {
  protected:
    void SetUp() override {
        ASSERT_TRUE(FileMapping::allow());
        fd_.reset(::memfd_create("file_mapping_test", MFD_CLOEXEC));
        ASSERT_TRUE(fd_);
        test::fill_pattern(content_, 3);
        ASSERT_EQ(::pwrite(fd_.get(), content_.data(), content_.size(), 0),
                  static_cast<ssize_t>(content_.size()));
        mapping_ = FileMapping::map(fd_.get(), content_.size());
        ASSERT_TRUE(mapping_);
    }
    std::int64_t read(std::uint64_t offset, std::span<std::byte> into) {
        FileOp op;
        op.in_line = true;
        op.fd = fd_.get();
        op.mapping = &mapping_;
        op.offset = offset;
        op.buffer = into;
        return run_file_op(op);
    }
    bool same(std::span<const std::byte> got, std::uint64_t offset) const {
        return std::memcmp(got.data(), content_.data() + offset, got.size()) == 0;
    }
    UniqueFd fd_;
    std::vector<std::byte> content_ = std::vector<std::byte>(40 * kPage + 123);
    FileMapping mapping_;
};

TEST_F(FileMappingTest, GivesTheBytesOfTheFileAtAnyPlace) {
    std::vector<std::byte> into(2 * kPage + 5);
    for (const std::uint64_t offset : {0ul, 1ul, 4095ul, 4097ul, content_.size() - into.size()}) {
        ASSERT_TRUE(mapping_.read(offset, into)) << offset;
        EXPECT_TRUE(same(into, offset)) << offset;
    }
}

TEST_F(FileMappingTest, RefusesWhatItDoesNotReach) {
    std::vector<std::byte> into(10);
    EXPECT_FALSE(mapping_.read(content_.size() - 9, into));
    EXPECT_FALSE(mapping_.read(content_.size() + 1, into));
    EXPECT_FALSE(mapping_.read(UINT64_MAX - 3, into));
    EXPECT_TRUE(mapping_.read(content_.size(), std::span<std::byte>()));
    EXPECT_FALSE(FileMapping().read(0, into));
    EXPECT_FALSE(FileMapping::map(fd_.get(), 0));
    EXPECT_FALSE(FileMapping::map(-1, 1));
}

TEST_F(FileMappingTest, ShrunkFileIsToldAndNotFatal) {
    std::vector<std::byte> into(8 * kPage);
    ASSERT_EQ(::ftruncate(fd_.get(), 4 * kPage), 0);
    for (int i = 0; i < 3; ++i)  // the signal is taken each time
        EXPECT_FALSE(mapping_.read(0, into));
    EXPECT_TRUE(mapping_.read(0, std::span(into).first(4 * kPage)));
}

TEST_F(FileMappingTest, ReadOfAShrunkFileEndsWhereTheFileDoes) {
    std::vector<std::byte> into(8 * kPage);
    // A page that is partly there gives zeros behind the end: these are not of the file.
    for (const std::size_t left : {4 * kPage, 4 * kPage - 100, kPage / 2, std::size_t{0}}) {
        ASSERT_EQ(::ftruncate(fd_.get(), static_cast<off_t>(left)), 0);
        EXPECT_EQ(read(0, into), static_cast<std::int64_t>(left));
        EXPECT_TRUE(same(std::span(into).first(left), 0));
    }
    std::vector<std::byte> little(200);
    ASSERT_EQ(::ftruncate(fd_.get(), 100), 0);
    EXPECT_EQ(read(0, little), 100);
}

TEST_F(FileMappingTest, ReadSeesWhatWasWrittenAndGoesOnBehindTheMapping) {
    const std::vector<std::byte> more(3 * kPage, std::byte{0x5a});
    ASSERT_EQ(::pwrite(fd_.get(), more.data(), more.size(), 2 * kPage),
              static_cast<ssize_t>(more.size()));
    ASSERT_EQ(::pwrite(fd_.get(), more.data(), more.size(), 80 * kPage),
              static_cast<ssize_t>(more.size()));
    std::vector<std::byte> into(3 * kPage);
    EXPECT_EQ(read(2 * kPage, into), static_cast<std::int64_t>(into.size()));
    EXPECT_EQ(into, more);
    EXPECT_EQ(read(80 * kPage, into), static_cast<std::int64_t>(into.size()));
    EXPECT_EQ(into, more);
}

// Each read gives bytes that the file had, or fewer, whatever happens to its length meanwhile.
TEST_F(FileMappingTest, TruncationUnderReadsOfManyThreads) {
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0};
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
        readers.emplace_back([&] {
            std::vector<std::byte> into(16 * kPage);
            while (!over) {
                const std::int64_t got = read(8 * kPage, into);
                if (got < 0) ++wrong;
                // Between a truncation and the write that follows there may be zeros.
                for (std::size_t i = 0; got > 0 && i < static_cast<std::size_t>(got); ++i)
                    wrong += into[i] != content_[8 * kPage + i] && into[i] != std::byte{0};
            }
        });
    }
    for (int i = 0; i < 300; ++i) {
        ASSERT_EQ(::ftruncate(fd_.get(), (i % 30) * 1000), 0);
        ASSERT_EQ(::pwrite(fd_.get(), content_.data(), content_.size(), 0),
                  static_cast<ssize_t>(content_.size()));
    }
    over = true;
    for (std::thread& reader : readers)
        reader.join();
    EXPECT_EQ(wrong, 0);
}

TEST_F(FileMappingTest, MovedMappingMapsStillAndTheOldOneNothing) {
    FileMapping other(std::move(mapping_));
    std::vector<std::byte> into(kPage);
    EXPECT_TRUE(other.read(kPage, into));
    EXPECT_TRUE(same(into, kPage));
    mapping_ = FileMapping();
    EXPECT_FALSE(mapping_);
    mapping_ = std::move(other);
    EXPECT_TRUE(mapping_.read(kPage, into));
}

using FileMappingDeathTest = FileMappingTest;
TEST_F(FileMappingDeathTest, FaultOfOthersEndsTheProcessAsBefore) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    void* const memory = ::mmap(nullptr, kPage, PROT_READ, MAP_SHARED, fd_.get(), 0);
    ASSERT_NE(memory, MAP_FAILED);
    ASSERT_EQ(::ftruncate(fd_.get(), 0), 0);
    EXPECT_DEATH(std::_Exit(*static_cast<const unsigned char*>(memory)), "");
    (void)::munmap(memory, kPage);
}

}  // namespace
}  // namespace nfsrdma
