#pragma once
#include <string>
#include <vector>

#include "tools/rpcrdma_bench/ratios.hpp"

// A program of libtirpc over RDMA, on the soft device, beside the same over libtirpc's TCP.
namespace nfsrdma::bench {

// Prints the rows as run_ratios does. 0 when each could be measured, 1 otherwise.
int run_tirpc(const RatioOptions& options);
std::vector<std::string> tirpc_row_names();

}  // namespace nfsrdma::bench
