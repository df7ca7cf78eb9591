#pragma once
#include <cstdint>
#include <string>

namespace nfsrdma::stress {

// What the command line says.
struct Options {
    std::string dir;  // nfs://HOST/EXPORT/DIRECTORY, in which a directory of the run's own is made
    std::string device = "softroce", bind, registration = "auto", loop = "auto";
    std::string mount_proto = "rdma";  // how MOUNT is asked
    std::uint16_t mount_port = 0;      // 0: rpcbind is asked
    std::uint64_t seed = 1;
    double seconds = 10;    // unless ops is set
    std::uint64_t ops = 0;  // steps of all workers together
    std::uint32_t connections = 4, depth = 8, files = 3;
    std::uint64_t file_bytes = 3u << 19;
    double cancel_rate = 0.005, disconnect_rate = 0.0002;  // of steps
    double timeout_s = 60;
    bool tolerate_loss = false, json = false, keep = false;
};

inline constexpr int kOk = 0, kFailed = 1, kUsage = 2, kSignalBase = 128;

}  // namespace nfsrdma::stress
