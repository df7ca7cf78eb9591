#pragma once
#include <cstdint>
#include <string>

#include "tools/device/options.hpp"

namespace nfsrdma::stress {

// What the command line says.
struct Options : devices::ClientOptions {
    std::string dir;  // nfs://HOST/EXPORT/DIRECTORY, in which a directory of the run's own is made
    std::uint64_t seed = 1;
    double seconds = 10;    // unless ops is set
    std::uint64_t ops = 0;  // steps of all workers together
    std::uint32_t connections = 4, depth = 8, files = 3;
    std::uint64_t file_bytes = 3u << 19;
    double cancel_rate = 0.005, disconnect_rate = 0.0002;  // of steps
    bool tolerate_loss = false, json = false, keep = false;
};

inline constexpr int kOk = 0, kFailed = 1, kUsage = 2, kSignalBase = 128;

}  // namespace nfsrdma::stress
