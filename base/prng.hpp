#pragma once
#include <cstdint>

namespace nfsrdma {

// splitmix64: seeded, tiny, good enough for simulation, fuzzing and load; not for secrets.
class Prng {
  public:
    explicit Prng(std::uint64_t seed) noexcept : state_(seed) {}
    std::uint64_t next() noexcept {
        state_ += 0x9E3779B97F4A7C15u;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    // Uniform enough in [0, bound); bound > 0.
    std::uint64_t below(std::uint64_t bound) noexcept { return next() % bound; }
    std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
        return low + below(high - low + 1);
    }
    // True with a chance of `ppm` in a million.
    bool chance_ppm(std::uint32_t ppm) noexcept { return below(1'000'000) < ppm; }

  private:
    std::uint64_t state_;
};

}  // namespace nfsrdma
