#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/sock_addr.hpp"
#include "verbs/rdmacore/rdmacore.hpp"

// What a machine has for RPC over RDMA; nothing of it is changed.
namespace nfsrdma::doctor {

// One local address, as the softroce device would use it.
struct SoftAddress {
    std::string interface;
    SockAddr address;
    std::uint32_t interface_mtu = 0;
    std::uint32_t packet_bytes = 0;    // payload of one packet: the RoCE path MTU
    std::uint32_t receive_window = 0;  // bytes
    bool port_free = false;            // UDP port 4791, to which standard peers send
    std::string error;                 // why there is no device there; then the numbers are 0
    std::string rdma_device;  // the kernel's device with this address, which `auto` takes; or empty
};

struct Machine {
    std::string kernel;  // "Linux 6.1.0-18-amd64"
    bool built_with_rdmacore = false;
    std::vector<verbs::rdmacore::DeviceInfo> devices;
    // That the kernel has, whether or not this process can use them.
    std::vector<std::string> kernel_devices;
    verbs::rdmacore::MemlockLimit memlock;
    std::uint64_t rmem_max = 0;  // net.core.rmem_max; 0: unknown
    // That nfsrdma registers for its connection, as it is by default; and nfsrdmad for each loop.
    std::uint64_t connection_bytes = 0, server_bytes = 0;
    bool io_uring = false;
    std::vector<SoftAddress> addresses;
};
Machine look_at_machine();

// The device with this address as one of its GIDs, or on whose interface it is; nullptr: none that
// can be used.
const verbs::rdmacore::DeviceInfo* device_with(
    const std::vector<verbs::rdmacore::DeviceInfo>& devices, const SockAddr& address,
    const std::string& interface);

}  // namespace nfsrdma::doctor
