#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/device/options.hpp"

namespace nfsrdma::tool {

// For how long a server that is gone is waited for; at most one of these is set.
struct PatienceOptions {
    bool hard = false, fail_fast = false;
    double soft_s = 0;  // 0: as long as an answer may take
};

// What the command line says.
struct Options : devices::ClientOptions {
    std::uint32_t rsize = 0, wsize = 0;  // 0: what the server allows
    std::uint32_t nconnect = 1;          // connections
    PatienceOptions patience;
    bool stats = false, json = false;

    std::vector<std::string> paths;  // arguments of the command, in order
    bool recursive = false, long_listing = false, parents = false, symbolic = false, force = false;
    bool all = false, directory_itself = false, null_ends = false, one_column = false;  // ls
    bool resume = false, verify = false;                                                // get, put
    bool mounts = false, directories = false, exports = false;                          // showmount
    bool no_create = false;                                                             // touch
    std::uint64_t offset = 0, length = UINT64_MAX;                                      // cat
    std::string size, date;   // truncate, touch
    std::uint32_t jobs = 24;  // fewer than a connection has credits as a rule
    std::uint32_t count = 4;
    double interval_s = 0.2;
};

// Exit statuses; a signal that ended the command gives 128 and its number, as shells do.
inline constexpr int kOk = 0, kFailed = 1, kUsage = 2, kSignalBase = 128;

}  // namespace nfsrdma::tool
