#pragma once
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "tools/mount_nfsrdma/options.hpp"

namespace nfsrdma::mount {

// Where the server of `options` is; blocks while names are asked for. Errors as those of
// SockAddr::resolve; with proto=rdma6 a host that has no IPv6 address is Errc::invalid_argument.
Result<SockAddr> resolve_server(const MountOptions& options);

}  // namespace nfsrdma::mount
