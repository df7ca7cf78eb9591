#pragma once
#include <cstdint>
#include <string>

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

namespace nfsrdma::nfsrdmad {

inline constexpr std::uint16_t kMountdPort = 20048;  // IANA's
inline constexpr std::uint16_t kMetricsPort = 9949;

// What one peer, an address, may have, and how peers are watched. 0: no limit, or never.
struct PeerOptions {
    std::uint32_t connections = 512;
    std::uint32_t requests = 1024;
    std::uint64_t memory_bytes = 0;
    std::uint32_t connects_per_sec = 1000;
    std::uint32_t faults = 32;  // within kFaultsWindowSeconds
    std::uint32_t quarantine_seconds = 60;
    std::uint32_t keepalive_seconds = 10;
    std::uint32_t idle_seconds = 0;
};
inline constexpr std::uint32_t kFaultsWindowSeconds = 10;
// Of all peers together, as a multiple of what one may.
inline constexpr std::uint32_t kConnectsOfAll = 8;

// What stands beside the service itself.
struct ServiceOptions {
    std::int32_t mountd_port = -1;  // -1: kMountdPort with --rpcbind, none without
    bool rpcbind = false;
    std::string metrics;             // ADDR[:PORT]; empty: none
    std::uint64_t memory_bytes = 0;  // 0: no limit
    std::uint32_t reply_cache = 4096;
    PeerOptions peers;
};
void declare_services(CLI::App& app, ServiceOptions& out);
// "at most 512 connections, 1024 calls in progress, ... of a peer; ...": for --check.
std::string to_string(const PeerOptions& options);

}  // namespace nfsrdma::nfsrdmad
