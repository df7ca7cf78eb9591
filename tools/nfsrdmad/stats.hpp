#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "pools/io.hpp"
#include "sunrpc/svc.hpp"
#include "svcrdma/listener.hpp"
#include "verbs/softroce/softroce.hpp"

namespace nfsrdma::nfsrdmad {

struct ProcedureStats {
    const char* program = "";  // "nfs", "mount"
    const char* name = "";
    sunrpc::ProcStats stats;
};

// Of what `dispatcher` serves; on its loop. Allocates when `out` grows.
void take_procedures(const sunrpc::SvcDispatcher& dispatcher, std::vector<ProcedureStats>& out);

// MOUNT over TCP and UDP at one moment.
struct SocketStats {
    sunrpc::SvcCounters rpc;
    std::vector<ProcedureStats> procedures;
};

// The counters of one loop at one moment.
struct LoopStats {
    std::uint32_t connections = 0;
    LoopCounters loop;
    sunrpc::SvcCounters rpc;
    svcrdma::ServerCounters rdma;
    pools::IoCounters io;
    verbs::softroce::SoftCounters device;
    std::vector<ProcedureStats> procedures;
    std::vector<svcrdma::ConnectionStats> clients;
};

// One JSON object, one member a loop in "loops"; ends with a newline. Names are those of the
// counters.
std::string to_json(std::span<const LoopStats> loops);

// Whole or not at all: by a file beside it that is renamed. Errc::system.
Result<void> write_file(const std::string& path, const std::string& text);

}  // namespace nfsrdma::nfsrdmad
