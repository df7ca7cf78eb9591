#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <gtest/gtest.h>

#include "base/trace.hpp"

// Which seeds are run. NR_SIM_SEEDS=n: seeds 1 to n; NR_SIM_SEED=n: that one.
namespace nfsrdma::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr std::uint64_t kSimSeeds = 40;  // a world takes twenty times as long
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr std::uint64_t kSimSeeds = 40;
#else
inline constexpr std::uint64_t kSimSeeds = 200;
#endif
#else
inline constexpr std::uint64_t kSimSeeds = 200;
#endif

inline std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): before any thread
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Worlds in blocks, so that they run side by side.
class SimSeeds : public ::testing::TestWithParam<std::uint64_t> {
  protected:
    static constexpr std::uint64_t kBlocks = 8;

    // A failed world says how to run it again, and what happened last.
    template <class World>
    void run_block(World world, const char* name) {
        const std::uint64_t only = number_from("NR_SIM_SEED", 0);
        const std::uint64_t last = number_from("NR_SIM_SEEDS", kSimSeeds);
        for (std::uint64_t seed = GetParam(); seed <= std::max(last, only); seed += kBlocks) {
            if (only != 0 && seed != only) continue;
            TraceRing trace(1024);
            world(seed, trace);
            if (!HasFailure()) continue;
            FAIL() << name << ": seed " << seed << " (NR_SIM_SEED=" << seed << ")\n"
                   << trace.dump(200);
        }
    }
};

}  // namespace nfsrdma::test
