#include "tools/mount_nfsrdma/worker.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <optional>
#include <vector>

#include "base/assert.hpp"
#include "devices/open.hpp"
#include "tools/mount_nfsrdma/fate.hpp"
#include "tools/mount_nfsrdma/file_data.hpp"
#include "tools/mount_nfsrdma/stats_note.hpp"
#include "tools/nfsrdma/patience.hpp"

namespace nfsrdma::mount {
namespace {

// Calls in flight of one loop. Each brings a payload's memory, which is also what write-behind and
// read-ahead live on.
constexpr std::uint32_t kCredits = 64;
constexpr double kConnectMaxS = 10;
constexpr std::uint64_t kReplyLeastNs = 10 * kNsPerSec;

std::string connect_trouble(const Error& error, const MountOptions& options, bool& again) {
    again = error.code == Errc::refused || error.code == Errc::timed_out ||
            error.code == Errc::reconnect;
    if (error.code == Errc::refused) {
        return "connection refused: nothing listens on port " + std::to_string(options.port) +
               " there for NFS over RDMA; start the server, or give its port with -o port=";
    }
    if (again) {
        return "no answer: check that the host serves NFS over RDMA and that UDP port 4791 passes "
               "the firewalls between here and there";
    }
    return "cannot connect: " + to_string(error);
}

std::uint64_t soft_ns(const MountOptions& options) noexcept {
    return tool::to_ns(options.timeo_s * (options.retrans + 1));
}

pools::Demand demand_of() noexcept {
    pools::Demand demand;
    demand.credits = kCredits;
    return demand;
}

xprtrdma::TransportOptions transport_options(const MountOptions& options) {
    xprtrdma::TransportOptions how;
    how.demand = demand_of();
    how.registration = devices::registration_of(options.device);
    how.connect_timeout_ns = tool::to_ns(std::min(options.timeo_s, kConnectMaxS));
    how.reply_timeout_ns = std::max(tool::to_ns(options.timeo_s), kReplyLeastNs);
    how.recovery.on = true;
    return how;
}

}  // namespace

Worker::Worker()
    : channel_(*this),
      serve_task_(on_serve, *this),
      bury_task_(on_bury, *this),
      look_task_(on_look, *this),
      grace_timer_(on_grace, *this) {}

std::unique_ptr<Worker> Worker::open(const MountOptions& options, const SockAddr& server,
                                     std::string& why, bool& again) {
    std::unique_ptr<Worker> worker(new Worker);
    Result<std::unique_ptr<Loop>> loop = Loop::create(devices::loop_options(options.device));
    if (!loop) {
        why = "cannot start: " + to_string(loop.error()) +
              (options.device.loop == "io_uring" ? "; try -o loop=epoll" : "");
        return nullptr;
    }
    worker->loop_ = *std::move(loop);
    if (!worker->open_device(options, server, why)) return nullptr;
    if (!worker->connect(options, server, why, again)) {
        (void)worker->close(kNsPerSec);
        return nullptr;
    }
    return worker;
}

bool Worker::open_device(const MountOptions& options, const SockAddr& server, std::string& why) {
    Result<devices::Request> request = devices::request_of(options.device, server);
    if (!request) {
        why = "bind=" + options.device.bind + ": " + to_string(request.error());
        return false;
    }
    request->demand = demand_of();
    request->connections = options.loops;
    Result<devices::Opened> opened = devices::open(*loop_, *request);
    if (!opened) {
        why = devices::explain(*request, opened.error());
        return false;
    }
    device_ = std::move(opened->device);
    return true;
}

bool Worker::connect(const MountOptions& options, const SockAddr& server, std::string& why,
                     bool& again) {
    std::optional<Result<void>> outcome;
    const auto told = [](void* arg, Result<void> result) noexcept {
        *static_cast<std::optional<Result<void>>*>(arg) = result;
    };
    auto connections =
        tool::Connections::create(*device_, server, transport_options(options), 1, told, &outcome);
    if (!connections) {
        why = connect_trouble(connections.error(), options, again);
        return false;
    }
    connections_ = *std::move(connections);
    const auto answered = [](void* arg) {
        return static_cast<std::optional<Result<void>>*>(arg)->has_value();
    };
    (void)loop_->run_until(answered, &outcome, tool::kForEverNs);
    if (!outcome.has_value() || !*outcome) {
        why =
            outcome.has_value() ? connect_trouble(outcome->error(), options, again) : "interrupted";
        return false;
    }
    bool truncated = false;
    const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
    client_ = std::make_unique<nfs::client::Client>(connections_->xprt(), &sys);
    client_->observe({on_call, this});
    const bool hard = options.patience == Patience::hard;
    client_->timeout_ns = client_->jukebox_ns = hard ? tool::kForEverNs : soft_ns(options);
    return true;
}

void Worker::on_call(void* arg, const sunrpc::Call& call, const Result<void>& result) noexcept {
    if (call.proc_number >= kProcs) return;
    Worker& worker = *static_cast<Worker*>(arg);
    const std::uint64_t now = worker.loop_->now_ns();
    CallCosts costs;
    costs.bytes_out = call.bytes_out;
    costs.bytes_in = call.bytes_in;
    costs.execute_ns = now - call.called_ns;
    costs.queue_ns = call.sent_ns != 0 ? call.sent_ns - call.called_ns : costs.execute_ns;
    costs.rtt_ns = call.sent_ns != 0 ? now - call.sent_ns : 0;
    costs.resends = call.resends;
    costs.timed_out = !result && result.error().code == Errc::timed_out;
    std::int32_t status = 0;  // of NFS: the first word of all results
    if (call.res != nullptr) std::memcpy(&status, call.res, sizeof status);
    costs.error = !result || status != 0;
    worker.stats_.note(call.proc_number, costs);
    if (!costs.error) note_payload(worker.stats_, call);
}

Worker::~Worker() {
    NR_ASSERT(jobs_.empty() && buried_.empty());
}

FilePools& Worker::files() {
    if (files_ == nullptr) {
        files_ =
            std::make_unique<FilePools>(*client_, mount_->limits.payload, mount_->options.no_ac);
    }
    return *files_;
}

void Worker::join(Mount& mount, std::uint32_t index) noexcept {
    mount_ = &mount;
    index_ = index;
    mount.workers.push_back(this);
}

void Worker::serve(int fd, fuse_session* session) noexcept {
    serve_fd_ = fd;
    session_ = session;
    loop_->post(serve_task_);
}

void Worker::on_serve(Task& task) noexcept {
    Worker& worker = static_cast<WorkerTask&>(task).worker;
    if (!worker.channel_.start(worker.serve_fd_, worker.session_)) worker.mount().end();
}

void Worker::run() noexcept {
    while (!mount_->ended())
        loop_->run();
}

nfs::client::Outcome Worker::wait_for(nfs::client::Op& op, std::uint64_t timeout_ns) noexcept {
    bool answered = false;
    op.user = &answered;
    op.done = [](nfs::client::Op& done) noexcept { *static_cast<bool*>(done.user) = true; };
    client_->start(op);
    const auto finished = [](void* arg) { return *static_cast<bool*>(arg); };
    const std::uint64_t end = loop_->now_ns() + std::min(timeout_ns, tool::kForEverNs);
    // A stop() that came before ends the first of these.
    for (int i = 0; i < 2 && !answered && loop_->now_ns() < end; ++i)
        (void)loop_->run_until(finished, &answered, end - loop_->now_ns());
    if (!answered) client_->cancel(op);
    return op.outcome;
}

void Worker::adopt(std::unique_ptr<Job> job) noexcept {
    jobs_.push_back(*job.release());
}

std::unique_ptr<Job> Worker::take(Job& job) noexcept {
    jobs_.erase(job);
    return std::unique_ptr<Job>(&job);
}

// Its op may be in the middle of telling it: it goes in the next turn.
void Worker::end(Job& job) noexcept {
    jobs_.erase(job);
    buried_.push_back(job);
    if (std::exchange(bury_ready_, true)) return;
    loop_->ready(bury_task_);
}

void Worker::on_bury(Task& task) noexcept {
    Worker& worker = static_cast<WorkerTask&>(task).worker;
    const std::lock_guard guard(worker.mount().lock);
    worker.bury_ready_ = false;
    while (!worker.buried_.empty())
        const std::unique_ptr<Job> ends(&worker.buried_.pop_front());
}

void Worker::note_interrupt() noexcept {
    if (std::exchange(look_posted_, true)) return;
    loop_->post(look_task_);
}

void Worker::on_look(Task& task) noexcept {
    Worker& worker = static_cast<WorkerTask&>(task).worker;
    {
        const std::lock_guard guard(worker.mount().lock);
        worker.look_posted_ = false;
    }
    worker.look_at_interrupts();
}

void Worker::on_grace(Timer& timer) noexcept {
    static_cast<WorkerTimer&>(timer).worker.look_at_interrupts();
}

// Jobs that were interrupted get time to end by themselves: signals with handlers come all the
// time, and a system call that fails of them is more than their programs expect.
void Worker::look_at_interrupts() noexcept {
    std::vector<Job*> due;
    {
        const std::lock_guard guard(mount_->lock);
        const std::uint64_t now = mount_->now_ns();
        bool more = false;
        for (Job& job : jobs_) {
            if (!job.interrupt_asked_) continue;
            more = true;
            if (now - job.interrupted_at_ns_ >= Job::kGraceNs) due.push_back(&job);
        }
        if (more) loop_->arm(grace_timer_, loop_->now_ns() + Job::kGraceNs / 3);
    }
    // They stay: none but this thread ends them, or takes them elsewhere.
    std::erase_if(due, [](const Job* job) {
        return !job->interrupted_ && job->only_fatal_ && fate_of(job->thread_) == Fate::lives;
    });
    give_up(due);
}

void Worker::give_up(const std::vector<Job*>& due) noexcept {
    std::vector<nfs::client::Op*> given_up;
    {
        const std::lock_guard guard(mount_->lock);
        for (Job* const job : due) {
            job->interrupted_ = true;
            if (job->under_way_ != nullptr) given_up.push_back(job->under_way_);
        }
        for (Job* const job : due)
            if (job->under_way_ == nullptr) job->give_up();
    }
    // Their jobs are told from inside of this, and take the lock.
    for (nfs::client::Op* const op : given_up)
        client_->cancel(*op);
}

void Worker::look_for_dying() noexcept {
    std::vector<Job*> dying;
    {
        const std::lock_guard guard(mount_->lock);
        for (Job& job : jobs_)
            if (!job.interrupt_asked_ && job.thread_ != 0) dying.push_back(&job);
    }
    std::erase_if(dying, [](const Job* job) { return fate_of(job->thread_) != Fate::dies; });
    const std::lock_guard guard(mount_->lock);
    for (Job* const job : dying)
        Job::on_interrupt(nullptr, job);
}

void Worker::hang_up() noexcept {
    channel_.stop();
    loop_->disarm(grace_timer_);
    if (connections_ == nullptr) return;
    connections_->close();
    if (client_ != nullptr) client_->hurry();
}

bool Worker::idle() const noexcept {
    if (connections_ == nullptr) return true;
    return connections_->idle() && jobs_.empty() && buried_.empty();
}

bool Worker::close(std::uint64_t patience_ns) noexcept {
    hang_up();
    const auto is_idle = [](void* arg) { return static_cast<Worker*>(arg)->idle(); };
    bool home = false;
    for (int i = 0; i < 2 && !home; ++i)
        home = loop_->run_until(is_idle, this, patience_ns);
    return home;
}

}  // namespace nfsrdma::mount
