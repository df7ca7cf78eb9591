#include "verbs/rdmacore/cq.hpp"

#include <cerrno>
#include <cstring>

#include "tests/verbs/rdmacore/provider/provider_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

using CqOfAnyDevice = ProviderTest;

// Those who ask for a queue count their work requests; the last one of their queue pair is ours.
TEST_F(CqOfAnyDevice, IsMadeWithRoomForTheLastWorkRequest) {
    provider.can_resize = false;
    make_ends();
    EXPECT_EQ(provider.cqes, std::vector<int>{128 + 1});
    EXPECT_EQ(provider.resizes, 0u);
}

TEST_F(CqOfAnyDevice, GrowsOnlyBeyondWhatTheDeviceGave) {
    provider.cqe_unit = 256;
    cq = make_cq(100);
    EXPECT_EQ(cq->entries(), 256u);
    auto one = make_qp(*cq);
    ASSERT_TRUE(one);
    EXPECT_EQ(provider.resizes, 0u);
    auto two = make_qp(*cq);
    ASSERT_TRUE(two);
    EXPECT_EQ(provider.resizes, 1u);
    EXPECT_EQ(provider.cqes.back(), 2 * (64 + 64 + 1));
    EXPECT_EQ(cq->entries(), 512u);
    auto three = make_qp(*cq);
    ASSERT_TRUE(three);
    EXPECT_EQ(provider.resizes, 1u);
}

TEST_F(CqOfAnyDevice, ThatCannotGrowSaysSo) {
    provider.can_resize = false;
    cq = make_cq(16);
    auto made = make_qp(*cq);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::unsupported);
    EXPECT_NE(std::strstr(made.error().what, "cannot grow"), nullptr) << made.error().what;
    // Nothing is held of it.
    auto small = make_qp(*cq, {8, 8, 1, 1});
    EXPECT_TRUE(small) << to_string(small.error());
}

TEST_F(CqOfAnyDevice, RoomStaysWithinTheDevicesLimit) {
    provider.attr.max_cqe = 1000;
    open();
    EXPECT_EQ(make_cq(1000)->entries(), 1000u);
    EXPECT_EQ(provider.cqes.back(), 1000);
    EXPECT_EQ(make_cq(990)->entries(), 991u);
    EXPECT_EQ(make_cq(999)->entries(), 1000u);
    EXPECT_FALSE(RdmaCq::create(*device, 1001));
    cq = make_cq(1000);
    auto one = make_qp(*cq, {499, 500, 1, 1});
    ASSERT_TRUE(one) << to_string(one.error());
    auto two = make_qp(*cq, {1, 1, 1, 1});
    ASSERT_FALSE(two);
    EXPECT_EQ(two.error().code, Errc::too_big);
}

// What came before the request for an event makes none.
TEST_F(CqOfAnyDevice, LooksOnceMoreAfterItAskedForAnEvent) {
    make_ends();
    ASSERT_TRUE(post("s"));
    provider.end_send(fake());
    EXPECT_FALSE(cq->arm());
    EXPECT_EQ(sends[0].count, 0u) << "arm() runs nothing";
    EXPECT_EQ(cq->poll(), 1u);
    EXPECT_TRUE(cq->arm());
    EXPECT_EQ(provider.notifies, 1u);
    cq->on_event();
    EXPECT_FALSE(cq->arm());
    EXPECT_EQ(provider.notifies, 2u);
}

TEST_F(CqOfAnyDevice, ThatCannotBeArmedEndsItsConnectionsInsteadOfSleepingForEver) {
    make_ends();
    ASSERT_TRUE(post("s"));
    provider.notify_error = EIO;
    EXPECT_FALSE(cq->arm());
    EXPECT_TRUE(qp->in_error());
    poll();
    EXPECT_TRUE(sends[0].flushed());
    EXPECT_TRUE(cq->arm()) << "nothing is left to be looked for";
}

TEST_F(CqOfAnyDevice, InErrorEndsItsOwnConnectionsOnly) {
    make_ends();
    auto other_cq = make_cq(128);
    auto other = std::move(*make_qp(*other_cq));
    Owner other_owner;
    other->set_owner(&other_owner);
    other->set_ready();
    ASSERT_TRUE(post("s."));
    EXPECT_FALSE(cq->failed());
    ibv_async_event event{};
    event.event_type = IBV_EVENT_CQ_ERR;
    event.element.cq = &cq->handle();
    provider.raise(event);
    run();
    EXPECT_TRUE(qp->in_error());
    EXPECT_EQ(owner.fatal, 1u);
    EXPECT_FALSE(device->gone());
    EXPECT_FALSE(other->in_error());
    EXPECT_TRUE(cq->failed());
    EXPECT_FALSE(other_cq->failed());
    EXPECT_EQ(other_owner.fatal, 0u);
    poll();
    EXPECT_TRUE(sends[0].flushed());
    EXPECT_TRUE(sends[1].flushed());
    ASSERT_TRUE(post("s", *other));
    provider.end_send(fake(1));
    poll(*other_cq);
    EXPECT_EQ(sends[2].count, 1u);
    EXPECT_EQ(sends[2].status, WcStatus::success);
    auto late = make_qp(*cq, {1, 1, 1, 1});
    ASSERT_FALSE(late);
    EXPECT_EQ(late.error().code, Errc::reconnect);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
