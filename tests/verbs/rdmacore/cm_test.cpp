#include "verbs/rdmacore/cm.hpp"

#include <cerrno>

#include "tests/verbs/rdmacore/hw_world.hpp"
#include "verbs/rdmacore/device.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

TEST(CopyEvent, PrivateDataOutlivesTheEvent) {
    std::array<char, 4> data = {'a', 'b', 'c', 'd'};
    rdma_cm_event event{};
    event.event = RDMA_CM_EVENT_CONNECT_REQUEST;
    event.param.conn.private_data = data.data();
    event.param.conn.private_data_len = 4;
    event.param.conn.initiator_depth = 3;
    event.param.conn.responder_resources = 5;
    const RawEvent raw = copy_event(event);
    data.fill('x');
    ASSERT_EQ(raw.private_data().size(), 4u);
    EXPECT_EQ(raw.private_data()[3], std::byte{'d'});
    EXPECT_EQ(raw.initiator_depth, 3);
    EXPECT_EQ(raw.responder_resources, 5);
}

// The other events have no connection parameters: what stands there means nothing.
TEST(CopyEvent, ParametersOfConnectionEventsOnly) {
    std::array<char, 4> data{};
    rdma_cm_event event{};
    event.event = RDMA_CM_EVENT_ADDR_ERROR;
    event.status = -113;
    event.param.conn.private_data = data.data();
    event.param.conn.private_data_len = 255;
    const RawEvent raw = copy_event(event);
    EXPECT_TRUE(raw.private_data().empty());
    EXPECT_EQ(raw.status, -113);
}

class CmHw : public HwTest {
  protected:
    void SetUp() override {
        HwTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        make_ends();
    }
};

TEST_F(CmHw, PortZeroTakesAFreeOne) {
    listen();
    EXPECT_NE(listener->local().port(), 0);
    EXPECT_TRUE(listener->local().same_address(address));
}

TEST_F(CmHw, PortThatIsTakenIsRefused) {
    listen();
    const auto again = server_device->listen(listener->local(), *acceptor);
    ASSERT_FALSE(again);
    EXPECT_EQ(again.error().code, Errc::system);
    EXPECT_EQ(again.error().sys, EADDRINUSE);
}

TEST_F(CmHw, AddressOfNobodyIsRefused) {
    const auto made = server_device->listen(*SockAddr::parse("192.0.2.9:20049", 0), *acceptor);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::system);
    EXPECT_EQ(server_device->listen(SockAddr{}, *acceptor).error().code, Errc::invalid_argument);
}

TEST_F(CmHw, AnyAddressOfBothFamiliesAtOnePort) {
    listen();
    const std::uint16_t port = listener->local().port();
    listener.reset();
    auto v4 = server_device->listen(*SockAddr::parse("0.0.0.0", port), *acceptor);
    ASSERT_TRUE(v4) << to_string(v4.error());
    auto v6 = server_device->listen(*SockAddr::parse("::", port), *acceptor);
    ASSERT_TRUE(v6) << to_string(v6.error());
    ASSERT_TRUE(client->connect(address.with_port(port)));
    ASSERT_TRUE(run_until(*loop, [&] { return client->established() && server->established(); }));
    EXPECT_EQ(acceptor->requests, 1u);
}

// The link-local address of the device's interface.
TEST_F(CmHw, ConnectsOverIpv6) {
    SockAddr v6;
    const std::vector<DeviceInfo> devices = list_devices();
    for (const PortInfo& port : devices.front().ports) {
        for (const GidInfo& gid : port.gids) {
            auto parsed = SockAddr::parse(gid.address + "%" + gid.netdev, 0);
            if (gid.address.rfind("fe80:", 0) == 0 && parsed) v6 = *parsed;
        }
    }
    if (!v6.is_v6()) GTEST_SKIP() << "needs qemu: the device has no IPv6 address";
    auto made = server_device->listen(v6, *acceptor);
    ASSERT_TRUE(made) << v6.to_string() << ": " << to_string(made.error());
    listener = std::move(*made);
    EXPECT_TRUE(listener->local().is_v6());
    ASSERT_TRUE(client->connect(v6.with_port(listener->local().port())));
    ASSERT_TRUE(run_until(*loop, [&] { return client->established() && server->established(); }))
        << v6.to_string();
    EXPECT_TRUE(server->id->peer().is_v6());
}

TEST_F(CmHw, ListensAgainAfterItsAddressChanged) {
    listen();
    const SockAddr before = listener->local();
    RawEvent event;
    event.type = RDMA_CM_EVENT_ADDR_CHANGE;
    static_cast<RdmaListener&>(*listener).on_event(event);
    EXPECT_TRUE(listener->local() == before);
    ASSERT_TRUE(client->connect(before));
    ASSERT_TRUE(run_until(*loop, [&] { return client->established() && server->established(); }));
}

TEST_F(CmHw, ListenerThatDiesLeavesItsConnections) {
    listen();
    ASSERT_TRUE(client->connect(listener->local()));
    ASSERT_TRUE(run_until(*loop, [&] { return client->established() && server->established(); }));
    listener.reset();
    run_for(*loop, 100 * kNsPerMs);
    EXPECT_FALSE(client->over());
    EXPECT_FALSE(server->over());
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
