// nfsrdmad: builds the world (loops, devices, exports, listeners), serves until it is told to end,
// and takes it down in order. The main thread only waits for signals.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "base/file_mapping.hpp"
#include "devices/open.hpp"
#include "nfs/identity.hpp"
#include "tools/nfsrdmad/export_set.hpp"
#include "tools/nfsrdmad/handles.hpp"
#include "tools/nfsrdmad/handles_check.hpp"
#include "tools/nfsrdmad/notify.hpp"
#include "tools/nfsrdmad/options.hpp"
#include "tools/nfsrdmad/services.hpp"
#include "tools/nfsrdmad/stats.hpp"
#include "tools/nfsrdmad/worker.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

constexpr std::uint64_t kGraceNs = 2 * kNsPerSec;
constexpr std::time_t kTidySeconds = 2;
constexpr int kFailed = 1, kBadConfig = 2;  // exit status

int complain(const std::string& what, const Error& error) {
    const std::string why = error.code == Errc::system && error.sys != 0
                                ? std::string(strerrordesc_np(error.sys))
                                : to_string(error);
    static_cast<void>(std::fprintf(stderr, "nfsrdmad: %s: %s\n", what.c_str(), why.c_str()));
    return 1;
}

// What went wrong, or may be, with the exports.
void tell(const nfs::ExportIssues& issues, bool at_start) {
    for (const std::string& text : issues.notes)
        log::debug("{}", text);
    for (const std::string& text : issues.warnings)
        log::warn("{}", text);
    for (const std::string& text : issues.errors) {
        if (at_start) {
            static_cast<void>(std::fprintf(stderr, "nfsrdmad: %s\n", text.c_str()));
        } else {
            log::error("{}", text);
        }
    }
}

// False when they would not do.
bool tell(const HandlesCheck& handles) {
    for (const std::string& text : handles.errors)
        static_cast<void>(std::fprintf(stderr, "nfsrdmad: %s\n", text.c_str()));
    return handles.errors.empty();
}

int status_of(LoadStatus status) {
    switch (status) {
        case LoadStatus::ok:
            return 0;
        case LoadStatus::bad_config:
            return kBadConfig;
        case LoadStatus::bad_directory:
            return kFailed;
    }
    return kFailed;
}

nfs::IdentityOptions identity_options(const Options& options) {
    nfs::IdentityOptions out;
    out.manage_gids = options.manage_gids;
    return out;
}

class Daemon {
  public:
    explicit Daemon(const Options& options)
        : options_(options),
          identity_(identity_options(options), clock_),
          exports_(options, posix_options(identity_, options.handles)),
          services_(options.services, server_, options.loops) {}
    ~Daemon() {
        workers_joined();
        // Listeners before devices, devices before loops.
        for (auto& worker : workers_)
            worker->close_listener();
        devices_.reset();
    }
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    int run() {
        if (!prepare_handles()) return kFailed;
        nfs::ExportIssues issues;
        const LoadStatus loaded = exports_.load(server_, issues);
        tell(issues, true);
        if (loaded != LoadStatus::ok) return status_of(loaded);
        if (!make_loops() || !make_devices() || !listen()) return kFailed;
        for (auto& worker : workers_)
            worker->start();
        if (!services_.start(workers_, workers_.front()->local())) {
            static_cast<void>(end());
            return kFailed;
        }
        const std::string line = describe();
        static_cast<void>(std::printf("nfsrdmad: %s\n", line.c_str()));
        static_cast<void>(std::fflush(stdout));
        notify_.ready(line);
        wait_for_end();
        notify_.stopping();
        services_.stop();
        const bool in_order = end();
        workers_joined();
        write_stats();
        return in_order ? 0 : 1;
    }

  private:
    static nfs::VfsPosixOptions posix_options(nfs::Identity& identity,
                                              const HandleOptions& handles) {
        nfs::VfsPosixOptions posix;
        posix.identity = &identity;
        posix.state_dir = handles.state_dir;
        posix.places_max = handles.places_max;
        posix.map_files = static_cast<bool>(FileMapping::allow());
        return posix;
    }

