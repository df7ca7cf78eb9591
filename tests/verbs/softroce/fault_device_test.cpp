#include "verbs/softroce/fault_device.hpp"

#include "tests/verbs/softroce/cm_world.hpp"
#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

WorldOptions with(const FaultSpec& faults) {
    WorldOptions options;
    options.soft.faults = faults;
    return options;
}

TEST(DeviceFaults, NoneAreAskedForAndNoneAreMade) {
    World world;
    EXPECT_EQ(world.a.device->faults(), nullptr);
    EXPECT_EQ(fault_counters(*world.a.device).all(), 0u);
}

// Everything that a bad link does is repaired by the queue pairs.
TEST(DeviceFaults, ABadLinkIsRepaired) {
    FaultSpec spec;
    spec.link.loss_ppm = spec.link.dup_ppm = spec.link.reorder_ppm = spec.link.corrupt_ppm = 20'000;
    World world(with(spec));
    world.a.fill(1);
    constexpr std::size_t kSize = 256 * 1024;
    const auto window = world.b.fast(1 << 20, kSize, Access::remote_write, 0x7000'0000'0000);
    ASSERT_TRUE(world.b.post_local(SendOp::reg_mr, 1, *window, window->rkey()));
    ASSERT_TRUE(world.a.post(SendOp::rdma_write, 2, {world.a.sge(0, kSize)}, 0x7000'0000'0000,
                             window->rkey()));
    ASSERT_TRUE(world.run_until_logged(world.a, 1));
    EXPECT_EQ(world.a.log.entries[0].wc.status, WcStatus::success);
    EXPECT_EQ(std::memcmp(world.a.memory, world.b.memory + (1 << 20), kSize), 0);
    const FaultCounters counters = fault_counters(*world.a.device);
    EXPECT_GT(counters.lost, 0u);
    EXPECT_GT(counters.duplicated, 0u);
    EXPECT_GT(counters.reordered, 0u);
    EXPECT_GT(counters.corrupted, 0u);
    world.stop();
}

TEST(DeviceFaults, WithoutReceivesThePeerWaitsAndLosesNothing) {
    FaultSpec spec;
    spec.rnr = {4 * kNsPerMs, 2 * kNsPerMs};
    World world(with(spec));
    for (std::uint64_t i = 0; i < 50; ++i) {
        ASSERT_TRUE(world.b.recv(i, {world.b.sge(0, 64)}));
        ASSERT_TRUE(world.a.post(SendOp::send, i, {world.a.sge(0, 64)}));
        world.run_for(kNsPerMs);
    }
    ASSERT_TRUE(world.run_until_logged(world.b, 50));
    ASSERT_TRUE(world.run_until_logged(world.a, 50));
    for (const WcStatus status : world.a.log.statuses())
        EXPECT_EQ(status, WcStatus::success);
    EXPECT_GT(fault_counters(*world.b.device).rnr_refused, 0u);
    EXPECT_GT(world.a.device->counters().rnr_naks_received, 0u);
    world.stop();
}

TEST(DeviceFaults, AKilledQueuePairFlushesAndTellsItsOwnerOnce) {
    FaultSpec spec;
    spec.qp_kill_ns = 100 * kNsPerMs;
    World world(with(spec));
    ASSERT_TRUE(world.a.recv(1, {world.a.sge(0, 64)}));
    ASSERT_TRUE(world.run_until([&] { return world.a.owner.fatals + world.b.owner.fatals == 2; },
                                10 * kNsPerSec));
    ASSERT_TRUE(world.run_until_logged(world.a, 1));
    EXPECT_EQ(world.a.log.entries[0].wc.status, WcStatus::flushed);
    world.run_for(kNsPerSec);
    EXPECT_EQ(world.a.owner.fatals, 1) << "nothing is left to kill";
    EXPECT_EQ(fault_counters(*world.a.device).qps_killed, 1u);
}

TEST(DeviceFaults, NothingIsKilledWhileKillsAreHeld) {
    FaultSpec spec;
    spec.qp_kill_ns = 100 * kNsPerMs;
    World world(with(spec));
    hold_kills(*world.a.device, true);
    world.run_for(10 * kNsPerSec);
    EXPECT_EQ(fault_counters(*world.a.device).qps_killed, 0u);
    hold_kills(*world.a.device, false);
    ASSERT_TRUE(world.run_until([&] { return world.a.owner.fatals == 1; }, 10 * kNsPerSec));
}

// Connection management with faults, over devices whose MADs meet them.
class DeviceCmFaults : public ::testing::Test {
  protected:
    void make(const FaultSpec& spec) {
        SoftOptions options;
        options.seed = 99;
        options.faults = spec;
        a = *SoftDevice::create(world.loop(), world.net.add_host(test::kHostA), options);
        b = world.make_device(test::kHostB);
        server = std::make_unique<test::Server>(*b, test::kHostB.with_port(test::kPort));
        client = std::make_unique<test::End>(*a);
    }
    bool settle() {
        return test::run_until(
            world.loop(), [&] { return !client->events.empty(); }, 300 * kNsPerSec);
    }

    test::SimWorld world;
    std::unique_ptr<SoftDevice> a, b;
    std::unique_ptr<test::Server> server;
    std::unique_ptr<test::End> client;
};

TEST_F(DeviceCmFaults, LostMadsAreRepeated) {
    FaultSpec spec;
    spec.cm_drop_ppm = 400'000;
    make(spec);
    ASSERT_TRUE(client->connect(server->at(), {}));
    ASSERT_TRUE(settle());
    EXPECT_TRUE(client->established());
    EXPECT_GT(fault_counters(*a).cm_dropped, 0u);
}

TEST_F(DeviceCmFaults, NoMadAtAllIsATimeout) {
    FaultSpec spec;
    spec.cm_drop_ppm = 1'000'000;
    make(spec);
    ASSERT_TRUE(client->connect(server->at(), {}));
    ASSERT_TRUE(settle());
    EXPECT_EQ(client->events[0], CmEventType::unreachable);
}

TEST_F(DeviceCmFaults, ARejectedRequestIsRejectedAndTheServerNeverSeesIt) {
    FaultSpec spec;
    spec.cm_reject_ppm = 1'000'000;
    make(spec);
    ASSERT_TRUE(client->connect(server->at(), {}));
    ASSERT_TRUE(settle());
    EXPECT_EQ(client->events[0], CmEventType::rejected);
    EXPECT_EQ(client->reason, static_cast<std::uint16_t>(RejReason::no_resources));
    EXPECT_EQ(server->requests, 0u);
    EXPECT_EQ(fault_counters(*a).cm_rejected, 1u);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
