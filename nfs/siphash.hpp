#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace nfsrdma::nfs {

using SipKey = std::array<std::byte, 16>;
using SipTag = std::array<std::byte, 16>;

// SipHash-2-4 with 128 bits of output (Aumasson and Bernstein): a keyed MAC for short messages.
SipTag siphash128(const SipKey& key, std::span<const std::byte> message) noexcept;

// In time that does not depend on where they differ.
bool equal_tags(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

}  // namespace nfsrdma::nfs
