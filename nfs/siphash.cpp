#include "nfs/siphash.hpp"

#include <bit>

#include "base/bytes.hpp"

namespace nfsrdma::nfs {
namespace {

// SipHash is little-endian throughout.
std::uint64_t load_le64(const std::byte* p) noexcept {
    return byteswap(load_be64(p));
}
void store_le64(std::byte* p, std::uint64_t v) noexcept {
    store_be64(p, byteswap(v));
}

struct State {
    std::uint64_t v0, v1, v2, v3;

    void round() noexcept {
        v0 += v1;
        v1 = std::rotl(v1, 13) ^ v0;
        v0 = std::rotl(v0, 32);
        v2 += v3;
        v3 = std::rotl(v3, 16) ^ v2;
        v0 += v3;
        v3 = std::rotl(v3, 21) ^ v0;
        v2 += v1;
        v1 = std::rotl(v1, 17) ^ v2;
        v2 = std::rotl(v2, 32);
    }
    void take(std::uint64_t word) noexcept {
        v3 ^= word;
        round();
        round();
        v0 ^= word;
    }
    std::uint64_t finish() noexcept {
        for (int i = 0; i < 4; ++i)
            round();
        return v0 ^ v1 ^ v2 ^ v3;
    }
};

}  // namespace

SipTag siphash128(const SipKey& key, std::span<const std::byte> message) noexcept {
    constexpr std::uint64_t kWide = 0xee;  // what sets the 128-bit variant apart
    const std::uint64_t k0 = load_le64(key.data()), k1 = load_le64(key.data() + 8);
    State state{k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du ^ kWide,
                k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
    std::uint64_t last = std::uint64_t{message.size() & 0xff} << 56;
    while (message.size() >= 8) {
        state.take(load_le64(message.data()));
        message = message.subspan(8);
    }
    for (std::size_t i = 0; i < message.size(); ++i)
        last |= std::uint64_t{load_u8(&message[i])} << (8 * i);
    state.take(last);
    SipTag out{};
    state.v2 ^= kWide;
    store_le64(out.data(), state.finish());
    state.v1 ^= 0xdd;
    store_le64(out.data() + 8, state.finish());
    return out;
}

bool equal_tags(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
    if (a.size() != b.size()) return false;
    std::byte differs{};
    for (std::size_t i = 0; i < a.size(); ++i)
        differs |= a[i] ^ b[i];
    return differs == std::byte{};
}

}  // namespace nfsrdma::nfs
