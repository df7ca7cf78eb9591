#include "tools/nfsrdma/progress.hpp"

#include <gtest/gtest.h>

#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::tool {
namespace {

TEST(Progress, LineHasABarWhereTheTotalIsKnown) {
    testing::DirectWorld world;
    Progress progress(*world.loop, false, 4096);
    progress.add_bytes(1024);
    progress.add_file();
    world.clock.advance_to(world.clock.now_ns() + kNsPerSec);
    EXPECT_EQ(progress.line(), "[######..................] 25 %  1.0 KiB  1.0 KiB/s  1 file");
    progress.add_bytes(10000);  // it has grown
    EXPECT_NE(progress.line().find("] 100 %"), std::string::npos);
    EXPECT_EQ(progress.bytes(), 11024u);
}

TEST(Progress, WithoutATotalThereIsNoBar) {
    testing::DirectWorld world;
    Progress progress(*world.loop, false, 0);
    EXPECT_EQ(progress.line(), "0 B");
}

}  // namespace
}  // namespace nfsrdma::tool
