#pragma once
#include <functional>
#include <memory>
#include <prometheus/metric_family.h>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "sunrpc/reply_cache.hpp"
#include "tools/nfsrdmad/stats.hpp"

namespace nfsrdma::nfsrdmad {

// Everything that is counted, at one moment.
struct Snapshot {
    std::vector<LoopStats> loops;
    SocketStats sockets;
    sunrpc::ReplyCacheCounters reply_cache;
    svcrdma::PeerTableCounters peers;
    std::uint64_t memory_used = 0, memory_limit = 0;  // limit 0: none
};

// Summed over the loops and MOUNT's sockets; names and labels: docs/metrics.md.
std::vector<prometheus::MetricFamily> to_metrics(const Snapshot& snapshot);

// Answers GET /metrics in Prometheus' text format, on a thread of its own.
class MetricsServer {
  public:
    // `collect` is called on that thread until the object dies. Errc::system when
    // the port cannot be had.
    static Result<std::unique_ptr<MetricsServer>> create(const SockAddr& local,
                                                         std::function<Snapshot()> collect);
    ~MetricsServer();
    MetricsServer(const MetricsServer&) = delete;
    MetricsServer& operator=(const MetricsServer&) = delete;
    SockAddr local() const noexcept;

  private:
    struct State;
    explicit MetricsServer(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace nfsrdma::nfsrdmad
