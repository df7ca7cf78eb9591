#include "verbs/softroce/icrc.hpp"

#include <array>
#include <cstring>
#include <isa-l/crc.h>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::size_t kMaskedLrhBytes = 8, kIpv4Bytes = 20, kIpv6Bytes = 40, kUdpBytes = 8;
constexpr std::size_t kBthBytes = 12, kBthResv8a = 4;
constexpr std::uint32_t kPolynomial = 0xEDB88320;  // of CRC-32, reflected
constexpr std::uint32_t kOne = 0x80000000;         // x^0, reflected

std::uint32_t crc32(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
    return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

void fill_udp(std::byte* udp, const IcrcPath& path, std::size_t bytes) noexcept {
    store_be16(udp, path.source.port());
    store_be16(udp + 2, path.destination.port());
    store_be16(udp + 4, narrow<std::uint16_t>(kUdpBytes + bytes));
    store_be16(udp + 6, 0xFFFF);  // checksum, masked
}

std::uint32_t crc_of_v4(const IcrcPath& path, std::size_t bytes) noexcept {
    std::array<std::byte, kMaskedLrhBytes + kIpv4Bytes + kUdpBytes> head{};
    std::memset(head.data(), 0xFF, kMaskedLrhBytes);
    std::byte* ip = head.data() + kMaskedLrhBytes;
    store_u8(ip, 0x45);
    store_u8(ip + 1, 0xFF);  // TOS, masked
    store_be16(ip + 2, narrow<std::uint16_t>(kIpv4Bytes + kUdpBytes + bytes));
    store_be16(ip + 4, path.ip_id);
    store_be16(ip + 6, 0x4000);  // don't fragment
    store_u8(ip + 8, 0xFF);      // TTL, masked
    store_u8(ip + 9, IPPROTO_UDP);
    store_be16(ip + 10, 0xFFFF);  // header checksum, masked
    const auto source = path.source.gid(), destination = path.destination.gid();
    std::memcpy(ip + 12, source.data() + 12, 4);
    std::memcpy(ip + 16, destination.data() + 12, 4);
    fill_udp(ip + kIpv4Bytes, path, bytes);
    return crc32(0, head);
}

std::uint32_t crc_of_v6(const IcrcPath& path, std::size_t bytes) noexcept {
    std::array<std::byte, kMaskedLrhBytes + kIpv6Bytes + kUdpBytes> head{};
    std::memset(head.data(), 0xFF, kMaskedLrhBytes);
    std::byte* ip = head.data() + kMaskedLrhBytes;
    store_be32(ip, 0x6FFFFFFF);  // version 6; traffic class and flow label, masked
    store_be16(ip + 4, narrow<std::uint16_t>(kUdpBytes + bytes));
    store_u8(ip + 6, IPPROTO_UDP);
    store_u8(ip + 7, 0xFF);  // hop limit, masked
    const auto source = path.source.gid(), destination = path.destination.gid();
    std::memcpy(ip + 8, source.data(), source.size());
    std::memcpy(ip + 24, destination.data(), destination.size());
    fill_udp(ip + kIpv6Bytes, path, bytes);
    return crc32(0, head);
}

constexpr std::uint32_t times_x(std::uint32_t v) noexcept {
    return (v & 1) != 0 ? (v >> 1) ^ kPolynomial : v >> 1;
}

constexpr std::uint32_t divided_by_x(std::uint32_t v) noexcept {
    return (v & kOne) != 0 ? ((v ^ kPolynomial) << 1) | 1 : v << 1;
}

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
    std::uint32_t product = 0;
    for (; a != 0; a <<= 1) {
        if ((a & kOne) != 0) product ^= b;
        b = times_x(b);
    }
    return product;
}

// x^-8n for n = low + 256 * high: undoes n zero bytes that a CRC register went through.
struct Unshift {
    std::array<std::uint32_t, 256> low{}, high{};
};

constexpr Unshift make_unshift() noexcept {
    Unshift t;
    t.low[0] = t.high[0] = kOne;
    for (std::size_t i = 1; i < 256; ++i) {
        t.low[i] = t.low[i - 1];
        for (int bit = 0; bit < 8; ++bit)
            t.low[i] = divided_by_x(t.low[i]);
    }
    const std::uint32_t step = multiply(t.low[255], t.low[1]);
    for (std::size_t i = 1; i < 256; ++i)
        t.high[i] = multiply(t.high[i - 1], step);
    return t;
}

constexpr Unshift kUnshift = make_unshift();

}  // namespace

Icrc::Icrc(const IcrcPath& path, std::size_t bytes) noexcept
    : crc_(path.source.is_v4() ? crc_of_v4(path, bytes) : crc_of_v6(path, bytes)) {}

void Icrc::add_header(std::span<const std::byte> header) noexcept {
    NR_ASSERT(header.size() >= kBthBytes);
    std::array<std::byte, kBthBytes> bth;
    std::memcpy(bth.data(), header.data(), bth.size());
    bth[kBthResv8a] = std::byte{0xFF};
    crc_ = crc32(crc32(crc_, bth), header.subspan(kBthBytes));
}

void Icrc::add(std::span<const std::byte> bytes) noexcept {
    crc_ = crc32(crc_, bytes);
}

std::uint32_t icrc_of(const IcrcPath& path, std::span<const std::byte> packet) noexcept {
    Icrc icrc(path, packet.size() + kIcrcBytes);
    icrc.add_header(packet);
    return icrc.value();
}

std::uint32_t icrc_of(const IcrcPath& path, const TxPacket& packet) noexcept {
    static constexpr std::array<std::byte, 3> kZeros{};
    std::size_t bytes = packet.header.size() + packet.pad + kIcrcBytes;
    for (const PayloadPiece& piece : packet.payload)
        bytes += piece.size;
    Icrc icrc(path, bytes);
    icrc.add_header(packet.header);
    for (const PayloadPiece& piece : packet.payload)
        icrc.add({piece.data, piece.size});
    icrc.add(std::span(kZeros).first(packet.pad));
    return icrc.value();
}

void store_icrc(std::byte* p, std::uint32_t icrc) noexcept {
    store_be32(p, byteswap(icrc));
}

std::uint32_t load_icrc(const std::byte* p) noexcept {
    return byteswap(load_be32(p));
}

std::optional<std::uint16_t> solve_ip_id(std::uint32_t computed, std::uint32_t received,
                                         std::uint16_t computed_id, std::size_t bytes) noexcept {
    // The two bytes of the identification enter the register and then go through themselves, what
    // follows them of the IP header, the UDP header, and the datagram without its ICRC.
    const std::size_t shifted = kIpv4Bytes - 4 + kUdpBytes + bytes - kIcrcBytes;
    if (bytes < kIcrcBytes || shifted > 0xFFFF) return std::nullopt;
    const std::uint32_t unshift =
        multiply(kUnshift.low[shifted & 0xFF], kUnshift.high[shifted >> 8]);
    const std::uint32_t difference = multiply(computed ^ received, unshift);
    if (difference > 0xFFFF) return std::nullopt;
    return static_cast<std::uint16_t>(computed_id ^
                                      byteswap(static_cast<std::uint16_t>(difference)));
}

}  // namespace nfsrdma::verbs::softroce
