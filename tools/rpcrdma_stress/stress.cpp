#include "tools/rpcrdma_stress/stress.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"

namespace nfsrdma::stress {
namespace {

constexpr std::uint64_t kForeverNs = 365ull * 24 * 3600 * kNsPerSec;
constexpr std::uint64_t kTickNs = 5 * kNsPerMs;
constexpr std::uint64_t kGoodbyeNs = 10 * kNsPerSec;
constexpr std::uint64_t kStopNs = 30 * kNsPerSec;
constexpr std::uint32_t kStripeBytes = 64 << 10;
constexpr std::uint32_t kRoundsAtFirst = 16;  // of stripes; the workers make more
// Beyond twice the time for an answer, in which a lost connection is made again and a call on it
// waits for its answer: then the server is taken for dead.
constexpr std::uint64_t kSilenceNs = 20 * kNsPerSec;
// After the end of its time a run makes its last steps and reads what there is, at this pace at
// least.
constexpr std::uint64_t kLastNs = 120 * kNsPerSec;
constexpr double kSlowestBytesPerS = 1 << 20;

std::uint64_t to_ns(double seconds) {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(kNsPerSec));
}

PlanOptions plan_of(const Options& options) {
    PlanOptions plan;
    plan.seed = options.seed;
    plan.files = options.files;
    plan.file_bytes = options.file_bytes;
    plan.common_bytes = kStripeBytes;
    plan.cancel_rate = options.cancel_rate;
    plan.disconnect_rate = options.disconnect_rate;
    return plan;
}

}  // namespace

Stress::Stress(verbs::Device& device, const SockAddr& server, const tool::Url& url,
               const Options& options)
    : device_(device),
      server_(server),
      url_(url),
      options_(options),
      plan_options_(plan_of(options)),
      content_(options.seed, options.connections * options.depth, options.file_bytes) {}

Stress::~Stress() {
    NR_ASSERT(connections_.empty());
}

bool Stress::enough(std::uint64_t steps_done) const noexcept {
    if (interrupted_) return true;
    if (options_.ops != 0) return steps_done >= div_ceil(options_.ops, std::uint64_t{workers()});
    return device_.loop().now_ns() >= end_ns_;
}

void Stress::mismatch(const Worker& worker, const std::string& what) noexcept {
    if (!result_.mismatch.empty()) return;
    result_.mismatch = what;
    result_.before.assign(worker.history().begin(), worker.history().end());
}

void Stress::trouble(const std::string& what) noexcept {
    if (!stopped()) result_.trouble = what;
}

void Stress::note_verifier(const char* verifier) noexcept {
    std::array<char, NFS3_WRITEVERFSIZE> now{};
    std::memcpy(now.data(), verifier, now.size());
    if (verifier_ && *verifier_ != now) ++result_.tally.write_verifiers;
    verifier_ = now;
}

bool Stress::connection_busy(const Connection& connection) const noexcept {
    return std::any_of(workers_.begin(), workers_.end(),
                       [&](const auto& worker) { return worker->calls(connection); });
}

void Stress::connection_up(Connection& connection) noexcept {
    for (const auto& worker : workers_)
        worker->connection_up(connection);
}

void Stress::connection_gone(Connection& connection) noexcept {
    for (const auto& worker : workers_)
        worker->connection_gone(connection);
}

void Stress::connection_lost(Connection& connection, const Error& why) noexcept {
    if (stopped()) return;
    const std::string what = "connection " + std::to_string(connection.index()) + " to " +
                             url_.server() + ": " + to_string(why);
    if (why.code != Errc::reconnect || setting_up_) {
        trouble(what);
        return;
    }
    ++result_.tally.lost;
    if (!options_.tolerate_loss)
        trouble(what + ", without our doing (--tolerate-loss goes on after such)");
}

bool Stress::wait_until(const std::function<bool()>& done, std::uint64_t limit_ns) {
    const std::uint64_t end = loop().now_ns() + limit_ns;
    while (!done()) {
        if (loop().now_ns() >= end) return false;
        for (const auto& connection : connections_)
            connection->tick();
        if (done()) break;
        loop().run_once(kTickNs);
    }
    return true;
}

