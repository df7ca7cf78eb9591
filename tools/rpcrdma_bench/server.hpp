#pragma once
#include <memory>
#include <string>

#include "base/sock_addr.hpp"
#include "tools/rpcrdma_bench/alloc_counts.hpp"
#include "tools/rpcrdma_bench/peer_process.hpp"

namespace nfsrdma::bench {

inline constexpr std::uint64_t kBenchFileBytes = 64u << 20;

double own_cpu_seconds();

// An nfsrdmad of the same build, serving a fresh directory on tmpfs with one file in it.
class BenchServer {
  public:
    static Result<std::unique_ptr<BenchServer>> start();
    ~BenchServer();
    BenchServer(const BenchServer&) = delete;
    BenchServer& operator=(const BenchServer&) = delete;
    const SockAddr& address() const { return address_; }
    const std::string& export_path() const { return path_; }
    double cpu_seconds() const;
    // What is preloaded into the server to count them stands beside the programs of a build, and is
    // not installed.
    bool counts_allocations() const noexcept { return counts_allocations_; }
    std::uint64_t allocations() const { return allocations_.count(); }
    // The server's statistics as it writes them on SIGUSR1: one JSON object. Empty when it does not
    // answer.
    std::string statistics() const;

  private:
    BenchServer() = default;
    PeerAllocations allocations_;
    bool counts_allocations_ = false;
    std::string path_, stats_file_;
    SockAddr address_;
    std::unique_ptr<PeerProcess> process_;
};

// The number of `"name":` in a JSON text, summed over all its occurrences; negative when there is
// none.
double json_sum(const std::string& json, const std::string& name);

}  // namespace nfsrdma::bench
