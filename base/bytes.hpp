#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/assert.hpp"

// Wire bytes are read and written here and nowhere by casting a struct onto a buffer.
namespace nfsrdma {

template <std::unsigned_integral T>
constexpr T byteswap(T v) noexcept {
    if constexpr (sizeof(T) == 1) return v;
    if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(v));
    if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(v));
    if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(v));
}

template <std::unsigned_integral T>
inline T load_be(const std::byte* p) noexcept {
    T v;
    std::memcpy(&v, p, sizeof v);
    return std::endian::native == std::endian::little ? byteswap(v) : v;
}
template <std::unsigned_integral T>
inline void store_be(std::byte* p, T v) noexcept {
    if constexpr (std::endian::native == std::endian::little) v = byteswap(v);
    std::memcpy(p, &v, sizeof v);
}
inline std::uint8_t load_u8(const std::byte* p) noexcept {
    return std::to_integer<std::uint8_t>(*p);
}
inline void store_u8(std::byte* p, std::uint8_t v) noexcept {
    *p = std::byte{v};
}
inline std::uint16_t load_be16(const std::byte* p) noexcept {
    return load_be<std::uint16_t>(p);
}
inline std::uint32_t load_be32(const std::byte* p) noexcept {
    return load_be<std::uint32_t>(p);
}
inline std::uint64_t load_be64(const std::byte* p) noexcept {
    return load_be<std::uint64_t>(p);
}
inline std::uint32_t load_be24(const std::byte* p) noexcept {
    return (std::uint32_t{load_u8(p)} << 16) | (std::uint32_t{load_u8(p + 1)} << 8) |
           load_u8(p + 2);
}
inline void store_be16(std::byte* p, std::uint16_t v) noexcept {
    store_be(p, v);
}
inline void store_be32(std::byte* p, std::uint32_t v) noexcept {
    store_be(p, v);
}
inline void store_be64(std::byte* p, std::uint64_t v) noexcept {
    store_be(p, v);
}
inline void store_be24(std::byte* p, std::uint32_t v) noexcept {
    store_u8(p, static_cast<std::uint8_t>(v >> 16));
    store_u8(p + 1, static_cast<std::uint8_t>(v >> 8));
    store_u8(p + 2, static_cast<std::uint8_t>(v));
}

// `align` is a power of two.
template <std::unsigned_integral T>
constexpr T align_up(T v, std::type_identity_t<T> align) noexcept {
    return static_cast<T>((v + align - 1) & ~(align - 1));
}
template <std::unsigned_integral T>
constexpr T align_down(T v, std::type_identity_t<T> align) noexcept {
    return static_cast<T>(v & ~(align - 1));
}
template <std::unsigned_integral T>
constexpr T div_ceil(T v, std::type_identity_t<T> unit) noexcept {
    return static_cast<T>(v / unit + (v % unit != 0));
}

// A narrowing that our own arithmetic guarantees; for a peer's numbers check first and return an
// Error.
template <std::integral To, std::integral From>
constexpr To narrow(From v) noexcept {
    const To to = static_cast<To>(v);
    NR_ASSERT(static_cast<From>(to) == v && ((to < To{}) == (v < From{})));
    return to;
}

inline std::uint64_t address_of(const void* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
}
inline std::byte* bytes_at(std::uint64_t address) noexcept {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): verbs carry addresses as 64-bit integers
    return reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(address));
}
inline const std::byte* as_bytes(const char* p) noexcept {
    return reinterpret_cast<const std::byte*>(p);
}
inline std::byte* as_bytes(char* p) noexcept {
    return reinterpret_cast<std::byte*>(p);
}
inline char* as_chars(std::byte* p) noexcept {
    return reinterpret_cast<char*>(p);
}
inline const char* as_chars(const std::byte* p) noexcept {
    return reinterpret_cast<const char*>(p);
}

}  // namespace nfsrdma
