#include "tools/rpcrdma_stress/plan.hpp"

#include <array>
#include <set>

#include <gtest/gtest.h>

namespace nfsrdma::stress {
namespace {

PlanOptions options(std::uint64_t seed) {
    PlanOptions out;
    out.seed = seed;
    out.common_bytes = 64 << 10;
    out.cancel_rate = 0.01;
    out.disconnect_rate = 0.001;
    return out;
}

TEST(Plan, EqualSeedsGiveEqualSteps) {
    Planner one(options(3), 5), same(options(3), 5), seed(options(4), 5), worker(options(3), 6);
    for (int i = 0; i < 1000; ++i) {
        const Plan a = one.next(), b = same.next();
        EXPECT_EQ(a.kind, b.kind);
        EXPECT_EQ(a.offset, b.offset);
        EXPECT_EQ(a.length, b.length);
        EXPECT_EQ(a.cancel, b.cancel);
        seed.next();
        worker.next();
    }
    EXPECT_EQ(one.fingerprint(), same.fingerprint());
    EXPECT_NE(one.fingerprint(), seed.fingerprint());
    EXPECT_NE(one.fingerprint(), worker.fingerprint());
}

TEST(Plan, StepsKeepWithinTheirFiles) {
    Planner planner(options(8), 1);
    for (int i = 0; i < 50'000; ++i) {
        const Plan plan = planner.next();
        EXPECT_GE(plan.length, 1u);
        EXPECT_LT(plan.slot, 3u);
        const bool common = plan.kind == Kind::read_common || plan.kind == Kind::write_common;
        EXPECT_LE(plan.offset + plan.length, common ? 64u << 10 : 3u << 19);
    }
}

TEST(Plan, EveryKindAndTheSizesThatMatterAreDrawn) {
    Planner planner(options(9), 1);
    std::set<Kind> kinds;
    std::set<std::uint64_t> lengths;
    int cancels = 0, disconnects = 0;
    for (int i = 0; i < 50'000; ++i) {
        const Plan plan = planner.next();
        kinds.insert(plan.kind);
        lengths.insert(plan.length);
        cancels += plan.cancel;
        disconnects += plan.disconnect;
    }
    EXPECT_EQ(kinds.size(), kKinds);
    for (const std::uint64_t length : {1u, 4088u, 4096u, 4104u, 65536u, 65537u, 1048573u, 1048576u})
        EXPECT_EQ(lengths.count(length), 1u) << length;
    EXPECT_GT(cancels, 300);
    EXPECT_GT(disconnects, 15);
}

TEST(Plan, TheFingerprintCoversAllThatIsDrawn) {
    const Plan plan;
    std::set<std::uint64_t> all{fingerprint_with(1, plan), fingerprint_with(2, plan)};
    const std::array<void (*)(Plan&), 11> changes{
        [](Plan& p) { p.step = 1; },      [](Plan& p) { p.kind = Kind::read; },
        [](Plan& p) { p.slot = 1; },      [](Plan& p) { p.offset = 1; },
        [](Plan& p) { p.length = 1; },    [](Plan& p) { p.skew = 1; },
        [](Plan& p) { p.variant = 1; },   [](Plan& p) { p.connection = 1; },
        [](Plan& p) { p.cancel = true; }, [](Plan& p) { p.disconnect = true; },
        [](Plan& p) { p.after_us = 1; }};
    for (const auto& change : changes) {
        Plan other = plan;
        change(other);
        all.insert(fingerprint_with(1, other));
    }
    EXPECT_EQ(all.size(), changes.size() + 2);
}

// A seed that somebody reports must draw the same elsewhere: with another compiler, in another
// build.
TEST(Plan, SeedsDrawTheSameEverywhere) {
    Planner planner(options(7), 2);
    for (int i = 0; i < 1000; ++i)
        planner.next();
    EXPECT_EQ(planner.fingerprint(), 11049751304775539659u);
}

}  // namespace
}  // namespace nfsrdma::stress
