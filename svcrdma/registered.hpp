#pragma once
#include <cstddef>
#include <cstdint>

#include "pools/provision.hpp"
#include "svcrdma/listener.hpp"
#include "verbs/device.hpp"

// How much memory a listener registers with its device, all of it at its start: a device that locks
// what is registered keeps it from everybody else.
namespace nfsrdma::svcrdma {

// So many inline buffers.
std::size_t slab_bytes(const ServerOptions& options, std::uint32_t count) noexcept;
// Inline buffers of one connection when it is at its largest; `provision` is that of for_server.
std::size_t slabs_bytes(const ServerOptions& options, const pools::Provision& provision) noexcept;
// Of one connection, to send backward calls from and to receive their replies in.
std::size_t backward_bytes(const ServerOptions& options) noexcept;
// What the connections of a loop share: payloads, messages, and a page of zeros.
std::size_t shared_bytes(const ServerOptions& options) noexcept;
// All of it, of as many connections as there may be. Errors are those of
// pools::Provision::for_server.
Result<std::uint64_t> registered_bytes(const ServerOptions& options,
                                       const verbs::DeviceCaps& caps) noexcept;

}  // namespace nfsrdma::svcrdma
