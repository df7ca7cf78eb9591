#pragma once
#include <string>

#include "tools/rpcrdma_bench/nfs_load.hpp"
#include "tools/rpcrdma_bench/server.hpp"

// Exact counts per RPC: the worst of {READ, WRITE} x {1 MiB, 1 MiB - 3}.
namespace nfsrdma::bench {

struct CounterResult {
    bool ok = false;
    double keys_per_rpc = 0, local_inv_per_rpc = 0, doorbells_per_call = 0;
    double payload_copies_per_rpc =
        0;  // payload bytes copied above verbs/ in both processes, over payload bytes
    double device_copies_per_byte =
        0;                      // of received bytes; any copy on the sending side counts on top
    double allocs_per_rpc = 0;  // in both processes, from RPC 1,000 to 2,000
    double row(const std::string& name) const;
};

CounterResult count(NfsLoad& load, const BenchServer& server);

}  // namespace nfsrdma::bench
