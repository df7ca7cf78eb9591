#include "tools/nfsrdmad/services.hpp"

#include <cstdio>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "nfs/nfs3_types.hpp"
#include "tools/nfsrdmad/metrics.hpp"
#include "tools/nfsrdmad/rpcbind.hpp"
#include "tools/nfsrdmad/tirpc_mount.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

bool complain(const std::string& what, const Error& error) {
    const std::string why = error.code == Errc::system && error.sys != 0
                                ? std::string(strerrordesc_np(error.sys))
                                : to_string(error);
    static_cast<void>(std::fprintf(stderr, "nfsrdmad: %s: %s\n", what.c_str(), why.c_str()));
    return false;
}

sunrpc::ReplyCacheOptions cache_options(const ServiceOptions& options) {
    sunrpc::ReplyCacheOptions out;
    out.entries = options.reply_cache;
    return out;
}

svcrdma::PeerLimits peer_limits(const PeerOptions& options, std::uint32_t loops) {
    constexpr std::uint32_t kRemembered = 4096;  // beside those that are connected
    // A peer that ends none locks out nobody else; a machine may start 256 mounts at once.
    constexpr std::uint32_t kHandshakes = 256;
    svcrdma::PeerLimits out;
    out.connections_max = options.connections;
    out.handshakes_max = kHandshakes;
    out.memory_max = options.memory_bytes;
    out.requests_max = options.requests;
    out.connects_per_sec = options.connects_per_sec;
    out.connects_per_sec_all = kConnectsOfAll * options.connects_per_sec;
    out.faults_max = options.faults;
    out.faults_window_ns = kFaultsWindowSeconds * kNsPerSec;
    out.quarantine_ns = options.quarantine_seconds * kNsPerSec;
    out.peers_max = kRemembered + loops * Worker::server_options({}).connections_max;
    return out;
}

}  // namespace

Services::Services(const ServiceOptions& options, nfs::Server& server, std::uint32_t loops)
    : options_(options),
      server_(server),
      loops_(loops),
      reply_cache_(cache_options(options)),
      peers_(peer_limits(options.peers, loops)) {
    if (options.memory_bytes != 0)
        memory_ = std::make_unique<svcrdma::MemoryBudget>(options.memory_bytes);
}

Services::~Services() {
    stop();
}

// Half of the budget at most is for what the connections share, the rest for the connections.
bool Services::prepare(Worker& worker) {
    WorkerShared shared;
    shared.reply_cache = &reply_cache_;
    shared.memory = memory_.get();
    shared.peers = &peers_;
    shared.keepalive_ns = options_.peers.keepalive_seconds * kNsPerSec;
    shared.idle_timeout_ns = options_.peers.idle_seconds * kNsPerSec;
    if (memory_ != nullptr) {
        const std::uint64_t each = memory_->limit() / 2 / loops_;
        shared.payload_runs = svcrdma::payload_runs_within(Worker::server_options({}), each);
        if (shared.payload_runs == 0) {
            svcrdma::ServerOptions least = Worker::server_options({});
            std::uint64_t bytes = memory_->limit();
            while (svcrdma::payload_runs_within(least, bytes / 2 / loops_) == 0)
                bytes += 1 << 20;
            static_cast<void>(std::fprintf(
                stderr, "nfsrdmad: --memory is too small for %u loops: at least %lluM\n", loops_,
                static_cast<unsigned long long>(div_ceil(bytes, std::uint64_t{1} << 20))));
            return false;
        }
    }
    worker.use(shared);
    return true;
}

bool Services::start(const std::vector<std::unique_ptr<Worker>>& workers, const SockAddr& local) {
    if (!start_mount(local) || !start_metrics(workers)) return false;
    if (options_.rpcbind) tell_rpcbind(local);
    return true;
}

void Services::stop() noexcept {
    rpcbind_.reset();  // first: nobody is sent here any more
    metrics_.reset();  // its thread looks at the next
    mount_.reset();
}

std::int32_t Services::mountd_port() const noexcept {
    if (options_.mountd_port >= 0 || !options_.rpcbind) return options_.mountd_port;
    return kMountdPort;
}

bool Services::start_mount(const SockAddr& local) {
    if (mountd_port() < 0) return true;
    const SockAddr address = local.with_port(static_cast<std::uint16_t>(mountd_port()));
    auto mount = TirpcMount::create(server_, address);
    if (!mount) return complain("MOUNT at TCP and UDP " + address.to_string(), mount.error());
    mount_ = *std::move(mount);
    mount_->start();
    log::info("MOUNT over TCP and UDP at {}", mount_->local().to_string());
    return true;
}

Snapshot Services::collect(const std::vector<std::unique_ptr<Worker>>& workers) const {
    Snapshot out;
    for (const auto& worker : workers)
        out.loops.push_back(worker->stats());
    if (mount_ != nullptr) out.sockets = mount_->stats();
    out.reply_cache = reply_cache_.counters();
    out.peers = peers_.counters(RealClock().now_ns());
    if (memory_ != nullptr) {
        out.memory_used = memory_->used();
        out.memory_limit = memory_->limit();
    }
    return out;
}

bool Services::start_metrics(const std::vector<std::unique_ptr<Worker>>& workers) {
    if (options_.metrics.empty()) return true;
    auto address = SockAddr::parse(options_.metrics, kMetricsPort);
    if (!address) return complain("--metrics " + options_.metrics, address.error());
    auto metrics = MetricsServer::create(*address, [this, &workers] { return collect(workers); });
    if (!metrics) return complain("metrics at " + address->to_string(), metrics.error());
    metrics_ = *std::move(metrics);
    log::info("metrics at http://{}/metrics", address->to_string());
    return true;
}

// Serving goes on without rpcbind: clients may be told the ports.
void Services::tell_rpcbind(const SockAddr& local) {
    struct Row {
        std::uint32_t prog, vers;
        const char* netid;
        SockAddr address;
    };
    const bool v6 = local.is_v6();
    std::vector<Row> rows = {{NFS3_PROGRAM, NFS_V3, v6 ? "rdma6" : "rdma", local},
                             {MOUNT3_PROGRAM, MOUNT_V3, v6 ? "rdma6" : "rdma", local}};
    if (mount_ != nullptr) {
        rows.push_back({MOUNT3_PROGRAM, MOUNT_V3, v6 ? "tcp6" : "tcp", mount_->local()});
        rows.push_back({MOUNT3_PROGRAM, MOUNT_V3, v6 ? "udp6" : "udp", mount_->local()});
    }
    rpcbind_ = std::make_unique<Rpcbind>();
    for (const Row& row : rows) {
        const Result<void> added = rpcbind_->add(row.prog, row.vers, row.netid, row.address);
        if (added) continue;
        log::warn("not registered with rpcbind: program {} netid {}: {}", row.prog, row.netid,
                  to_string(added.error()));
        if (added.error().code == Errc::system) return;  // it is not there
    }
}

}  // namespace nfsrdma::nfsrdmad
