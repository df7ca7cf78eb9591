#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "rpcrdma/proto.hpp"

namespace nfsrdma::rpcrdma {

// RFC 8797 s4: eight bytes of CM private data, each way.
struct PrivateData {
    bool remote_invalidation =
        false;  // R: "you may send me SEND_WITH_INV"; only the client's counts
    std::uint32_t send_size = kDefaultInline;  // bytes, 1 KiB .. 256 KiB in steps of 1 KiB
    std::uint32_t recv_size = kDefaultInline;
};
inline constexpr std::uint32_t kPrivateDataSize = 8;

std::array<std::byte, kPrivateDataSize> encode_private_data(const PrivateData& data) noexcept;
// Anything that does not carry the magic and version 1: the defaults, i.e. 1024 B and no remote
// invalidation.
PrivateData decode_private_data(std::span<const std::byte> bytes) noexcept;

// What we may send inline is the smaller of what we can send and what the peer receives; likewise
// the other way.
InlineLimits agree_inline(const PrivateData& ours, const PrivateData& peers) noexcept;

}  // namespace nfsrdma::rpcrdma
