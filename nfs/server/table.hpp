#pragma once
#include "sunrpc/svc.hpp"

namespace nfsrdma::nfs {

class Server;

// NFSv3, for one dispatcher. The server outlives it.
sunrpc::SvcProgram nfs3_program(Server& server) noexcept;

}  // namespace nfsrdma::nfs
