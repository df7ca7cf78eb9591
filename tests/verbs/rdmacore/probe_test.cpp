#include "verbs/rdmacore/probe.hpp"

#include <cerrno>
#include <vector>

#include "tests/verbs/rdmacore/hw_world.hpp"
#include "verbs/rdmacore/find.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

TEST(Probe, QueuesAreAsLargeAsTheDeviceGrants) {
    std::vector<std::uint32_t> tried;
    auto granted = largest_granted({16383, 8000}, [&](const QueueSizes& sizes) {
        tried.push_back(sizes.send_wrs);
        return sizes.send_wrs > 5000 ? EINVAL : 0;
    });
    ASSERT_TRUE(granted);
    EXPECT_EQ(tried, (std::vector<std::uint32_t>{16383, 8191, 4095}));
    EXPECT_EQ(granted->sizes.send_wrs, 4095u);
    EXPECT_EQ(granted->sizes.recv_wrs, 2000u);
    EXPECT_EQ(granted->refusal, EINVAL);
}

TEST(Probe, WhatTheDeviceSaysIsTakenWhereItKeepsIt) {
    auto granted = largest_granted({16383, 8000}, [](const QueueSizes&) { return 0; });
    ASSERT_TRUE(granted);
    EXPECT_EQ(granted->sizes.send_wrs, 16383u);
    EXPECT_EQ(granted->sizes.recv_wrs, 8000u);
    EXPECT_EQ(granted->refusal, 0);
}

TEST(Probe, ADeviceThatGrantsNothingIsAskedABoundedNumberOfTimes) {
    std::uint32_t tries = 0;
    auto granted = largest_granted({1u << 20, 1}, [&](const QueueSizes& sizes) {
        ++tries;
        EXPECT_GE(sizes.recv_wrs, 1u);
        return ENOMEM;
    });
    ASSERT_FALSE(granted);
    EXPECT_EQ(granted.error().code, Errc::system);
    EXPECT_EQ(granted.error().sys, ENOMEM);
    EXPECT_EQ(tries, kTriesMax);
}

TEST(Probe, QueuesNeverShrinkToNothing) {
    const QueueSizes least = fewer({1, 1});
    EXPECT_EQ(least.send_wrs, 1u);
    EXPECT_EQ(least.recv_wrs, 1u);
}

class ProbeHw : public HwTest {
  protected:
    void SetUp() override {
        HwTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        auto opened = find_device(client_device->name());
        ASSERT_TRUE(opened) << to_string(opened.error());
        found = std::move(*opened);
        ASSERT_EQ(ibv_query_device(found.context.get(), &attr), 0);
    }
    Found found;
    ibv_device_attr attr{};
};

TEST_F(ProbeHw, FindsWhatTheDeviceKeeps) {
    auto probed = probe(*found.context, attr, Strategy::automatic);
    ASSERT_TRUE(probed) << to_string(probed.error());
    EXPECT_EQ(probed->strategy == Strategy::windows, claims_windows(attr));
    EXPECT_EQ(probed->window_error, 0);
    EXPECT_GE(probed->caps.max_send_wr, 100u);
    EXPECT_EQ(probed->caps.max_send_wr, client_device->caps().max_send_wr);
}

// The device of the test makes windows only if it says so; one that says so and does not is made of
// it by flags that lie.
TEST_F(ProbeHw, WindowsThatAreOnlySaidToBeThereAreNotUsed) {
    if (claims_windows(attr)) return;
    attr.device_cap_flags |= IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    attr.max_mw = 100;
    auto probed = probe(*found.context, attr, Strategy::automatic);
    ASSERT_TRUE(probed) << to_string(probed.error());
    EXPECT_EQ(probed->strategy, Strategy::register_each);
    EXPECT_NE(probed->window_error, 0);
    EXPECT_FALSE(probe(*found.context, attr, Strategy::windows));
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