    bool prepare_handles() {
        if (!tell(check_handles(options_.handles))) return false;
        const Result<void> made = make_state_dir(options_.handles);
        if (!made) return complain(options_.handles.state_dir, made.error()) == 0;
        std::string where;
        auto key = handle_key_of(options_.handles, where);
        if (!key) return complain(where, key.error()) == 0;
        server_.set_handle_key(*key);
        log::info("file handles are signed by {}", where);
        return true;
    }

    // Address, device, exports, limits and identity, in one line.
    std::string describe() const {
        const svcrdma::ServerOptions limits = Worker::server_options({});
        const std::string loops = std::to_string(options_.loops);
        return "serving " + summary(server_) + " on " + workers_.front()->local().to_string() +
               " (" + devices_->name() + ", " + loops + (options_.loops == 1 ? " loop" : " loops") +
               "; up to " + std::to_string(limits.connections_max * options_.loops) +
               " connections of " + std::to_string(limits.demand.credits) + " calls of " +
               std::to_string(limits.demand.max_payload >> 10) + " KiB); " + identity_.describe();
    }

    void workers_joined() {
        for (auto& worker : workers_)
            worker->join();
    }

    bool make_loops() {
        LoopOptions loop;
        loop.backend = options_.loop;
        for (std::uint32_t i = 0; i < options_.loops; ++i) {
            auto worker = Worker::create(loop);
            if (!worker) return complain("cannot make an event loop", worker.error()) == 0;
            workers_.push_back(*std::move(worker));
        }
        return true;
    }

    bool make_devices() {
        std::vector<Loop*> loops;
        for (auto& worker : workers_) {
            if (!services_.prepare(*worker)) return false;
            loops.push_back(&worker->loop());
        }
        devices::Request request;
        request.choice = options_.device;
        request.address = options_.listen;
        request.passive = true;
        request.bind = options_.listen.with_port(options_.roce_port);
        request.faults = options_.faults;
        request.server = workers_.front()->server_options();
        auto devices = devices::DeviceSet::create(loops, request);
        if (!devices) {
            static_cast<void>(std::fprintf(stderr, "nfsrdmad: %s\n",
                                           devices::explain(request, devices.error()).c_str()));
            return false;
        }
        devices_ = *std::move(devices);
        if (!devices::is_softroce(devices_->device(0))) {
            // The kernel takes requests to its devices from the credentials alone that opened them.
            identity_.keep_thread();
            for (auto& worker : workers_)
                worker->keep_identity(identity_);
        }
        if (options_.device.kind == devices::Kind::automatic)
            log::info("--device auto takes {}", devices_->line());
        return true;
    }

    bool listen() {
        SockAddr local = options_.listen;
        for (std::uint32_t i = 0; i < options_.loops; ++i) {
            const Result<void> listening =
                workers_[i]->listen(devices_->device(i), local, server_, options_.registration);
            if (!listening) {
                return complain("cannot listen on " + local.to_string(), listening.error()) == 0;
            }
            local = workers_[i]->local();  // port 0: all take what the first was given
        }
        return true;
    }

    // SIGTERM or SIGINT, until then counters when asked for.
    void wait_for_end() {
        for (;;) {
            const timespec patience{kTidySeconds, 0};
            const int got = ::sigtimedwait(&signals(), nullptr, &patience);
            if (got == SIGTERM || got == SIGINT) return;
            if (got == SIGUSR1) write_stats();
            if (got == SIGHUP) reload();
            if (got < 0 && errno == EAGAIN) server_.tidy();
        }
    }

    // Connections and calls go on meanwhile; a file with errors changes nothing.
    void reload() {
        notify_.reloading();
        nfs::ExportIssues issues;
        const LoadStatus loaded = exports_.load(server_, issues);
        tell(issues, false);
        if (loaded == LoadStatus::ok) {
            log::info("exports reloaded: {}", summary(server_));
        } else {
            log::error("exports not reloaded: those from before stay");
        }
        notify_.ready(describe());
    }

