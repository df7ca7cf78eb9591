#pragma once
#include <cstddef>
#include <span>

#include "sunrpc/clnt.hpp"
#include "tools/mount_nfsrdma/stats.hpp"

namespace nfsrdma::mount {

// Counts what the kernel asks: `request` is a FUSE request, or its first bytes. What the kernel
// answers out of its own caches never comes here.
void note_request(LoopStats& stats, std::span<const std::byte> request) noexcept;

// Counts the data that a READ or WRITE of NFS has moved; other calls have none. `call` succeeded.
void note_payload(LoopStats& stats, const sunrpc::Call& call) noexcept;

}  // namespace nfsrdma::mount
