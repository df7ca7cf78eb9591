#pragma once
#include <string>
#include <vector>

#include "tools/rpcrdma_bench/ratios.hpp"

namespace nfsrdma::bench {

// What is left of the rate of verified mixed IO between two processes (rpcrdma-stress and its
// nfsrdmad on tmpfs) when packets are lost, duplicated and reordered, both ways, beside the same
// without. As run_ratios.
int run_faults(const RatioOptions& options);
std::vector<std::string> fault_row_names();
inline constexpr PairOptions kFaultPairs{.pairs = 3, .seconds = 20};

}  // namespace nfsrdma::bench