    // False when a second signal did not let it finish.
    bool end() {
        log::info("ending: requests in progress have {} s", kGraceNs / kNsPerSec);
        for (auto& worker : workers_)
            worker->shut_down(kGraceNs);
        for (;;) {
            const bool over = std::all_of(workers_.begin(), workers_.end(),
                                          [](const auto& worker) { return worker->done(); });
            if (over) return true;
            const timespec patience{0, 5 * static_cast<long>(kNsPerMs)};
            const int got = ::sigtimedwait(&signals(), nullptr, &patience);
            if (got == SIGTERM || got == SIGINT) ::_exit(1);
        }
    }

    void write_stats() {
        if (options_.stats_file.empty()) return;
        std::vector<LoopStats> loops;
        for (auto& worker : workers_)
            loops.push_back(worker->stats());
        const Result<void> written = write_file(options_.stats_file, to_json(loops));
        if (!written) log::error("{}: {}", options_.stats_file, to_string(written.error()));
    }

  public:
    static const sigset_t& signals() {
        static const sigset_t set = [] {
            sigset_t s;
            sigemptyset(&s);
            for (const int number : {SIGTERM, SIGINT, SIGUSR1, SIGHUP})
                sigaddset(&s, number);
            return s;
        }();
        return set;
    }

  private:
    const Options& options_;
    const RealClock clock_;
    // Before any other thread is there.
    const Notify notify_{std::getenv("NOTIFY_SOCKET")};  // NOLINT(concurrency-mt-unsafe)
    nfs::Identity identity_;
    nfs::Server server_;
    ExportSet exports_;  // its backends go before the identity that they act by
    Services services_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unique_ptr<devices::DeviceSet> devices_;
};

// --check: what would be served goes to stdout, what is wrong to stderr.
int check(const Options& options) {
    std::vector<nfs::ExportSpec> specs;
    nfs::ExportIssues issues;
    const ExportSet exports(options, {});
    const LoadStatus planned = exports.plan(specs, issues);
    tell(issues, true);
    const HandlesCheck handles = check_handles(options.handles);
    if (!tell(handles) || planned != LoadStatus::ok) return kBadConfig;
    std::string list = listing(specs);
    for (const std::string& text : handles.plan)
        list += text + "\n";
    list += to_string(options.services.peers) + "\n";
    const RealClock clock;
    const std::string who = nfs::Identity(identity_options(options), clock).describe();
    static_cast<void>(std::printf(
        "nfsrdmad: would serve on %s (%s, %u %s); %s:\n%s", options.listen.to_string().c_str(),
        devices::to_string(options.device).c_str(), options.loops,
        options.loops == 1 ? "loop" : "loops", who.c_str(), list.c_str()));
    return std::fflush(stdout) == 0 ? 0 : kFailed;
}

// Whoever reaches the address has what the exports give to everybody.
void warn_of(const Options& options) {
    if (!options.listen.is_loopback()) {
        for (const ExportOption& entry : options.exports) {
            if (entry.has_options) continue;
            log::warn(
                "serving on {}: whoever reaches this address acts on {} as this process's user",
                options.listen.address_to_string(), entry.path);
        }
    }
    if (options.registration == pools::Registration::fixed) {
        log::warn(
            "--registration static: memory keys stay valid for as long as their connection. "
            "Use it to measure, not to serve.");
    }
}

int run(int argc, const char* const* argv) {
    Options options;
    int status = 0;
    if (!parse_options(argc, argv, options, status)) return status;
    log::set_level(options.log_level);
    if (options.check) return check(options);
    // Before any thread: all inherit it, and the main thread alone takes them.
    if (::pthread_sigmask(SIG_BLOCK, &Daemon::signals(), nullptr) != 0) return 1;
    if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) return 1;
    nfs::Identity::obey_limits();
    ::umask(0);  // modes are the clients' business
    warn_of(options);
    return Daemon(options).run();
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad

int main(int argc, char** argv) {
    return nfsrdma::nfsrdmad::run(argc, argv);
}
