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
    // LOCAL_INV waits for every earlier work request of its queue pair.
    bool local_inv_fences = false;
    // LOCAL_INV of a window that is free brings the kernel down.
    bool free_inv_crashes = false;
    // The device has no queue of its own for the last completions: what it must flush when its
    // queue pair fails is flushed by a kernel thread.
    bool software = false;
};

// The row for a device by its vendor id; the plain rules where no row is.
Quirks quirks_of(std::uint32_t vendor_id) noexcept;
// One sentence for each quirk that is set.
std::vector<std::string> describe(const Quirks& quirks);

// `wanted` if the device can do it, else Errc::unsupported; `automatic` picks the best.
Result<Strategy> choose_strategy(const ibv_device_attr& attr, Strategy wanted) noexcept;
bool has_windows(const ibv_device_attr& attr) noexcept;
DeviceCaps caps_of(const ibv_device_attr& attr, Transport transport, Strategy strategy) noexcept;

}  // namespace nfsrdma::verbs::rdmacore
