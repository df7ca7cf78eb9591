#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/rdmacore.hpp"

struct ibv_device_attr;

// What devices do differently from what their interface says, as data; and what is made of a
// device's abilities. Pure.
namespace nfsrdma::verbs::rdmacore {

struct Quirks {
    const char* family = "";
    // wc_flags of a Receive, any of which says that the peer's SEND_WITH_INV freed a key.
    std::uint32_t invalidated_flags = 0;
    // A work request that is posted to a queue pair in error completes as flushed. Where none does,
    // the device flushes what was posted before within the change of state, and tells only of what
    // was signaled: what it has not told of soon after is flushed by us.
    bool drains = true;
    // rdma_connect returns only when the peer's host has answered, or never will.
    bool connect_blocks = false;
};

// The row for a device by its vendor id; the plain rules where no row is.
Quirks quirks_of(std::uint32_t vendor_id) noexcept;
// One sentence for each quirk that is set.
std::vector<std::string> describe(const Quirks& quirks);

// What a device was seen to do, whatever its flags say (probe.hpp).
struct Abilities {
    bool windows = false;
    bool umr = false;
};
// `wanted` if the device can do it, else Errc::unsupported; `automatic` picks the best.
Result<Strategy> choose_strategy(const Abilities& can, Strategy wanted) noexcept;
// The device says that it has type-2B memory windows.
bool claims_windows(const ibv_device_attr& attr) noexcept;
// Whether devices of these types (ibv_node_type, ibv_transport_type) have reliable connections, as
// InfiniBand, RoCE and iWARP do: EFA and usNIC have not.
bool has_reliable_connections(int node_type, int transport_type) noexcept;
inline constexpr const char* kNoReliableConnections =
    "the device has no reliable connections (RC), which RPC over RDMA needs";
// As the device says; how many work requests a queue pair is really given is for probe.hpp to say.
DeviceCaps caps_of(const ibv_device_attr& attr, Transport transport, Strategy strategy) noexcept;

}  // namespace nfsrdma::verbs::rdmacore
