#include "tools/rpcrdma_doctor/machine.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/tools/rpcrdma_doctor/samples.hpp"

namespace nfsrdma::doctor {
namespace {

// This machine, whatever it has: each has a loopback interface.
TEST(DoctorMachine, LoopbackIsThere) {
    const Machine machine = look_at_machine();
    EXPECT_NE(machine.kernel, "");
    const auto loopback =
        std::find_if(machine.addresses.begin(), machine.addresses.end(),
                     [](const SoftAddress& entry) { return entry.address.is_loopback(); });
    ASSERT_NE(loopback, machine.addresses.end());
    EXPECT_EQ(loopback->error, "");
    EXPECT_GE(loopback->packet_bytes, 256u);
    EXPECT_GT(loopback->receive_window, 0u);
    EXPECT_GT(loopback->interface_mtu, 0u);
    EXPECT_EQ(loopback->rdma_device, "");
}

TEST(DoctorMachine, ADeviceIsFoundByItsGid) {
    std::vector<verbs::rdmacore::DeviceInfo> devices{testing::sample_device()};
    const SockAddr address = *SockAddr::parse("10.9.0.1", 0);
    EXPECT_EQ(device_with(devices, address, "eth9"), &devices.front());
    EXPECT_EQ(device_with(devices, *SockAddr::parse("10.9.0.3", 0), "v0"), nullptr);
    devices.front().ports.front().active = false;
    EXPECT_EQ(device_with(devices, address, "v0"), nullptr);
}

TEST(DoctorMachine, IwarpIsFoundByItsInterface) {
    std::vector<verbs::rdmacore::DeviceInfo> devices{testing::sample_device()};
    devices.front().transport = verbs::rdmacore::Transport::iwarp;
    devices.front().ports.front().gids = {{0, "fe80::1", "", "v0"}};
    const SockAddr address = *SockAddr::parse("10.9.0.1", 0);
    EXPECT_EQ(device_with(devices, address, "v0"), &devices.front());
    EXPECT_EQ(device_with(devices, address, "v1"), nullptr);
    devices.front().error = "cannot be opened";
    EXPECT_EQ(device_with(devices, address, "v0"), nullptr);
}

}  // namespace
}  // namespace nfsrdma::doctor
