#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "devices/rdma.hpp"
#include "pools/provision.hpp"
#include "svcrdma/listener.hpp"
#include "verbs/device.hpp"

// How much memory a program locks, and whether it may: the one place that knows.
namespace nfsrdma::devices {

// That one connection of a client registers with a device of the kernel, in bytes; 0: the device
// holds none.
std::uint64_t client_bytes(const pools::Demand& demand, const verbs::DeviceCaps& caps) noexcept;
// That a server registers for one of its loops, at its start and for as many connections as there
// may be; 0: the device holds none.
std::uint64_t server_bytes(const svcrdma::ServerOptions& options,
                           const verbs::DeviceCaps& caps) noexcept;
// What nfsrdmad listens with on each of its loops, as far as it does not depend on its command
// line.
svcrdma::ServerOptions nfsrdmad_options() noexcept;

// Whether so many bytes fit under the limit. Pure.
bool may_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes) noexcept;
// For people: why not, and what to do. `who` registers them: "this client".
std::string cannot_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes,
                        const std::string& who);

}  // namespace nfsrdma::devices
