#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/sock_addr.hpp"
#include "verbs/softroce/wire.hpp"

// The invariant CRC of RoCEv2 (annex A17.3.3): zlib's CRC-32 over masked headers and everything
// from the BTH to the last pad byte. On the wire it follows the pad, little-endian.
namespace nfsrdma::verbs::softroce {

inline constexpr std::uint32_t kIcrcBytes = 4;

// What the ICRC covers of the IP and UDP headers. Of IPv4 it covers the identification too, which
// an ordinary socket does not choose: with path MTU discovery on an unconnected socket it is 0, and
// k in segment k of a UDP_SEGMENT batch.
struct IcrcPath {
    SockAddr source, destination;  // with the UDP ports; of one family
    std::uint16_t ip_id = 0;
};

// The masked headers of one path, made once for many packets.
class IcrcHead {
  public:
    IcrcHead() = default;
    IcrcHead(const SockAddr& source, const SockAddr& destination) noexcept;
    // CRC over the masked headers and `header`, which begins with the whole BTH, whose resv8a byte
    // counts as ones; at most kHeaderMax bytes. `bytes` is what the datagram holds, with the ICRC.
    std::uint32_t begin(std::uint16_t ip_id, std::size_t bytes,
                        std::span<const std::byte> header) noexcept;

  private:
    static constexpr std::size_t kHeadMax = 8 + 40 + 8;  // masked LRH, IPv6, UDP
    std::array<std::byte, kHeadMax + kHeaderMax> head_{};
    std::uint8_t size_ = 0;
    bool v4_ = true;
};

// Goes on with more bytes.
std::uint32_t icrc_add(std::uint32_t crc, std::span<const std::byte> bytes) noexcept;

// ICRC over one whole packet without its ICRC: BTH (at least 12 bytes) to the last pad byte.
std::uint32_t icrc_of(const IcrcPath& path, std::span<const std::byte> packet) noexcept;
std::uint32_t icrc_of(IcrcHead& head, std::uint16_t ip_id,
                      std::span<const std::byte> packet) noexcept;
// ICRC over a packet in pieces, as it is sent.
std::uint32_t icrc_of(const IcrcPath& path, const TxPacket& packet) noexcept;
std::uint32_t icrc_of(IcrcHead& head, std::uint16_t ip_id, const TxPacket& packet) noexcept;

// Little-endian, as Linux sends it.
void store_icrc(std::byte* p, std::uint32_t icrc) noexcept;
std::uint32_t load_icrc(const std::byte* p) noexcept;

// The IPv4 identification that explains `received` where `computed` is the ICRC for identification
// `computed_id` of a packet whose datagram holds `bytes` with the ICRC. CRC-32 is linear: the
// difference of two identifications is a linear map of 16 bits, so that 16 of the 32 bits still
// check the packet. Empty: no identification does.
std::optional<std::uint16_t> solve_ip_id(std::uint32_t computed, std::uint32_t received,
                                         std::uint16_t computed_id, std::size_t bytes) noexcept;

}  // namespace nfsrdma::verbs::softroce
