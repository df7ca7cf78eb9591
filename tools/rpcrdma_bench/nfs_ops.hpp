#pragma once
#include "tools/rpcrdma_bench/ratios.hpp"

namespace nfsrdma::bench {

// Operations per second over a connection, and beside them the same operations done on the export
// by system calls. Two lines each: nfs_OP_per_s and nfs_OP_vs_local. 0 when everything could be
// measured.
int run_nfs_ops(const RatioOptions& options);
std::vector<std::string> nfs_ops_names();

}  // namespace nfsrdma::bench
