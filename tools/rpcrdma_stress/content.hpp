#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

// What files hold: each word of eight bytes tells the file, the place in it and the WRITE that it
// came from, in a code that depends on the seed. So bytes that are wrong tell where they belong.
namespace nfsrdma::stress {

// One word. Its place is that of its first byte, a multiple of kWordBytes.
struct Stamp {
    std::uint32_t worker = 0;      // below kWorkersMax
    std::uint32_t serial = 0;      // of the file among those of its worker; below kSerials
    std::uint32_t generation = 0;  // of the WRITE; from 1, below kGenerations; then from 1 again
    std::uint64_t offset = 0;      // below kOffsetMax
    bool operator==(const Stamp&) const = default;
};
inline constexpr std::size_t kWordBytes = 8;
inline constexpr std::uint32_t kWorkersMax = 1u << 12;
inline constexpr std::uint32_t kSerials = 1u << 14;
// The last ones are those of its stripes in the file of all; the others those of its files, again
// and again.
inline constexpr std::uint32_t kStripes = 1u << 10;
inline constexpr std::uint32_t kFileSerials = kSerials - kStripes;
constexpr std::uint32_t file_serial(std::uint64_t number) noexcept {
    return static_cast<std::uint32_t>(number % kFileSerials);
}
constexpr std::uint32_t stripe_serial(std::uint32_t number) noexcept {  // below kStripes
    return kFileSerials + number % kStripes;
}
inline constexpr std::uint32_t kGenerations = 1u << 14;
inline constexpr std::uint64_t kOffsetMax = std::uint64_t{kWordBytes} << 24;

class Content {
  public:
    // `workers` and `file_bytes` bound what decode takes for possible.
    Content(std::uint64_t seed, std::uint32_t workers, std::uint64_t file_bytes) noexcept;

    // The bytes of `out` as they stand at `offset` of the file; generation 0: zeros.
    void fill(std::span<std::byte> out, const Stamp& file, std::uint64_t offset) const noexcept;
    // What this run wrote where and when, when the bytes say so: two words that belong together, at
    // any alignment. `offset` is that of the first byte.
    std::optional<Stamp> recognize(std::span<const std::byte> bytes) const noexcept;

    std::uint64_t encode(const Stamp& stamp) const noexcept;
    Stamp decode(std::uint64_t word) const noexcept;

  private:
    bool possible(const Stamp& stamp) const noexcept;
    std::uint64_t key_;
    std::uint32_t workers_;
    std::uint64_t file_bytes_;
};

// Bytes that no file holds: what READ buffers are filled with before the call.
inline constexpr std::byte kFiller{0xA5};

}  // namespace nfsrdma::stress
