#include "tools/rpcrdma_stress/content.hpp"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace nfsrdma::stress {
namespace {

constexpr std::uint64_t kFileBytes = 1 << 20;

TEST(Content, EveryWordTellsWhereItBelongs) {
    const Content content(7, 256, kFileBytes);
    Prng prng(1);
    for (int i = 0; i < 1000; ++i) {
        Stamp stamp;
        stamp.worker = static_cast<std::uint32_t>(prng.below(kWorkersMax));
        stamp.serial = static_cast<std::uint32_t>(prng.below(kSerials));
        stamp.generation = static_cast<std::uint32_t>(prng.below(kGenerations));
        stamp.offset = prng.below(kOffsetMax) / kWordBytes * kWordBytes;
        EXPECT_EQ(content.decode(content.encode(stamp)), stamp);
    }
}

TEST(Content, BytesDoNotDependOnHowTheyAreCut) {
    const Content content(7, 256, kFileBytes);
    const Stamp file{3, 4, 5, 0};
    std::vector<std::byte> whole(1000), parts(1000);
    content.fill(whole, file, 13);
    Prng prng(2);
    for (std::size_t at = 0; at < parts.size();) {
        const std::size_t count = std::min<std::size_t>(prng.between(1, 30), parts.size() - at);
        content.fill(std::span(parts).subspan(at, count), file, 13 + at);
        at += count;
    }
    EXPECT_EQ(whole, parts);
}

TEST(Content, AnotherSeedOtherBytes) {
    std::vector<std::byte> one(64), other(64);
    Content(1, 4, kFileBytes).fill(one, {0, 1, 1, 0}, 0);
    Content(2, 4, kFileBytes).fill(other, {0, 1, 1, 0}, 0);
    EXPECT_NE(one, other);
    EXPECT_FALSE(Content(2, 4, kFileBytes).recognize(one));
}

TEST(Content, RecognizesAtAnyAlignment) {
    const Content content(9, 256, kFileBytes);
    for (std::uint64_t offset = 4096; offset < 4096 + 2 * kWordBytes; ++offset) {
        std::vector<std::byte> bytes(3 * kWordBytes);
        content.fill(bytes, {200, 77, 3, 0}, offset);
        const auto stamp = content.recognize(bytes);
        ASSERT_TRUE(stamp) << offset;
        EXPECT_EQ(*stamp, (Stamp{200, 77, 3, offset}));
    }
}

TEST(Content, RecognizesNothingInNoise) {
    const Content content(9, 4096, kOffsetMax);
    Prng prng(3);
    for (int i = 0; i < 2000; ++i) {
        std::vector<std::byte> bytes(24);
        for (std::byte& b : bytes)
            b = static_cast<std::byte>(prng.next());
        EXPECT_FALSE(content.recognize(bytes));
    }
}

TEST(Content, HolesAreZeros) {
    std::vector<std::byte> bytes(20, std::byte{1});
    Content(1, 4, kFileBytes).fill(bytes, {1, 1, 0, 0}, 3);
    EXPECT_TRUE(
        std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; }));
}

}  // namespace
}  // namespace nfsrdma::stress
