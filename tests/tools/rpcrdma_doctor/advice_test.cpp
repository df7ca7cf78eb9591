#include "tools/rpcrdma_doctor/advice.hpp"

#include <cerrno>

#include <gtest/gtest.h>

#include "tests/tools/rpcrdma_doctor/samples.hpp"

namespace nfsrdma::doctor {
namespace {

using testing::level_of;
using testing::sample_machine;
using testing::sample_peer;

TEST(DoctorAdvice, AMachineThatIsWell) {
    const auto findings = judge(sample_machine(), "");
    EXPECT_EQ(level_of(findings, "rxe0 can be used"), "ok");
    EXPECT_EQ(level_of(findings, "RLIMIT_MEMLOCK"), "ok");
    EXPECT_EQ(level_of(findings, "softroce can be used"), "ok");
    EXPECT_EQ(level_of(findings, "--device rdmacore:rxe0"), "note");  // port 4791 is the kernel's
    EXPECT_FALSE(any_failure(findings));
}

TEST(DoctorAdvice, NoDeviceIsNoFailure) {
    Machine machine = sample_machine();
    machine.devices.clear();
    machine.kernel_devices.clear();
    EXPECT_EQ(level_of(judge(machine, ""), "modprobe rdma_rxe"), "note");
    machine.kernel_devices = {"mlx5_0"};
    EXPECT_EQ(level_of(judge(machine, ""), "modprobe ib_uverbs"), "warning");
    machine.built_with_rdmacore = false;
    EXPECT_EQ(level_of(judge(machine, ""), "built without rdma-core"), "note");
    EXPECT_FALSE(any_failure(judge(machine, "")));
}

TEST(DoctorAdvice, WhatIsWrongWithADevice) {
    Machine machine = sample_machine();
    auto& device = machine.devices.front();
    device.strategy = verbs::rdmacore::Strategy::register_each;
    EXPECT_EQ(level_of(judge(machine, ""), "no memory windows"), "warning");
    device.ports.front().gids.clear();
    EXPECT_EQ(level_of(judge(machine, ""), "no GID"), "warning");
    device.ports.front().active = false;
    EXPECT_EQ(level_of(judge(machine, ""), "not active"), "warning");
    EXPECT_FALSE(any_failure(judge(machine, "")));
    EXPECT_TRUE(any_failure(judge(machine, "rxe0")));  // it alone was asked for
    device.error = "permission denied";
    EXPECT_EQ(level_of(judge(machine, "rxe0"), "/dev/infiniband"), "warning");
    EXPECT_TRUE(any_failure(judge(machine, "rxe0")));
    EXPECT_FALSE(any_failure(judge(machine, "softroce")));
}

TEST(DoctorAdvice, DevicesWithoutReliableConnectionsAreLeftAloneAndSaidWhy) {
    Machine machine = sample_machine();
    auto& device = machine.devices.front();
    device.reliable = false;
    device.error = "the device has no reliable connections";
    EXPECT_EQ(level_of(judge(machine, ""), "rxe0 is left alone"), "note");
    EXPECT_EQ(level_of(judge(machine, ""), "/dev/infiniband"), "") << "no matter of permissions";
    EXPECT_FALSE(any_failure(judge(machine, "")));
    EXPECT_TRUE(any_failure(judge(machine, "rxe0")));  // it alone was asked for
}

TEST(DoctorAdvice, WindowsThatAreOnlySaidToBeThere) {
    Machine machine = sample_machine();
    auto& device = machine.devices.front();
    device.strategy = verbs::rdmacore::Strategy::register_each;
    device.windows_2b = false;
    device.window_error = EOPNOTSUPP;
    EXPECT_EQ(level_of(judge(machine, ""), "but makes none (Operation not supported)"), "warning");
    EXPECT_EQ(level_of(judge(machine, ""), "has no memory windows"), "");
}

TEST(DoctorAdvice, MemoryThatMayNotBeLocked) {
    Machine machine = sample_machine();
    machine.memlock.soft = 64 << 10;
    EXPECT_EQ(level_of(judge(machine, ""), "ulimit -l"), "warning");
    EXPECT_EQ(level_of(judge(machine, ""), ": both would fail"), "warning");
    machine.memlock.soft = 5 << 20;  // a client's 4 MiB, not a server's 7
    EXPECT_EQ(level_of(judge(machine, ""), ": nfsrdmad would fail"), "warning");
    machine.memlock.soft = 7 << 20;
    EXPECT_EQ(level_of(judge(machine, ""), "RLIMIT_MEMLOCK is 7.0 MiB"), "ok");
    machine.memlock.exempt = true;
    EXPECT_EQ(level_of(judge(machine, ""), "without a limit"), "ok");
    machine.devices.clear();
    machine.memlock.exempt = false;
    EXPECT_EQ(level_of(judge(machine, ""), "MEMLOCK"), "");  // softroce locks none
}

TEST(DoctorAdvice, SoftroceNeedsAnAddressAndBuffers) {
    Machine machine = sample_machine();
    machine.rmem_max = 212992;
    EXPECT_EQ(level_of(judge(machine, "softroce"), "sysctl"), "warning");
    machine.addresses.front().error = "no";
    EXPECT_TRUE(any_failure(judge(machine, "softroce")));
}

TEST(DoctorAdvice, APeerThatIsWell) {
    const auto findings = judge(sample_peer());
    EXPECT_EQ(level_of(findings, "4096 bytes go inline"), "ok");
    EXPECT_EQ(level_of(findings, "over TCP, port 20048"), "ok");
    EXPECT_FALSE(any_failure(findings));
}

TEST(DoctorAdvice, WhatIsWrongWithAPeer) {
    Peer peer = sample_peer();
    peer.mount = MountWay::none;
    EXPECT_EQ(level_of(judge(peer), "--mountport"), "warning");
    peer.has_private_data = false;
    EXPECT_EQ(level_of(judge(peer), "RFC 8797"), "warning");
    peer.null = nfs::client::Outcome::failed(Error{Errc::timed_out, 0, ""});
    EXPECT_EQ(level_of(judge(peer), "NFS version 3 does not answer"), "failure");
    peer.connected = Error{Errc::refused, 0, "nobody listens at that port"};
    peer.reject_reason = 8;
    EXPECT_EQ(level_of(judge(peer), "rpc.nfsd --rdma"), "failure");
    peer.connected = Error{Errc::timed_out, 0, "no answer"};
    EXPECT_EQ(level_of(judge(peer), "UDP port 4791"), "failure");
    peer.connected = Error{Errc::system, 12, "register memory"};
    EXPECT_EQ(level_of(judge(peer), "cannot connect"), "failure");
    peer.device_error = "cannot use rdmacore";
    EXPECT_EQ(level_of(judge(peer), "cannot use rdmacore"), "failure");
}

}  // namespace
}  // namespace nfsrdma::doctor
