#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "base/loop.hpp"
#include "nfs/identity.hpp"
#include "nfs/server/server.hpp"
#include "sunrpc/svc.hpp"
#include "svcrdma/listener.hpp"
#include "tools/nfsrdmad/options.hpp"
#include "tools/nfsrdmad/stats.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::nfsrdmad {

// What all workers use together; outlives them.
struct WorkerShared {
    sunrpc::ReplyCache* reply_cache = nullptr;
    svcrdma::MemoryBudget* memory = nullptr;
    svcrdma::PeerTable* peers = nullptr;
    std::uint64_t keepalive_ns = 0, idle_timeout_ns = 0;
    std::uint32_t payload_runs = 0;  // of each loop; 0: as many as there are without a budget
};

// One loop with its thread, its dispatcher and its listener. Made, started, joined and destroyed by
// the main thread; between start and join it reaches the loop by posted tasks only.
class Worker {
  public:
    static Result<std::unique_ptr<Worker>> create(const LoopOptions& options);
    ~Worker();  // not running
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;

    Loop& loop() noexcept { return *loop_; }
    static svcrdma::ServerOptions server_options(const WorkerShared& shared) noexcept;
    svcrdma::ServerOptions server_options() const noexcept { return server_options(shared_); }
    void use(const WorkerShared& shared) noexcept { shared_ = shared; }  // before listen
    // Listens on `device`, which is of this loop. Errors are svcrdma::Listener's.
    Result<void> listen(verbs::Device& device, const SockAddr& local, nfs::Server& server,
                        pools::Registration registration);
    SockAddr local() const noexcept { return listener_->local(); }
    // Before start: the thread never acts as a caller (nfs::Identity::keep_thread).
    void keep_identity(nfs::Identity& identity) noexcept { kept_ = &identity; }
    void start();
    // Asks for the end: what is in progress may finish within `grace_ns`. done() tells when it is
    // over.
    void shut_down(std::uint64_t grace_ns) noexcept;
    bool done() const noexcept { return done_.load(std::memory_order_acquire); }
    void join();
    // After join, before the device goes.
    void close_listener() noexcept { listener_.reset(); }
    // The counters: of a running loop, by asking its thread, and waiting for it. Any thread, but
    // for a running loop none after shut_down.
    LoopStats stats() noexcept;

  private:
    struct WorkerTask : Task {
        WorkerTask(Run r, Worker& w) noexcept : Task(r), worker(w) {}
        Worker& worker;
    };
    struct WorkerTimer : Timer {
        WorkerTimer(Fire f, Worker& w) noexcept : Timer(f), worker(w) {}
        Worker& worker;
    };

    explicit Worker(std::unique_ptr<Loop> loop) noexcept;
    void take_stats() noexcept;
    void check_idle() noexcept;

    WorkerShared shared_;
    std::unique_ptr<Loop> loop_;
    verbs::Device* device_ = nullptr;
    nfs::Identity* kept_ = nullptr;
    sunrpc::SvcDispatcher dispatcher_;
    std::unique_ptr<svcrdma::Listener> listener_;
    std::thread thread_;
    WorkerTask stats_task_, end_task_;
    WorkerTimer idle_timer_;
    std::mutex stats_mutex_;
    LoopStats stats_;
    std::atomic<bool> stats_ready_{false};
    std::uint64_t grace_ns_ = 0;
    std::atomic<bool> done_{false};
};

}  // namespace nfsrdma::nfsrdmad