bool Stress::connect() {
    ConnectionOptions how;
    how.server = server_;
    how.transport.registration = devices::registration_of(options_);
    how.transport.demand = demand_of(options_);
    how.timeout_ns = how.transport.reply_timeout_ns = to_ns(options_.timeout_s);
    if (options_.hard) {
        how.transport.recovery.on = how.transport.recovery.first_too = true;
        how.timeout_ns = kForeverNs;
    }
    how.patience_ns = std::min(to_ns(options_.timeout_s), 60 * kNsPerSec);
    for (std::uint32_t i = 0; i < options_.connections; ++i)
        connections_.push_back(std::make_unique<Connection>(device_, how, i, *this));
    const auto all_up = [this] {
        return std::all_of(connections_.begin(), connections_.end(),
                           [](const auto& connection) { return connection->up(); });
    };
    if (!wait_until([&] { return all_up() || stopped() || interrupted_; },
                    2 * to_ns(options_.timeout_s) + kSilenceNs))
        trouble("cannot connect to " + url_.server() + ": neither accepted nor refused");
    return !stopped() && !interrupted_;
}

nfs::client::Outcome Stress::run(nfs::client::Op& op) {
    return calls_->run(op);
}

void Stress::choose_mount() {
    tool::MountOptions how;
    how.proto = tool::mount_proto_of(options_.mount_proto);
    how.port = options_.mount_port;
    bool truncated = false;
    calls_->mounts().use(how, server_, sunrpc::AuthSys::of_process(truncated));
}

bool Stress::set_up() {
    calls_ = std::make_unique<tool::Calls>(connections_.front()->client(), url_);
    choose_mount();
    if (!calls_->mount(url_.path)) {
        trouble("cannot mount " + url_.text());
        return false;
    }
    const tool::Found found = calls_->walk(url_, true);
    if (!found.outcome.ok() || found.attributes.type != NF3DIR) {
        trouble(url_.text() + ": " +
                (found.outcome.ok() ? "is no directory" : to_string(found.outcome)));
        return false;
    }
    parent_ = found.handle;
    nfs::client::FsinfoOp info;
    info.args.fsroot = parent_.view();
    if (const auto outcome = run(info); !outcome.ok()) {
        trouble("FSINFO: " + to_string(outcome));
        return false;
    }
    for (const auto& connection : connections_)
        connection->set_sizes(info.res.FSINFO3res_u.resok);
    return make_directories() && make_common_file();
}

nfs::client::FileHandle Stress::make_directory(const nfs::client::FileHandle& parent,
                                               std::string name) {
    nfs::client::MkdirOp op;
    op.args.where = {parent.view(), name.data()};
    op.args.attributes = {};
    op.args.attributes.mode.set_it = TRUE;
    op.args.attributes.mode.set_mode3_u.mode = 0755;
    const auto outcome = run(op);
    if (!outcome.ok()) {
        trouble("cannot make the directory " + name + ": " + to_string(outcome));
        return {};
    }
    if (op.object.empty()) trouble("the server gives no handles with MKDIR");
    return op.object;
}

bool Stress::make_directories() {
    // Not of the seed: what an earlier run left behind is not this run's.
    timespec now{};
    (void)std::timespec_get(&now, TIME_UTC);
    std::array<char, 40> name{};
    (void)std::snprintf(name.data(), name.size(), "rpcrdma-stress-%llx-%lx",
                        static_cast<unsigned long long>(now.tv_sec),
                        static_cast<unsigned long>(now.tv_nsec));
    name_ = name.data();
    directory_ = make_directory(parent_, name_);
    for (std::uint32_t i = 0; i < workers() && !stopped(); ++i) {
        const auto outer = make_directory(directory_, "w" + std::to_string(i));
        if (stopped()) break;
        directories_.push_back({outer, make_directory(outer, "sub")});
    }
    return !stopped();
}

bool Stress::make_common_file() {
    std::string name = "common";
    nfs::client::CreateOp create;
    create.args.where = {directory_.view(), name.data()};
    create.args.how.mode = UNCHECKED;
    sattr3& attributes = create.args.how.createhow3_u.obj_attributes;
    attributes.mode.set_it = TRUE;
    attributes.mode.set_mode3_u.mode = 0644;
    if (const auto outcome = run(create); !outcome.ok()) {
        trouble("cannot make a file: " + to_string(outcome));
        return false;
    }
    common_ = create.object;
    nfs::client::SetattrOp size;
    size.args.object = common_.view();
    size.args.new_attributes.size.set_it = TRUE;
    size.args.new_attributes.size.set_size3_u.size =
        kRoundsAtFirst * round_bytes(workers(), kStripeBytes);
    if (const auto outcome = run(size); !outcome.ok()) {
        trouble("cannot set the size of a file: " + to_string(outcome));
        return false;
    }
    common_rounds_ = kRoundsAtFirst;
    return true;
}

