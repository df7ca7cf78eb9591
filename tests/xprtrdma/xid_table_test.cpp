#include "xprtrdma/xid_table.hpp"

#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"
#include "xprtrdma/req.hpp"

namespace nfsrdma::xprtrdma {
namespace {

TEST(XidTable, FindsWhatWasInsertedAndNothingElse) {
    XidTable table(4);
    Req a, b;
    EXPECT_TRUE(table.insert(1, a));
    EXPECT_TRUE(table.insert(0, b));
    EXPECT_EQ(table.find(1), &a);
    EXPECT_EQ(table.find(0), &b);
    EXPECT_EQ(table.find(2), nullptr);
    table.erase(1);
    EXPECT_EQ(table.find(1), nullptr);
    EXPECT_EQ(table.find(0), &b);
}

TEST(XidTable, AnXidInUseIsRefused) {
    XidTable table(4);
    Req a, b;
    EXPECT_TRUE(table.insert(9, a));
    EXPECT_FALSE(table.insert(9, b));
    EXPECT_EQ(table.find(9), &a);
}

// Against a map, at full load, with XIDs that collide often.
TEST(XidTable, StaysExactUnderRandomUse) {
    constexpr std::uint32_t kCalls = 24;
    XidTable table(kCalls);
    auto reqs = std::make_unique<Req[]>(64);
    std::map<std::uint32_t, Req*> model;
    Prng prng(11);
    for (int i = 0; i < 200'000; ++i) {
        const auto slot = static_cast<std::uint32_t>(prng.below(64));
        const std::uint32_t xid = slot * 0x10000u;
        if (model.count(xid) != 0) {
            table.erase(xid);
            model.erase(xid);
        } else if (model.size() < kCalls) {
            ASSERT_TRUE(table.insert(xid, reqs[slot]));
            model[xid] = &reqs[slot];
        }
        const std::uint32_t probe = static_cast<std::uint32_t>(prng.below(64)) * 0x10000u;
        ASSERT_EQ(table.find(probe), model.count(probe) != 0 ? model[probe] : nullptr);
        ASSERT_EQ(table.size(), model.size());
    }
}

}  // namespace
}  // namespace nfsrdma::xprtrdma
