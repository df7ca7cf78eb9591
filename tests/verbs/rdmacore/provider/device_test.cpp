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
    EXPECT_EQ(late.error().code, Errc::closed);
    auto of_id = (*id)->create_qp(*pd, *cq, {});
    ASSERT_FALSE(of_id);
    EXPECT_EQ(of_id.error().code, Errc::closed);
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