void Stress::work() {
    const std::uint64_t begin = loop().now_ns();
    if (options_.ops == 0) end_ns_ = begin + to_ns(options_.seconds);
    for (std::uint32_t i = 0; i < workers(); ++i)
        workers_.push_back(std::make_unique<Worker>(*this, i, i % options_.connections));
    for (std::uint32_t i = 0; i < workers(); ++i)
        workers_[i]->start(directories_[i][0], directories_[i][1]);
    const auto all_finished = [this] {
        return std::all_of(workers_.begin(), workers_.end(),
                           [](const auto& worker) { return worker->finished(); });
    };
    note_answer();
    if (work_begins_) work_begins_();
    (void)wait_until(
        [&] {
            watch();
            return stopped() || all_finished();
        },
        kForeverNs);
    result_.seconds = static_cast<double>(loop().now_ns() - begin) / 1e9;
    for (const auto& worker : workers_) {
        result_.steps += worker->steps();
        result_.fingerprint ^= Prng(worker->fingerprint() + worker->index()).next();
    }
    stop_workers();
    if (work_ends_) work_ends_();
}

// A server that lets calls wait for ever, or answers too slowly to come to an end, ends the run.
void Stress::watch() {
    if (stopped()) return;
    const std::uint64_t now = loop().now_ns();
    const std::uint64_t silence = 2 * to_ns(options_.timeout_s) + kSilenceNs;
    if (now - last_answer_ns_ > silence) {
        silent_ = true;
        trouble("the server has answered nothing for " + std::to_string(silence / kNsPerSec) +
                " s; " + who_waits());
        return;
    }
    if (interrupted_) end_ns_ = std::min(end_ns_, now);
    if (end_ns_ == UINT64_MAX || now < end_ns_) return;
    const double bytes = static_cast<double>(options_.file_bytes) * options_.files * workers();
    const std::uint64_t most = kLastNs + silence + to_ns(bytes / kSlowestBytesPerS);
    if (now - end_ns_ > most) {
        trouble("the run does not end: " + std::to_string(most / kNsPerSec) +
                " s after its time its files are not read yet; " + who_waits());
    }
}

std::string Stress::who_waits() const {
    for (const auto& worker : workers_) {
        if (!worker->finished()) {
            return "worker " + std::to_string(worker->index()) + " waits for " +
                   worker->last_call();
        }
    }
    return {};
}

void Stress::stop_workers() {
    closing_ = true;
    for (const auto& worker : workers_)
        worker->stop();
    const auto all_idle = [this] {
        return std::all_of(workers_.begin(), workers_.end(),
                           [](const auto& worker) { return worker->idle(); });
    };
    (void)wait_until(all_idle, kStopNs);
}

void Stress::close() {
    closing_ = true;
    calls_.reset();
    for (const auto& connection : connections_)
        connection->close();
    const auto all_closed = [this] {
        return std::all_of(connections_.begin(), connections_.end(),
                           [](const auto& connection) { return connection->closed(); });
    };
    if (!wait_until(all_closed, kGoodbyeNs)) {
        result_.ok = false;
        if (result_.trouble.empty()) result_.trouble = "a connection does not end";
        return;
    }
    for (const auto& connection : connections_) {
        result_.connects += connection->connects();
        add(result_.rdma, connection->counters());
    }
    if (const std::string bad = bad_answers(result_.rdma); !bad.empty()) {
        result_.ok = false;
        if (result_.mismatch.empty()) result_.mismatch = "the server sent " + bad;
    }
    workers_.clear();
    connections_.clear();
}

StressResult Stress::run() {
    if (connect() && set_up()) {
        setting_up_ = false;
        work();
    }
    setting_up_ = false;
    result_.ok = result_.trouble.empty() && result_.mismatch.empty();
    clean_up();
    close();
    return std::move(result_);
}

}  // namespace nfsrdma::stress
