#include "tools/rpcrdma_stress/file_model.hpp"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace nfsrdma::stress {
namespace {

using ::testing::HasSubstr;

// A file of 4096 bytes, written at once as WRITE 1, and as it stands on a server.
class FileModelTest : public ::testing::Test {
  protected:
    FileModelTest() : model(2, 7), file(4096) {
        const std::uint32_t generation = model.next_generation();
        model.wrote(0, file.size(), generation);
        put(0, file.size(), generation);
    }
    void put(std::uint64_t offset, std::size_t length, std::uint32_t generation) {
        if (file.size() < offset + length) file.resize(offset + length);
        content.fill(std::span(file).subspan(offset, length), model.stamp(generation), offset);
    }
    std::optional<Difference> compare() const { return model.compare(content, 0, file); }

    Content content{5, 16, 1 << 20};
    FileModel model;
    std::vector<std::byte> file;
};

TEST_F(FileModelTest, WhatWasWrittenIsRight) {
    EXPECT_FALSE(compare());
    EXPECT_FALSE(model.compare(content, 1001, std::span(file).subspan(1001, 77)));
}

TEST_F(FileModelTest, RandomWritesAndCutsFollowAPlainCopy) {
    Prng prng(11);
    for (int i = 0; i < 500; ++i) {
        if (prng.below(5) == 0) {
            const std::uint64_t size = prng.below(8192);
            model.set_size(size);
            file.resize(size);
        } else {
            const std::uint64_t offset = prng.below(6000);
            const std::size_t length = prng.between(1, 2000);
            const std::uint32_t generation = model.next_generation();
            model.wrote(offset, length, generation);
            put(offset, length, generation);
        }
        ASSERT_EQ(model.size(), file.size());
        const auto difference = compare();
        ASSERT_FALSE(difference) << i << ": " << difference->expected << "; " << difference->got;
    }
}

TEST_F(FileModelTest, StaleBytesAreTold) {
    model.wrote(1000, 500, model.next_generation());  // of which the file got nothing
    const auto difference = compare();
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->offset, 1000u);
    EXPECT_GT(difference->bytes, 400u);
    EXPECT_THAT(difference->expected, HasSubstr("WRITE number 2 of this file"));
    EXPECT_THAT(difference->got, HasSubstr("stale: WRITE number 1 of this file"));
    EXPECT_THAT(difference->got, Not(HasSubstr("torn")));
}

TEST_F(FileModelTest, TornWritesAreTold) {
    const std::uint32_t generation = model.next_generation();
    model.wrote(0, 4096, generation);
    put(0, 2048, generation);
    const auto difference = compare();
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->offset, 2048u);
    EXPECT_THAT(difference->got, HasSubstr("stale: WRITE number 1"));
    EXPECT_THAT(difference->got, HasSubstr("torn"));
}

TEST_F(FileModelTest, MisplacedBytesAreTold) {
    content.fill(std::span(file).subspan(512, 512), model.stamp(1), 1536);
    const auto difference = compare();
    ASSERT_TRUE(difference);
    EXPECT_EQ(difference->offset, 512u);
    EXPECT_THAT(difference->got, HasSubstr("misplaced"));
    EXPECT_THAT(difference->got, HasSubstr("belongs at offset 1536, here at 512"));
}

TEST_F(FileModelTest, BytesOfAnotherFileAreTold) {
    content.fill(std::span(file).subspan(512, 512), {3, 9, 4, 0}, 512);
    const auto difference = compare();
    ASSERT_TRUE(difference);
    EXPECT_THAT(difference->got, HasSubstr("another file's: file 9 of worker 3, WRITE number 4"));
}

TEST_F(FileModelTest, ZerosFillerAndNoiseAreTold) {
    const std::vector<std::byte> right = file;
    std::fill(file.begin() + 100, file.begin() + 200, std::byte{0});
    EXPECT_THAT(compare()->got, HasSubstr("zeros"));
    file = right;
    std::fill(file.begin() + 100, file.begin() + 200, kFiller);
    EXPECT_THAT(compare()->got, HasSubstr("never written"));
    file = right;
    file[100] ^= std::byte{1};
    EXPECT_EQ(compare()->offset, 100u);
    EXPECT_EQ(compare()->bytes, 1u);
}

TEST_F(FileModelTest, AWriteOfUnknownFateLeavesTwoPossibilities) {
    const std::uint32_t generation = model.next_generation();
    model.may_have_written(1000, 5000, generation);
    EXPECT_EQ(model.size(), 4096u);
    EXPECT_EQ(model.size_max(), 6000u);
    EXPECT_FALSE(compare());  // not at all
    put(1000, 100, generation);
    EXPECT_FALSE(compare());  // in part
    put(1000, 5000, generation);
    EXPECT_FALSE(compare());  // all of it
    put(990, 20, generation);
    EXPECT_EQ(compare()->offset, 990u);  // but nothing else
    put(990, 10, 1);
    put(2000, 10, generation + 1);
    EXPECT_EQ(compare()->offset, 2000u);
}

TEST(FileModel, GenerationsBeginAnewAndAreNeverZero) {
    FileModel model(0, 1);
    for (std::uint32_t i = 0; i < 2 * kGenerations; ++i) {
        const std::uint32_t generation = model.next_generation();
        ASSERT_GT(generation, 0u);
        ASSERT_LT(generation, kGenerations);
    }
}

TEST(FileModel, StripesAndFilesHaveSerialsOfTheirOwn) {
    for (std::uint64_t number = 0; number < 3 * std::uint64_t{kSerials}; ++number)
        ASSERT_LT(file_serial(number), kFileSerials);
    for (std::uint32_t number = 0; number < kStripes; ++number) {
        ASSERT_GE(stripe_serial(number), kFileSerials);
        ASSERT_LT(stripe_serial(number), kSerials);
    }
    EXPECT_EQ(file_text(7, 3), "file 3 of worker 7");
    EXPECT_EQ(file_text(7, stripe_serial(9)), "stripe 9 of worker 7");
}

}  // namespace
}  // namespace nfsrdma::stress
