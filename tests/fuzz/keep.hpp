#pragma once
#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>

// Worlds that live on from one execution to the next: what a fuzzer's time goes into is its inputs,
// not the making of devices and pools. A world puts right what an input broke before the next one
// comes, asserts at the end of each that nothing of it is left over, and is torn down after so many
// executions, when its destructors assert that all pools are full.
//
// An input that fails only behind others is found again by running them in order; NR_FUZZ_LIVES=1
// gives each a new world, which says whether it fails alone.
namespace nfsrdma::fuzz {

// How many executions a world lives where the environment does not say.
inline std::uint32_t lives(std::uint32_t usual) noexcept {
    static const long asked = [] {
        const char* const text = std::getenv("NR_FUZZ_LIVES");
        return text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    }();
    return asked > 0 ? static_cast<std::uint32_t>(asked) : usual;
}

// One world of each of `kinds` kinds, made when it is asked for first.
template <class World, std::size_t kinds = 1, std::uint32_t executions = 1024>
class Keep {
  public:
    // `args` make the world of this kind; the same each time.
    template <class... Args>
    World& get(std::size_t kind, Args&&... args) {
        Kept& kept = kept_[kind];
        if (kept.world != nullptr && kept.left == 0) kept.world.reset();
        if (kept.world == nullptr) {
            kept.world = std::make_unique<World>(std::forward<Args>(args)...);
            kept.left = lives(executions);
        }
        --kept.left;
        return *kept.world;
    }
    // The world of this kind is beyond repair, as it may be.
    void drop(std::size_t kind) { kept_[kind].world.reset(); }

  private:
    struct Kept {
        std::unique_ptr<World> world;
        std::uint32_t left = 0;
    };
    std::array<Kept, kinds> kept_;
};

}  // namespace nfsrdma::fuzz
