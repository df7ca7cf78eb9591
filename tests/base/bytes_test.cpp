#include "base/bytes.hpp"

#include <array>

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

TEST(Bytes, BigEndianLoadsAndStoresAtAnyAlignment) {
    std::array<std::byte, 16> raw{};
    for (std::size_t at = 0; at < 8; ++at) {
        store_be64(&raw[at], 0x0102030405060708u);
        EXPECT_EQ(load_be64(&raw[at]), 0x0102030405060708u);
        EXPECT_EQ(load_be32(&raw[at]), 0x01020304u);
        EXPECT_EQ(load_be24(&raw[at]), 0x010203u);
        EXPECT_EQ(load_be16(&raw[at]), 0x0102u);
        EXPECT_EQ(load_u8(&raw[at]), 1u);
        store_be24(&raw[at], 0xff0a0b0cu);
        EXPECT_EQ(load_be32(&raw[at]), 0x0a0b0c04u);
    }
}

TEST(Bytes, AlignmentAtTheEdges) {
    EXPECT_EQ(align_up(0u, 4u), 0u);
    EXPECT_EQ(align_up(1u, 4u), 4u);
    EXPECT_EQ(align_up(4u, 4u), 4u);
    EXPECT_EQ(align_down(4095u, 4096u), 0u);
    EXPECT_EQ(align_down(4096u, 4096u), 4096u);
    EXPECT_EQ(div_ceil(UINT64_MAX, 2u), (UINT64_MAX >> 1) + 1);
    EXPECT_EQ(div_ceil(0u, 7u), 0u);
}

TEST(BytesDeathTest, NarrowAssertsWhatDoesNotFit) {
    EXPECT_EQ(narrow<std::uint8_t>(255), 255);
    EXPECT_DEATH(narrow<std::uint8_t>(256), "assertion failed");
    EXPECT_DEATH(narrow<std::uint32_t>(-1), "assertion failed");
}

TEST(Bytes, AddressesRoundTrip) {
    std::byte one{};
    EXPECT_EQ(bytes_at(address_of(&one)), &one);
}

}  // namespace
}  // namespace nfsrdma
