#pragma once
#include "sunrpc/svc.hpp"

namespace nfsrdma::nfs {

class Server;

// MOUNT v3 (RFC 1813 appendix I), for one dispatcher. The server outlives it. A directory below an
// export may be mounted as well; symbolic links in the path are not followed.
sunrpc::SvcProgram mount3_program(Server& server) noexcept;

}  // namespace nfsrdma::nfs
