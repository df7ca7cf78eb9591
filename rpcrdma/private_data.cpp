#include "rpcrdma/private_data.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace nfsrdma::rpcrdma {

namespace {

constexpr std::uint32_t kMagic = 0xF6AB0E18;
constexpr std::uint8_t kFormatVersion = 1;
constexpr std::uint8_t kFlagRemoteInvalidation =
    0x01;  // the other bits are reserved: sent as 0, ignored when received
constexpr std::uint32_t kSizeUnit = 1024;
constexpr std::uint32_t kSizeMax = 256 * kSizeUnit;

// RFC 8797 s4.1: units of 1 KiB, less one. What is not a whole number of units is rounded down,
// never up.
std::uint8_t size_code(std::uint32_t bytes) noexcept {
    return static_cast<std::uint8_t>(std::clamp(bytes, kSizeUnit, kSizeMax) / kSizeUnit - 1);
}

std::uint32_t size_of_code(std::uint8_t code) noexcept {
    return (std::uint32_t{code} + 1) * kSizeUnit;
}

}  // namespace

std::array<std::byte, kPrivateDataSize> encode_private_data(const PrivateData& data) noexcept {
    std::array<std::byte, kPrivateDataSize> out{};
    store_be32(&out[0], kMagic);
    store_u8(&out[4], kFormatVersion);
    store_u8(&out[5], data.remote_invalidation ? kFlagRemoteInvalidation : std::uint8_t{0});
    store_u8(&out[6], size_code(data.send_size));
    store_u8(&out[7], size_code(data.recv_size));
    return out;
}

PrivateData decode_private_data(std::span<const std::byte> bytes) noexcept {
    PrivateData data;
    if (bytes.size() < kPrivateDataSize || load_be32(&bytes[0]) != kMagic ||
        load_u8(&bytes[4]) != kFormatVersion) {
        return data;
    }
    data.remote_invalidation = (load_u8(&bytes[5]) & kFlagRemoteInvalidation) != 0;
    data.send_size = size_of_code(load_u8(&bytes[6]));
    data.recv_size = size_of_code(load_u8(&bytes[7]));
    return data;
}

InlineLimits agree_inline(const PrivateData& ours, const PrivateData& peers) noexcept {
    return {.send = std::min(ours.send_size, peers.recv_size),
            .recv = std::min(ours.recv_size, peers.send_size)};
}

}  // namespace nfsrdma::rpcrdma
