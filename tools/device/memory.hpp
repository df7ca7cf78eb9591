#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "tools/device/rdma.hpp"
#include "verbs/device.hpp"

// How much memory a connection locks, and whether it may: the one place that knows.
namespace nfsrdma::devices {

// That a connection of nfsrdma registers with a device of the kernel, in bytes; 0: the device holds
// none.
std::uint64_t connection_bytes(const verbs::DeviceCaps& caps) noexcept;

// Whether one connection fits under the limit. Pure.
bool may_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes) noexcept;
// For people: why not, and what to do.
std::string cannot_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes);

}  // namespace nfsrdma::devices
