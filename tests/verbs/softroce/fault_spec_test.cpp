#include "verbs/softroce/fault_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/clock.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

FaultSpec parsed(std::string_view text) {
    std::string why;
    const auto spec = parse_faults(text, why);
    EXPECT_TRUE(spec) << why;
    return spec.value_or(FaultSpec{});
}

std::string refusal(std::string_view text) {
    std::string why;
    EXPECT_FALSE(parse_faults(text, why)) << text;
    return why;
}

TEST(FaultSpec, NothingIsNoFault) {
    const FaultSpec spec = parsed("");
    EXPECT_FALSE(spec.on_device());
    EXPECT_FALSE(spec.on_server());
}

TEST(FaultSpec, EveryFaultIsRead) {
    const FaultSpec spec = parsed(
        "loss=1%,dup=0.5%,reorder=500ppm,corrupt=100%,delay=1ms-2.5ms,late=20us,rate=1000000,"
        "cmdrop=2%,cmreject=3%,rnr=1s/20ms,qpkill=3s,kill=4s,stop=5s/500ms");
    EXPECT_EQ(spec.link.loss_ppm, 10'000u);
    EXPECT_EQ(spec.link.dup_ppm, 5'000u);
    EXPECT_EQ(spec.link.reorder_ppm, 500u);
    EXPECT_EQ(spec.link.corrupt_ppm, 1'000'000u);
    EXPECT_EQ(spec.link.delay_ns_min, kNsPerMs);
    EXPECT_EQ(spec.link.delay_ns_max, 2'500 * kNsPerUs);
    EXPECT_EQ(spec.link.reorder_ns, 20 * kNsPerUs);
    EXPECT_EQ(spec.link.bytes_per_sec, 1'000'000u);
    EXPECT_EQ(spec.cm_drop_ppm, 20'000u);
    EXPECT_EQ(spec.cm_reject_ppm, 30'000u);
    EXPECT_EQ(spec.rnr.every_ns, kNsPerSec);
    EXPECT_EQ(spec.rnr.for_ns, 20 * kNsPerMs);
    EXPECT_EQ(spec.qp_kill_ns, 3 * kNsPerSec);
    EXPECT_EQ(spec.server_kill_ns, 4 * kNsPerSec);
    EXPECT_EQ(spec.server_stop.for_ns, 500 * kNsPerMs);
    EXPECT_TRUE(spec.on_device());
    EXPECT_TRUE(spec.on_server());
}

TEST(FaultSpec, OneDelayIsTheSameForAll) {
    const FaultSpec spec = parsed("delay=2ms");
    EXPECT_EQ(spec.link.delay_ns_min, spec.link.delay_ns_max);
    EXPECT_EQ(spec.link.delay_ns_max, 2 * kNsPerMs);
}

TEST(FaultSpec, ErrorsNameThePartAndWhatIsAllowed) {
    EXPECT_THAT(refusal("loss=1%,lose=2%"), testing::HasSubstr("no such fault: 'lose'"));
    EXPECT_THAT(refusal("lose=2%"), testing::HasSubstr("reorder=P"));
    EXPECT_EQ(refusal("loss=1"), "'loss=1': loss= wants a chance such as 1%, 0.1% or 500ppm");
    EXPECT_EQ(refusal("dup=101%"), "'dup=101%': dup= wants a chance such as 1%, 0.1% or 500ppm");
    EXPECT_THAT(refusal("delay=2"), testing::HasSubstr("'delay=2'"));
    EXPECT_THAT(refusal("delay=3ms-2ms"), testing::HasSubstr("1ms-3ms"));
    EXPECT_THAT(refusal("rnr=1s"), testing::HasSubstr("1s/20ms"));
    EXPECT_THAT(refusal("rnr=1s/2s"), testing::HasSubstr("1s/20ms"));
    EXPECT_THAT(refusal("qpkill"), testing::HasSubstr("qpkill= wants a time"));
    EXPECT_THAT(refusal("qpkill=0s"), testing::HasSubstr("qpkill= wants a time"));
    EXPECT_THAT(refusal("rate=0"), testing::HasSubstr("bytes a second"));
    EXPECT_THAT(refusal("=1%"), testing::HasSubstr("no such fault: ''"));
    EXPECT_THAT(refusal("loss=.%"), testing::HasSubstr("loss= wants"));
    EXPECT_THAT(refusal("loss=1.2.3%"), testing::HasSubstr("loss= wants"));
    EXPECT_THAT(refusal("kill=99999999999999999999s"), testing::HasSubstr("kill= wants"));
}

TEST(FaultDice, EqualSeedsDrawTheSame) {
    const LinkFaults faults{.loss_ppm = 300'000,
                            .dup_ppm = 300'000,
                            .reorder_ppm = 300'000,
                            .corrupt_ppm = 300'000,
                            .delay_ns_min = 1,
                            .delay_ns_max = 1'000};
    FaultDice a(7), b(7), c(8);
    bool differs = false;
    for (int i = 0; i < 1000; ++i) {
        const PacketFate x = a.draw(faults), y = b.draw(faults), z = c.draw(faults);
        ASSERT_EQ(x.lost, y.lost);
        ASSERT_EQ(x.delay_ns, y.delay_ns);
        ASSERT_EQ(x.late, y.late);
        ASSERT_EQ(x.corrupt_draw, y.corrupt_draw);
        differs = differs || x.lost != z.lost;
    }
    EXPECT_TRUE(differs);
}

TEST(FaultDice, ChancesAreWhatWasAskedFor) {
    const LinkFaults faults{
        .loss_ppm = 10'000, .dup_ppm = 20'000, .reorder_ppm = 30'000, .corrupt_ppm = 40'000};
    FaultDice dice(1);
    int lost = 0, duplicated = 0, late = 0, corrupted = 0;
    for (int i = 0; i < 100'000; ++i) {
        const PacketFate fate = dice.draw(faults);
        lost += fate.lost;
        duplicated += fate.duplicated;
        late += fate.late;
        corrupted += fate.corrupted;
    }
    EXPECT_NEAR(lost, 1000, 200);
    EXPECT_NEAR(duplicated, 2000, 300);
    EXPECT_NEAR(late, 3000, 400);
    EXPECT_NEAR(corrupted, 4000, 500);
}

TEST(FaultDice, SpellsComeAboutAsOftenAsAskedFor) {
    FaultDice dice(1);
    for (int i = 0; i < 1000; ++i) {
        const std::uint64_t at = dice.after(1'000, 100);
        ASSERT_GE(at, 1'050u);
        ASSERT_LE(at, 1'150u);
    }
    EXPECT_EQ(dice.after(1'000, 0), UINT64_MAX);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
