#include "base/prng.hpp"

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

TEST(Prng, SameSeedSameNumbers) {
    Prng a(7), b(7), c(8);
    EXPECT_EQ(a.next(), b.next());
    EXPECT_NE(a.next(), c.next());
}

TEST(Prng, StaysWithinItsBounds) {
    Prng prng(1);
    std::uint32_t lucky = 0;
    for (int i = 0; i < 100'000; ++i) {
        ASSERT_LT(prng.below(10), 10u);
        const std::uint64_t between = prng.between(5, 6);
        ASSERT_TRUE(between == 5 || between == 6);
        lucky += prng.chance_ppm(100'000) ? 1 : 0;
    }
    EXPECT_GT(lucky, 9'000u);
    EXPECT_LT(lucky, 11'000u);
    EXPECT_FALSE(prng.chance_ppm(0));
    EXPECT_TRUE(prng.chance_ppm(1'000'000));
}

}  // namespace
}  // namespace nfsrdma
