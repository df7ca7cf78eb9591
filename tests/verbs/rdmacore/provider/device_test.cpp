#include "verbs/rdmacore/device.hpp"

#include <cerrno>

#include "tests/verbs/rdmacore/provider/provider_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

using DeviceOfAnyKind = ProviderTest;

struct NobodyTold final : CmHandler {
    void on_cm_event(CmId&, const CmEvent&) noexcept override {}
};

// A queue pair is destroyed in the middle of its own event: a real device would wait for the
// acknowledgement of that event.
TEST_F(DeviceOfAnyKind, EventIsAcknowledgedBeforeItsQueuePairIsDestroyed) {
    make_ends();
    ASSERT_TRUE(post("s"));
    provider.modify_error = EIO;  // it cannot even be moved to error: it is destroyed at once
    ibv_async_event event{};
    event.event_type = IBV_EVENT_QP_FATAL;
    event.element.qp = &fake();
    provider.raise(event);
    run();
    EXPECT_EQ(provider.qps_destroyed, 1u);
    EXPECT_EQ(provider.destroyed_too_early, 0u);
    EXPECT_EQ(owner.fatal, 1u);
    poll();
    EXPECT_TRUE(sends[0].flushed());
}

// Reads of the events of a device that is gone fail at once, for ever.
TEST_F(DeviceOfAnyKind, WhoseEventsEndIsGoneAndIsNotWatchedAnyMore) {
    make_ends();
    ASSERT_TRUE(post("s"));
    provider.remove();
    run();
    EXPECT_TRUE(device->gone());
    EXPECT_TRUE(qp->in_error());
    EXPECT_EQ(owner.fatal, 1u);
    poll();
    EXPECT_TRUE(sends[0].flushed());
    const std::uint32_t reads = provider.async_reads + provider.comp_reads;
    EXPECT_LE(reads, 2u);
    run(20 * kNsPerMs);
    EXPECT_EQ(provider.async_reads + provider.comp_reads, reads);
}

TEST_F(DeviceOfAnyKind, FatalEventStopsTheWatchOfItsDescriptors) {
    make_ends();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_DEVICE_FATAL;
    provider.raise(event);
    run();
    EXPECT_TRUE(device->gone());
    const std::uint32_t reads = provider.async_reads;
    provider.raise(event);
    run();
    EXPECT_EQ(provider.async_reads, reads);
}

TEST_F(DeviceOfAnyKind, NoEventForNowIsNoEnd) {
    make_ends();
    run();
    ibv_async_event event{};
    event.event_type = IBV_EVENT_PORT_ACTIVE;
    provider.raise(event);
    run();
    EXPECT_GE(provider.async_reads, 2u);
    EXPECT_FALSE(device->gone());
}

TEST_F(DeviceOfAnyKind, ThatIsGoneMakesNoQueuePairs) {
    make_ends();
    NobodyTold handler;
    auto id = device->create_id(handler);
    ASSERT_TRUE(id) << to_string(id.error());
    device->on_gone();
    auto late = make_qp(*cq);
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().sys, ENODEV);
    auto of_id = (*id)->create_qp(*pd, *cq, {});
    ASSERT_FALSE(of_id);
    EXPECT_EQ(of_id.error().sys, ENODEV);
    EXPECT_NE(of_id.error().code, Errc::closed) << "that is what we do ourselves";
}

// What a container's limit of locked memory does: it must not look like short queues of the device.
TEST_F(DeviceOfAnyKind, QueuesThatAreShortForWantOfMemoryAreExplained) {
    const std::uint32_t full = device->caps().max_send_wr;
    for (const int error : {ENOMEM, EPERM, EINVAL}) {
        provider.qp_error = error;
        provider.qp_wrs_max = full / 3;
        ::testing::internal::CaptureStderr();
        open();
        const std::string said = ::testing::internal::GetCapturedStderr();
        EXPECT_LE(device->caps().max_send_wr, full / 3);
        EXPECT_GT(device->caps().max_send_wr, 0u);
        EXPECT_EQ(said.find("cannot make longer ones") != std::string::npos, error != EINVAL)
            << error << ": " << said;
    }
}

TEST_F(DeviceOfAnyKind, WithoutAnyQueuePairForWantOfMemoryIsExplained) {
    device.reset();
    provider.qp_error = ENOMEM;
    ::testing::internal::CaptureStderr();
    auto opened = RdmaDevice::open(*loop, {});
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_FALSE(opened);
    EXPECT_EQ(opened.error().sys, ENOMEM);
    EXPECT_NE(said.find("cannot make a queue pair: "), std::string::npos) << said;
}

TEST_F(DeviceOfAnyKind, QueuePairThatIsRefusedForWantOfMemoryIsExplained) {
    make_ends();
    provider.qp_error = ENOMEM;
    ::testing::internal::CaptureStderr();
    auto late = make_qp(*cq, {8, 9, 1, 1});
    const std::string said = ::testing::internal::GetCapturedStderr();
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().sys, ENOMEM);
    EXPECT_NE(said.find("a queue pair of 8 and 9 places"), std::string::npos) << said;
}

TEST_F(DeviceOfAnyKind, ThatIsGoneLetsTheLoopSleep) {
    make_ends();
    ASSERT_TRUE(post("s"));
    device->on_gone();
    EXPECT_FALSE(cq->arm()) << "there is something to be flushed";
    poll();
    EXPECT_TRUE(cq->arm());
    EXPECT_EQ(provider.notifies, 0u);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
