#include "verbs/softroce/icrc.hpp"

#include <algorithm>
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

void fill_udp(std::byte* udp, const SockAddr& source, const SockAddr& destination) noexcept {
    store_be16(udp, source.port());
    store_be16(udp + 2, destination.port());
    store_be16(udp + 6, 0xFFFF);  // checksum, masked
}

void fill_v4(std::byte* ip, const SockAddr& source, const SockAddr& destination) noexcept {
    store_u8(ip, 0x45);
    store_u8(ip + 1, 0xFF);      // TOS, masked
    store_be16(ip + 6, 0x4000);  // don't fragment
    store_u8(ip + 8, 0xFF);      // TTL, masked
    store_u8(ip + 9, IPPROTO_UDP);
    store_be16(ip + 10, 0xFFFF);  // header checksum, masked
    const auto from = source.gid(), to = destination.gid();
    std::memcpy(ip + 12, from.data() + 12, 4);
    std::memcpy(ip + 16, to.data() + 12, 4);
}

void fill_v6(std::byte* ip, const SockAddr& source, const SockAddr& destination) noexcept {
    store_be32(ip, 0x6FFFFFFF);  // version 6; traffic class and flow label, masked
    store_u8(ip + 6, IPPROTO_UDP);
    store_u8(ip + 7, 0xFF);  // hop limit, masked
    const auto from = source.gid(), to = destination.gid();
    std::memcpy(ip + 8, from.data(), from.size());
    std::memcpy(ip + 24, to.data(), to.size());
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

IcrcHead::IcrcHead(const SockAddr& source, const SockAddr& destination) noexcept
    : v4_(source.is_v4()) {
    std::memset(head_.data(), 0xFF, kMaskedLrhBytes);
    std::byte* ip = head_.data() + kMaskedLrhBytes;
    const std::size_t ip_bytes = v4_ ? kIpv4Bytes : kIpv6Bytes;
    if (v4_) {
        fill_v4(ip, source, destination);
    } else {
        fill_v6(ip, source, destination);
    }
    fill_udp(ip + ip_bytes, source, destination);
    size_ = static_cast<std::uint8_t>(kMaskedLrhBytes + ip_bytes + kUdpBytes);
}

std::uint32_t IcrcHead::begin(std::uint16_t ip_id, std::size_t bytes,
                              std::span<const std::byte> header) noexcept {
    NR_ASSERT(size_ > 0 && header.size() >= kBthBytes && header.size() <= kHeaderMax);
    std::byte* ip = head_.data() + kMaskedLrhBytes;
    if (v4_) {
        store_be16(ip + 2, narrow<std::uint16_t>(kIpv4Bytes + kUdpBytes + bytes));
        store_be16(ip + 4, ip_id);
    } else {
        store_be16(ip + 4, narrow<std::uint16_t>(kUdpBytes + bytes));
    }
    std::byte* end = head_.data() + size_;
    store_be16(end - 4, narrow<std::uint16_t>(kUdpBytes + bytes));
    std::memcpy(end, header.data(), header.size());
    end[kBthResv8a] = std::byte{0xFF};
    return crc32(0, std::span(head_).first(size_ + header.size()));
}

std::uint32_t icrc_add(std::uint32_t crc, std::span<const std::byte> bytes) noexcept {
    return bytes.empty() ? crc : crc32(crc, bytes);
}

std::uint32_t icrc_of(IcrcHead& head, std::uint16_t ip_id,
                      std::span<const std::byte> packet) noexcept {
    NR_ASSERT(packet.size() >= kBthBytes);
    const std::size_t split = std::min<std::size_t>(packet.size(), kHeaderMax);
    const std::uint32_t crc = head.begin(ip_id, packet.size() + kIcrcBytes, packet.first(split));
    return icrc_add(crc, packet.subspan(split));
}

std::uint32_t icrc_of(const IcrcPath& path, std::span<const std::byte> packet) noexcept {
    IcrcHead head(path.source, path.destination);
    return icrc_of(head, path.ip_id, packet);
}

std::uint32_t icrc_of(IcrcHead& head, std::uint16_t ip_id, const TxPacket& packet) noexcept {
    static constexpr std::array<std::byte, 3> kZeros{};
    std::size_t bytes = packet.header.size() + packet.pad + kIcrcBytes;
    for (const PayloadPiece& piece : packet.payload)
        bytes += piece.size;
    std::uint32_t crc = head.begin(ip_id, bytes, packet.header);
    for (const PayloadPiece& piece : packet.payload)
        crc = icrc_add(crc, {piece.data, piece.size});
    return icrc_add(crc, std::span(kZeros).first(packet.pad));
}

std::uint32_t icrc_of(const IcrcPath& path, const TxPacket& packet) noexcept {
    IcrcHead head(path.source, path.destination);
    return icrc_of(head, path.ip_id, packet);
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
