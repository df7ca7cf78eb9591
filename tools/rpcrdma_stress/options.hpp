#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "pools/provision.hpp"
#include "tools/device/options.hpp"
#include "verbs/softroce/fault_spec.hpp"

namespace nfsrdma::stress {

// What the command line says.
struct Options : devices::ClientOptions {
    std::string serve;  // directory that a server of the run's own exports; empty: see `dir`
    std::string dir;  // nfs://HOST/EXPORT/DIRECTORY, in which a directory of the run's own is made
    std::uint64_t seed = 1;
    double seconds = 10;    // unless ops is set
    std::uint64_t ops = 0;  // steps of all workers together
    std::uint32_t connections = 4, depth = 8, files = 3;
    std::uint64_t file_bytes = 3u << 19;
    double cancel_rate = 0.005, disconnect_rate = 0.0002;  // of steps
    verbs::softroce::FaultSpec faults{};  // of our device, and of the server of `serve`
    bool tolerate_loss = false, hard = false, json = false, keep = false;
};

// Of each connection.
inline pools::Demand demand_of(const Options& options) noexcept {
    pools::Demand demand;
    demand.credits = std::max(options.depth, 4u);
    return demand;
}

inline constexpr int kOk = 0, kFailed = 1, kUsage = 2, kSignalBase = 128;

}  // namespace nfsrdma::stress
