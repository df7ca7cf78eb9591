#include "verbs/softroce/icrc.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "tests/verbs/softroce/roce_vector.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using test::kRoceVectors;
using test::load_vector;

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
    Prng prng(seed);
    std::vector<std::byte> bytes(size);
    for (std::byte& b : bytes)
        b = static_cast<std::byte>(prng.next());
    return bytes;
}

TEST(B46, EveryKindOfLinuxFrameHasTheIcrcThatWeCompute) {
    for (const char* name : kRoceVectors) {
        const auto vector = load_vector(name);
        EXPECT_EQ(icrc_of(vector.path(), vector.packet()), vector.icrc()) << name;
    }
}

TEST(B46, AFlippedBitAnywhereButInTheMaskedByteIsSeen) {
    const auto vector = load_vector("write_only_pad1");
    std::vector<std::byte> packet(vector.packet().begin(), vector.packet().end());
    for (std::size_t at = 0; at < packet.size(); ++at) {
        packet[at] ^= std::byte{0x10};
        EXPECT_EQ(icrc_of(vector.path(), packet) == vector.icrc(), at == 4) << at;
        packet[at] ^= std::byte{0x10};
    }
}

TEST(Icrc, EveryLinuxIpIdIsSolvedFromTheDifference) {
    for (const char* name : kRoceVectors) {
        const auto vector = load_vector(name);
        for (const std::uint16_t assumed : std::to_array<std::uint16_t>({0, 1, 0x1234, 0xFFFF})) {
            IcrcPath path = vector.path();
            path.ip_id = assumed;
            const std::uint32_t computed = icrc_of(path, vector.packet());
            const auto id = solve_ip_id(computed, vector.icrc(), assumed, vector.datagram().size());
            ASSERT_TRUE(id) << name;
            EXPECT_EQ(*id, vector.ip_id()) << name;
        }
    }
}

TEST(Icrc, ACorruptedPacketHasNoIpId) {
    const auto vector = load_vector("write_middle");
    IcrcPath path = vector.path();
    path.ip_id = 0;
    std::vector<std::byte> packet(vector.packet().begin(), vector.packet().end());
    std::uint32_t solved = 0, tried = 0;
    for (std::size_t at = 5; at < packet.size(); at += 3, ++tried) {
        packet[at] ^= std::byte{1};
        const auto id = solve_ip_id(icrc_of(path, packet), vector.icrc(), 0, packet.size() + 4);
        solved += id.has_value();
        packet[at] ^= std::byte{1};
    }
    EXPECT_LE(solved, 2u) << "of " << tried << ": 16 of 32 bits still check";
}

TEST(Icrc, SolvesEveryIdAtEveryLength) {
    const SockAddr a = SockAddr::v4(0x7F000001, 4791), b = SockAddr::v4(0x7F000002, 4791);
    Prng prng(7);
    for (std::size_t size = 12; size <= 4200; size += size < 80 ? 1 : 97) {
        const auto packet = random_bytes(size, size);
        const auto id = static_cast<std::uint16_t>(prng.next());
        const std::uint32_t real = icrc_of(IcrcPath{a, b, id}, packet);
        const std::uint32_t zero = icrc_of(IcrcPath{a, b, 0}, packet);
        EXPECT_EQ(solve_ip_id(zero, real, 0, size + kIcrcBytes), std::optional(id)) << size;
    }
    EXPECT_FALSE(solve_ip_id(1, 2, 0, 3)) << "shorter than an ICRC";
    EXPECT_FALSE(solve_ip_id(1, 2, 0, 1 << 20)) << "longer than a datagram";
}

// The value is by Python's zlib.crc32 over the pseudo header laid out by hand.
TEST(B46, Ipv6GoldenValue) {
    in6_addr source{}, destination{};
    for (std::uint8_t i = 0; i < 16; ++i) {
        source.s6_addr[i] = static_cast<std::uint8_t>(0x20 + i);
        destination.s6_addr[i] = static_cast<std::uint8_t>(0xA0 + i);
    }
    std::vector<std::byte> packet(12 + 8);
    for (std::size_t i = 0; i < packet.size(); ++i)
        packet[i] = static_cast<std::byte>(i * 7);
    const IcrcPath path{SockAddr::v6(source, 0xC123), SockAddr::v6(destination, 4791), 0x7777};
    EXPECT_EQ(icrc_of(path, packet), 0xaff05279u);
}

TEST(Icrc, PiecesGiveTheIcrcOfTheWhole) {
    const SockAddr a = SockAddr::v4(0x7F000001, 4791), b = SockAddr::v4(0x7F000002, 5000);
    for (std::size_t pad = 0; pad < 4; ++pad) {
        auto packet = random_bytes(16 + 100 + pad, pad);
        for (std::size_t i = 0; i < pad; ++i)
            packet[116 + i] = std::byte{0};
        const std::array<PayloadPiece, 3> pieces{
            {{packet.data() + 16, 1}, {packet.data() + 17, 64}, {packet.data() + 81, 35}}};
        const TxPacket tx{std::span(packet).first(16), pieces, static_cast<std::uint8_t>(pad)};
        EXPECT_EQ(icrc_of(IcrcPath{a, b, 3}, tx), icrc_of(IcrcPath{a, b, 3}, packet));
    }
}

TEST(Icrc, OneHeadServesManyPackets) {
    const SockAddr a = SockAddr::v4(0x7F000001, 4791), b = SockAddr::v4(0x7F000002, 5000);
    IcrcHead head(a, b);
    for (std::size_t size = 12; size < 300; ++size) {
        const auto packet = random_bytes(size, size);
        const auto id = static_cast<std::uint16_t>(size * 7);
        EXPECT_EQ(icrc_of(head, id, packet), icrc_of(IcrcPath{a, b, id}, packet)) << size;
    }
}

TEST(Icrc, StoredLittleEndian) {
    std::array<std::byte, 4> bytes;
    store_icrc(bytes.data(), 0x11223344);
    EXPECT_EQ(bytes[0], std::byte{0x44});
    EXPECT_EQ(load_icrc(bytes.data()), 0x11223344u);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
