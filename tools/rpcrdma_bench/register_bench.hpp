#pragma once
#include <string>

#include "tools/rpcrdma_bench/pairs.hpp"

// What it costs to open memory to a peer and to close it again: a key that is bound and invalidated
// by work requests, against a registration (ibv_reg_mr, ibv_dereg_mr) of the same memory.
namespace nfsrdma::bench {

struct RegisterOptions {
    PairOptions pairs{7, 0.3};
    bool json = false;
    std::string device = "rdmacore";  // as --device of the other programs
    std::string address;              // one of the device, which talks to itself
};

// Prints one line `NAME VALUE` each: bind_vs_reg_{4KiB,64KiB,1MiB}, how many times cheaper, and
// bind_1MiB_vs_4KiB, how many times dearer. Status 0 when all could be measured.
int run_register(const RegisterOptions& options);

}  // namespace nfsrdma::bench
