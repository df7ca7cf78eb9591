#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/loop.hpp"
#include "devices/choice.hpp"
#include "pools/provision.hpp"
#include "svcrdma/listener.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/rdmacore.hpp"
#include "verbs/softroce/fault_spec.hpp"
#include "verbs/softroce/wire.hpp"

namespace nfsrdma::verbs::softroce {
class DeviceGroup;
}

// Opens the device that --device names: the one place that knows all kinds.
namespace nfsrdma::devices {

class RdmaDevices;

struct Request {
    Choice choice;
    // Whom to connect to, or, for a server, where it listens; decides which device the address
    // belongs to.
    SockAddr address;
    bool passive = false;
    // softroce: local address and UDP port. Not given: passive, `address` with the standard port;
    // active, the address that leads to the peer, with that port where it is free.
    std::optional<SockAddr> bind{};
    std::uint16_t peer_udp_port = verbs::softroce::kRoceV2Port;  // softroce
    // softroce, which --device auto then means; Errc::unsupported with rdmacore.
    verbs::softroce::FaultSpec faults{};
    std::uint64_t fault_seed = 1;
    // rdmacore: how keys are made; `automatic` is for the device to say.
    verbs::rdmacore::Strategy strategy = verbs::rdmacore::Strategy::automatic;
    // softroce: acknowledgements go with what is sent between turns of the loop (SoftOptions).
    bool acks_wait = false;
    // How much memory is to be locked, by which --device auto chooses. Active: so many connections,
    // each of this demand. Passive: what each loop listens with; not given: nothing worth counting.
    pools::Demand demand{};
    std::uint32_t connections = 1;
    std::optional<svcrdma::ServerOptions> server{};
};

// That all loops, or connections, together register with a device of the kernel; `who` is for
// people. 0: nothing worth counting.
std::uint64_t bytes_to_lock(const Request& request, const verbs::DeviceCaps& caps,
                            std::size_t loops, std::string& who);

// For people, on failure: what cannot be had, why, and what to do.
std::string explain(const Request& request, const Error& error);

struct Opened {
    std::unique_ptr<verbs::Device> device;
    std::string name;  // "softroce", "rxe0"
    // One line: what was taken and, with --device auto, why.
    std::string line;
};
// One device of one loop. Errors are those of the device: Errc::unsupported, there is none;
// Errc::system.
Result<Opened> open(Loop& loop, const Request& request);

// A device for each of a server's loops. Dies after everything made from them, with no loop
// running.
class DeviceSet {
  public:
    static Result<std::unique_ptr<DeviceSet>> create(std::span<Loop* const> loops,
                                                     const Request& request);
    ~DeviceSet();
    DeviceSet(const DeviceSet&) = delete;
    DeviceSet& operator=(const DeviceSet&) = delete;
    verbs::Device& device(std::uint32_t index) noexcept;
    const std::string& name() const noexcept { return name_; }
    const std::string& line() const noexcept { return line_; }

  private:
    DeviceSet() = default;
    std::unique_ptr<verbs::softroce::DeviceGroup> soft_;
    std::unique_ptr<RdmaDevices> rdma_;
    std::string name_, line_;
};

// Whether softroce's own counters can be had of it.
bool is_softroce(const verbs::Device& device) noexcept;

}  // namespace nfsrdma::devices
