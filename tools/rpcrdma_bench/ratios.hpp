#pragma once
#include <string>
#include <vector>

#include "tools/rpcrdma_bench/pairs.hpp"

namespace nfsrdma::bench {

struct RatioOptions {
    PairOptions pairs;
    bool json = false;
    std::vector<std::string> only;  // rows; empty: all
    bool wants(const std::string& row) const;
};

// Measures every row, prints one line `NAME VALUE` each (or one JSON object a line) and what stands
// behind it. 0 when every row could be measured, 1 otherwise; the bars are the reader's.
int run_ratios(const RatioOptions& options);
std::vector<std::string> ratio_names();

// Roles of a child process; see peer_process.hpp. -1: no such role.
int run_role(const std::string& role, const std::string& address);

}  // namespace nfsrdma::bench
