#include "tools/nfsrdmad/worker.hpp"

#include "devices/memory.hpp"
#include "devices/open.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

constexpr std::uint64_t kIdleCheckNs = 5 * kNsPerMs;
// They wait for storage and not for a core, and are started at first use. One export's calls take
// at most half of them.
constexpr std::uint32_t kHelperThreads = 16;
// Connections of a loop that are being made: fewer than softroce has room for (kCmHalfOpenMax), so
// that who is too many is told.
constexpr std::uint32_t kHandshakes = 448;

}  // namespace

Result<std::unique_ptr<Worker>> Worker::create(const LoopOptions& wanted) {
    LoopOptions options = wanted;
    options.blocking_threads = kHelperThreads;
    NR_TRY_ASSIGN(std::unique_ptr<Loop> loop, Loop::create(options));
    auto worker = std::unique_ptr<Worker>(new Worker(std::move(loop)));
    worker->dispatcher_.set_helper_threads(kHelperThreads);
    return worker;
}

Worker::Worker(std::unique_ptr<Loop> loop) noexcept
    : loop_(std::move(loop)),
      stats_task_([](Task& t) noexcept { static_cast<WorkerTask&>(t).worker.take_stats(); }, *this),
      end_task_(
          [](Task& t) noexcept {
              Worker& self = static_cast<WorkerTask&>(t).worker;
              self.listener_->shut_down(self.grace_ns_);
              self.check_idle();
          },
          *this),
      idle_timer_([](Timer& t) noexcept { static_cast<WorkerTimer&>(t).worker.check_idle(); },
                  *this) {}

Worker::~Worker() {
    NR_ASSERT(!thread_.joinable());
}

svcrdma::ServerOptions Worker::server_options(const WorkerShared& shared) noexcept {
    svcrdma::ServerOptions options = devices::nfsrdmad_options();
    options.memory = shared.memory;
    options.peers = shared.peers;
    options.keepalive_ns = shared.keepalive_ns;
    options.idle_timeout_ns = shared.idle_timeout_ns;
    options.handshakes_max = kHandshakes;
    if (shared.payload_runs != 0) options.payload_runs = shared.payload_runs;
    return options;
}

Result<void> Worker::listen(verbs::Device& device, const SockAddr& local, nfs::Server& server,
                            pools::Registration registration) {
    device_ = &device;
    server.add_to(dispatcher_);
    dispatcher_.set_reply_cache(shared_.reply_cache);
    svcrdma::ServerOptions options = server_options(shared_);
    options.registration = registration;
    NR_TRY_ASSIGN(listener_, svcrdma::Listener::create(device, local, dispatcher_, options));
    return {};
}

void Worker::start() {
    thread_ = std::thread([this] {
        if (kept_ != nullptr) kept_->keep_thread();
        loop_->run();
        done_.store(true, std::memory_order_release);
    });
}

void Worker::shut_down(std::uint64_t grace_ns) noexcept {
    grace_ns_ = grace_ns;
    loop_->post(end_task_);
}

void Worker::check_idle() noexcept {
    if (listener_->idle()) {
        loop_->stop();
    } else {
        loop_->arm(idle_timer_, loop_->now_ns() + kIdleCheckNs);
    }
}

void Worker::join() {
    if (thread_.joinable()) thread_.join();
}

void Worker::take_stats() noexcept {
    stats_.connections = listener_->connections();
    stats_.loop = loop_->counters();
    stats_.rpc = dispatcher_.counters();
    take_procedures(dispatcher_, stats_.procedures);
    stats_.clients.resize(listener_->connections());
    stats_.clients.resize(listener_->connection_stats(stats_.clients));
    stats_.rdma = listener_->counters();
    stats_.io = listener_->io_counters();
    if (devices::is_softroce(*device_)) stats_.device = verbs::softroce::counters(*device_);
    stats_ready_.store(true, std::memory_order_release);
    stats_ready_.notify_one();
}

LoopStats Worker::stats() noexcept {
    const std::lock_guard lock(stats_mutex_);
    if (!thread_.joinable()) {
        take_stats();
        return stats_;
    }
    stats_ready_.store(false, std::memory_order_relaxed);
    loop_->post(stats_task_);
    stats_ready_.wait(false, std::memory_order_acquire);
    return stats_;
}

}  // namespace nfsrdma::nfsrdmad
