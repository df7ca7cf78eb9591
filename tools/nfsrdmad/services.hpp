#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/sock_addr.hpp"
#include "nfs/server/server.hpp"
#include "sunrpc/reply_cache.hpp"
#include "svcrdma/memory_budget.hpp"
#include "svcrdma/peer_table.hpp"
#include "tools/nfsrdmad/service_options.hpp"
#include "tools/nfsrdmad/worker.hpp"

namespace nfsrdma::nfsrdmad {

class MetricsServer;
class Rpcbind;
class TirpcMount;
struct Snapshot;

// The reply cache, the peers and the memory budget that all loops share; MOUNT over TCP and UDP,
// rpcbind and metrics. Main thread.
class Services {
  public:
    Services(const ServiceOptions& options, nfs::Server& server, std::uint32_t loops);
    ~Services();
    Services(const Services&) = delete;
    Services& operator=(const Services&) = delete;

    // What a worker is to use; before it listens. The Services outlive it. False, and said on
    // stderr: --memory is too small.
    bool prepare(Worker& worker);
    // When the workers run and serve at `local`. False when what was asked for cannot be had, which
    // has been said on stderr.
    bool start(const std::vector<std::unique_ptr<Worker>>& workers, const SockAddr& local);
    // Before the workers end.
    void stop() noexcept;

  private:
    bool start_mount(const SockAddr& local);
    bool start_metrics(const std::vector<std::unique_ptr<Worker>>& workers);
    void tell_rpcbind(const SockAddr& local);
    Snapshot collect(const std::vector<std::unique_ptr<Worker>>& workers) const;
    std::int32_t mountd_port() const noexcept;

    const ServiceOptions& options_;
    nfs::Server& server_;
    std::uint32_t loops_;
    sunrpc::ReplyCache reply_cache_;
    svcrdma::PeerTable peers_;
    std::unique_ptr<svcrdma::MemoryBudget> memory_;
    std::unique_ptr<TirpcMount> mount_;
    std::unique_ptr<Rpcbind> rpcbind_;
    std::unique_ptr<MetricsServer> metrics_;
};

}  // namespace nfsrdma::nfsrdmad
