// Connections over real sockets: one process here; the state machine is held in virtual time by
// cm_test.cpp.
#include "verbs/softroce/cm_id.hpp"

#include <gtest/gtest.h>

#include "tests/verbs/softroce/cm_world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using test::End;
using test::run_until;
using test::Server;

class UdpWorld {
  public:
    UdpWorld() : loop_(std::move(*Loop::create({}))) {}
    Loop& loop() { return *loop_; }
    // A device at a free UDP port of `address`, which connects to devices at `peer_port`.
    std::unique_ptr<SoftDevice> make_device(const SockAddr& address,
                                            std::uint16_t peer_port = kRoceV2Port) {
        auto wire = create_udp_wire({.bind = address, .receive_buffer_bytes = 1u << 20});
        EXPECT_TRUE(wire) << to_string(wire.error());
        SoftOptions options;
        options.peer_port = peer_port;
        auto device = SoftDevice::create(*loop_, std::move(*wire), options);
        EXPECT_TRUE(device);
        return std::move(*device);
    }

  private:
    std::unique_ptr<Loop> loop_;
};

void connect_and_disconnect(Loop& loop, Device& from, Server& server) {
    End client(from);
    ASSERT_TRUE(client.connect(server.at()));
    ASSERT_TRUE(run_until(loop, [&] {
        return client.established() && server.ends.size() == 1 && server.ends[0]->established();
    }));
    client.id->disconnect();
    ASSERT_TRUE(run_until(loop, [&] { return client.over() && server.ends[0]->over(); }));
    server.ends.clear();
}

TEST(B38, SameHostSameAddressOverSockets) {
    in6_addr any_port_v6 = in6addr_loopback;
    for (const SockAddr& host : {SockAddr::v4(0x7F000001, 0), SockAddr::v6(any_port_v6, 0)}) {
        UdpWorld world;
        auto passive = world.make_device(host);
        auto active = world.make_device(host, passive->wire().port());
        Server server(*passive, host.with_port(7174));
        connect_and_disconnect(world.loop(), *active, server);
        EXPECT_EQ(passive->wire().counters().rx_bad_icrc, 0u);
    }
}

TEST(B38, ADeviceConnectsToItselfOverSockets) {
    // Its own port is where it connects to.
    UdpWorld world;
    const SockAddr host = SockAddr::v4(0x7F2B0101, 0);
    std::uint16_t port = 0;
    { port = world.make_device(host)->wire().port(); }
    auto device = world.make_device(host.with_port(port), port);
    Server server(*device, host.with_port(7174));
    connect_and_disconnect(world.loop(), *device, server);
}

TEST(B32, ClosedPortAndDeadAddressOverSockets) {
    UdpWorld world;
    const SockAddr here = SockAddr::v4(0x7F2B0102, 0), there = SockAddr::v4(0x7F2B0103, 0);
    auto passive = world.make_device(there);
    auto active = world.make_device(here, passive->wire().port());
    End refused(*active);
    ASSERT_TRUE(refused.connect(there.with_port(1)));
    ASSERT_TRUE(run_until(
        world.loop(), [&] { return refused.over(); }, kNsPerSec));
    EXPECT_EQ(refused.events, std::vector{CmEventType::rejected});
    End dead(*active);
    ConnParams params;
    params.timeout_ns = 100 * kNsPerMs;
    ASSERT_TRUE(dead.connect(SockAddr::v4(0x7F2B0104, 7174), params));
    ASSERT_TRUE(run_until(
        world.loop(), [&] { return dead.over(); }, kNsPerSec));
    EXPECT_EQ(dead.events, std::vector{CmEventType::unreachable});
    End other_family(*active);
    auto result = other_family.connect(SockAddr::v6(in6addr_loopback, 7174));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::system);
}

TEST(B48, FiveThousandConnectionsOverSockets) {
    UdpWorld world;
    const SockAddr here = SockAddr::v4(0x7F2B0105, 0), there = SockAddr::v4(0x7F2B0106, 0);
    auto passive = world.make_device(there);
    auto active = world.make_device(here, passive->wire().port());
    Server server(*passive, there.with_port(7174));
    constexpr int kCycles = 5000;
    for (int i = 0; i < kCycles; ++i) {
        connect_and_disconnect(world.loop(), *active, server);
        if (HasFatalFailure()) FAIL() << "connection " << i;
    }
    EXPECT_EQ(active->cm().ids() + passive->cm().ids(), 0u);
    EXPECT_EQ(server.requests, std::uint64_t{kCycles});
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
