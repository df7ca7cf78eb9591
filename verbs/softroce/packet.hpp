#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "verbs/softroce/opcode.hpp"

// The headers of a RoCEv2 packet (InfiniBand volume 1, 9.2 - 9.7), read and written in place.
namespace nfsrdma::verbs::softroce {

inline constexpr std::uint32_t kPsnMask = 0xFFFFFF;
inline constexpr std::uint32_t kQpnMask = 0xFFFFFF;
inline constexpr std::uint16_t kDefaultPkey = 0xFFFF;

// Inside the device a PSN is a 64-bit count that never wraps; its low 24 bits are on the wire. It
// starts above 2^24, so that one packet before the first is a number too.
constexpr std::uint64_t first_psn(std::uint32_t wire_psn) noexcept {
    return (std::uint64_t{1} << 24) + (wire_psn & kPsnMask);
}
// The count whose low bits are `wire_psn` and that is nearest to `reference`.
constexpr std::uint64_t extend_psn(std::uint64_t reference, std::uint32_t wire_psn) noexcept {
    const std::uint32_t ahead = (wire_psn - static_cast<std::uint32_t>(reference)) & kPsnMask;
    return ahead < 0x800000 ? reference + ahead : reference + ahead - 0x1000000;
}
constexpr std::uint32_t wire_psn(std::uint64_t psn) noexcept {
    return static_cast<std::uint32_t>(psn) & kPsnMask;
}

struct Bth {
    std::uint8_t opcode = 0;
    std::uint8_t pad = 0;
    std::uint8_t version = 0;
    bool ack_request = false;
    std::uint16_t pkey = kDefaultPkey;
    std::uint32_t dest_qpn = 0;
    std::uint32_t psn = 0;
};

// `bytes` holds at least kBthSize.
inline Bth load_bth(const std::byte* bytes) noexcept {
    Bth bth;
    bth.opcode = load_u8(bytes);
    const std::uint8_t flags = load_u8(bytes + 1);
    bth.pad = static_cast<std::uint8_t>((flags >> 4) & 3);
    bth.version = static_cast<std::uint8_t>(flags & 15);
    bth.pkey = load_be16(bytes + 2);
    bth.dest_qpn = load_be24(bytes + 5);
    bth.ack_request = (load_u8(bytes + 8) & 0x80) != 0;
    bth.psn = load_be24(bytes + 9);
    return bth;
}

inline void store_bth(std::byte* bytes, const Bth& bth) noexcept {
    store_u8(bytes, bth.opcode);
    store_u8(bytes + 1, static_cast<std::uint8_t>((bth.pad << 4) | bth.version));
    store_be16(bytes + 2, bth.pkey);
    store_be32(bytes + 4, bth.dest_qpn & kQpnMask);
    store_be32(bytes + 8, (bth.ack_request ? 0x80000000u : 0u) | (bth.psn & kPsnMask));
}

struct Reth {
    std::uint64_t addr = 0;
    std::uint32_t rkey = 0;
    std::uint32_t length = 0;
};
inline Reth load_reth(const std::byte* bytes) noexcept {
    return {load_be64(bytes), load_be32(bytes + 8), load_be32(bytes + 12)};
}
inline void store_reth(std::byte* bytes, const Reth& reth) noexcept {
    store_be64(bytes, reth.addr);
    store_be32(bytes + 8, reth.rkey);
    store_be32(bytes + 12, reth.length);
}

// The AETH syndrome: what kind of answer, and a credit count, an RNR timer code or a NAK code
// (9.7.5.1).
enum class AethKind : std::uint8_t { ack = 0, rnr_nak = 1, reserved = 2, nak = 3 };
enum class NakCode : std::uint8_t {
    sequence = 0,
    invalid_request = 1,
    remote_access = 2,
    remote_operation = 3,
};
inline constexpr std::uint8_t kNoCreditLimit = 31;  // a NIC would otherwise throttle on the count

constexpr std::uint8_t ack_syndrome() noexcept {
    return kNoCreditLimit;
}
constexpr std::uint8_t rnr_syndrome(std::uint8_t timer_code) noexcept {
    return static_cast<std::uint8_t>(0x20 | (timer_code & 31));
}
constexpr std::uint8_t nak_syndrome(NakCode code) noexcept {
    return static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(code));
}
constexpr AethKind kind_of(std::uint8_t syndrome) noexcept {
    return static_cast<AethKind>((syndrome >> 5) & 3);
}
inline void store_aeth(std::byte* bytes, std::uint8_t syndrome, std::uint32_t msn) noexcept {
    store_be32(bytes, (std::uint32_t{syndrome} << 24) | (msn & kPsnMask));
}

// RNR NAK timer codes in microseconds (table 45).
inline constexpr std::array<std::uint32_t, 32> kRnrTimerUs = {
    655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,   320,
    480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240, 15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520};
// The code of the shortest time that is at least `us`.
constexpr std::uint8_t rnr_timer_code(std::uint32_t us) noexcept {
    for (std::uint8_t code = 1; code < 32; ++code) {
        if (kRnrTimerUs[code] >= us) return code;
    }
    return 0;
}

// RDMA messages are at most 2^31 bytes (9.4.1); so long a message still has a sane number of
// packets.
inline constexpr std::uint32_t kMessageMax = 0x80000000;
constexpr std::uint32_t packets_of(std::uint32_t length, std::uint32_t pmtu) noexcept {
    return length == 0 ? 1 : div_ceil(length, pmtu);
}
constexpr std::uint8_t pad_of(std::uint32_t length) noexcept {
    return static_cast<std::uint8_t>((4 - (length & 3)) & 3);
}

}  // namespace nfsrdma::verbs::softroce
