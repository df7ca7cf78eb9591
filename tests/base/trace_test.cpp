#include "base/trace.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

TEST(TraceRing, DumpsOldestFirstWithTimesSinceTheFirst) {
    TraceRing ring(8);
    ring.add({1'000'000, 0xabc, 1, "plan"});
    ring.add({1'002'500, 0xabc, 1, "post"});
    EXPECT_EQ(ring.dump(),
              "       0.000 c1 00000abc plan\n"
              "       2.500 c1 00000abc post\n");
    EXPECT_EQ(ring.dump(1), "       0.000 c1 00000abc post\n");
    EXPECT_EQ(TraceRing(2).dump(), "");
}

TEST(TraceRing, KeepsTheLastOnesOnly) {
    TraceRing ring(4);
    for (std::uint32_t i = 0; i < 11; ++i)
        ring.add({i * 1000, i, 7, "x"});
    const std::string out = ring.dump();
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4);
    EXPECT_NE(out.find("00000007"), std::string::npos);
    EXPECT_NE(out.find("0000000a"), std::string::npos);
    EXPECT_EQ(out.find("00000006"), std::string::npos);
    EXPECT_EQ(ring.added(), 11u);
}

}  // namespace
}  // namespace nfsrdma
