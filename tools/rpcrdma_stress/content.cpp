#include "tools/rpcrdma_stress/content.hpp"

#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "base/prng.hpp"

namespace nfsrdma::stress {
namespace {

constexpr unsigned kOffsetBits = 24, kGenerationBits = 14, kSerialBits = 14;

// The mixing step of splitmix64, and its inverse: a code, so that words can be read back.
constexpr std::uint64_t mix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}
constexpr std::uint64_t unmix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 31) ^ (z >> 62)) * 0x319642B2D24D8EC3u;
    z = (z ^ (z >> 27) ^ (z >> 54)) * 0x96DE1B173F119089u;
    return z ^ (z >> 30) ^ (z >> 60);
}
static_assert(unmix(mix(0x0123456789ABCDEFu)) == 0x0123456789ABCDEFu);

}  // namespace

Content::Content(std::uint64_t seed, std::uint32_t workers, std::uint64_t file_bytes) noexcept
    : key_(Prng(seed ^ 0x5EEDC0DEu).next()), workers_(workers), file_bytes_(file_bytes) {}

std::uint64_t Content::encode(const Stamp& stamp) const noexcept {
    std::uint64_t word = stamp.worker % kWorkersMax;
    word = word << kSerialBits | stamp.serial % kSerials;
    word = word << kGenerationBits | stamp.generation % kGenerations;
    word = word << kOffsetBits | stamp.offset / kWordBytes % (1u << kOffsetBits);
    return mix(word ^ key_);
}

Stamp Content::decode(std::uint64_t word) const noexcept {
    word = unmix(word) ^ key_;
    Stamp stamp;
    stamp.offset = word % (1u << kOffsetBits) * kWordBytes;
    word >>= kOffsetBits;
    stamp.generation = static_cast<std::uint32_t>(word % kGenerations);
    word >>= kGenerationBits;
    stamp.serial = static_cast<std::uint32_t>(word % kSerials);
    stamp.worker = static_cast<std::uint32_t>(word >> kSerialBits);
    return stamp;
}

void Content::fill(std::span<std::byte> out, const Stamp& file,
                   std::uint64_t offset) const noexcept {
    if (file.generation == 0) {
        std::fill(out.begin(), out.end(), std::byte{0});
        return;
    }
    Stamp stamp = file;
    while (!out.empty()) {
        stamp.offset = offset - offset % kWordBytes;
        std::byte word[kWordBytes];
        store_be64(word, encode(stamp));
        const std::size_t skip = offset % kWordBytes;
        const std::size_t count = std::min(kWordBytes - skip, out.size());
        std::memcpy(out.data(), word + skip, count);
        out = out.subspan(count);
        offset += count;
    }
}

bool Content::possible(const Stamp& stamp) const noexcept {
    return stamp.worker < workers_ && stamp.generation != 0 && stamp.offset < file_bytes_;
}

std::optional<Stamp> Content::recognize(std::span<const std::byte> bytes) const noexcept {
    for (std::size_t skip = 0; skip < kWordBytes; ++skip) {
        if (bytes.size() < skip + 2 * kWordBytes) break;
        const Stamp first = decode(load_be64(bytes.data() + skip));
        if (!possible(first)) continue;
        const Stamp second = decode(load_be64(bytes.data() + skip + kWordBytes));
        Stamp expected = first;
        expected.offset += kWordBytes;
        if (second != expected || first.offset < skip) continue;
        Stamp found = first;
        found.offset -= skip;
        return found;
    }
    return std::nullopt;
}

}  // namespace nfsrdma::stress
