#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/prng.hpp"

// Bytes of an endless stream that a seed names: any part of it can be made, and checked, without
// the rest. Two different offsets or seeds do not look alike, so data moved to the wrong place
// shows.
namespace nfsrdma::test {

inline std::byte pattern_byte(std::uint64_t seed, std::uint64_t offset) noexcept {
    const std::uint64_t word = Prng(seed ^ ((offset / 8) * 0xD6E8FEB86659FD93u)).next();
    return static_cast<std::byte>(word >> (offset % 8 * 8));
}

// Bytes [offset, offset + out.size()) of the stream.
inline void fill_pattern(std::span<std::byte> out, std::uint64_t seed,
                         std::uint64_t offset = 0) noexcept {
    for (std::size_t i = 0; i < out.size(); ++i)
        out[i] = pattern_byte(seed, offset + i);
}

// Index of the first byte that is not the stream's; `data.size()` when all are.
inline std::size_t pattern_mismatch(std::span<const std::byte> data, std::uint64_t seed,
                                    std::uint64_t offset = 0) noexcept {
    for (std::size_t i = 0; i < data.size(); ++i) {
        if (data[i] != pattern_byte(seed, offset + i)) return i;
    }
    return data.size();
}

}  // namespace nfsrdma::test
