#pragma once
#include <cstdint>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace nfsrdma::nfsrdmad {

inline constexpr std::uint16_t kMountdPort = 20048;  // IANA's
inline constexpr std::uint16_t kMetricsPort = 9949;

// What stands beside the service itself.
struct ServiceOptions {
    std::int32_t mountd_port = -1;  // -1: kMountdPort with --rpcbind, none without
    bool rpcbind = false;
    std::string metrics;             // ADDR[:PORT]; empty: none
    std::uint64_t memory_bytes = 0;  // 0: no limit
    std::uint32_t reply_cache = 4096;
};
void declare_services(CLI::App& app, ServiceOptions& out);

}  // namespace nfsrdma::nfsrdmad
