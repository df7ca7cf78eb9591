// nfsrdmad: builds the world (loops, devices, exports, listeners), serves until it is told to end,
// and takes it down in order. The main thread only waits for signals.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "nfs/vfs_posix.hpp"
#include "tools/nfsrdmad/options.hpp"
#include "tools/nfsrdmad/stats.hpp"
#include "tools/nfsrdmad/worker.hpp"
#include "verbs/softroce/group.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

namespace soft = verbs::softroce;

constexpr std::uint64_t kGraceNs = 2 * kNsPerSec;
constexpr std::time_t kTidySeconds = 2;
constexpr rlim_t kFilesWanted = 16384, kFilesReserved = 256;

int complain(const std::string& what, const Error& error) {
    const std::string why = error.code == Errc::system && error.sys != 0
                                ? std::string(strerrordesc_np(error.sys))
                                : to_string(error);
    static_cast<void>(std::fprintf(stderr, "nfsrdmad: %s: %s\n", what.c_str(), why.c_str()));
    return 1;
}

// Objects that each export may keep open, from the process's limit of descriptors, which is raised
// as far as allowed.
std::uint32_t open_files_each(std::size_t exports) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 64;
    const rlim_t wanted = std::min(limit.rlim_max, kFilesWanted);
    if (limit.rlim_cur < wanted) {
        limit.rlim_cur = wanted;
        if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) ::getrlimit(RLIMIT_NOFILE, &limit);
    }
    const rlim_t usable =
        limit.rlim_cur > 2 * kFilesReserved ? limit.rlim_cur - kFilesReserved : limit.rlim_cur / 2;
    constexpr rlim_t kDescriptorsEach = 3;
    return static_cast<std::uint32_t>(
        std::clamp<rlim_t>(usable / kDescriptorsEach / exports, 16, 4096));
}

bool add_exports(const Options& options, nfs::Server& server) {
    nfs::VfsPosixOptions posix;
    posix.open_files = open_files_each(options.exports.size());
    for (const ExportOption& entry : options.exports) {
        posix.fsid = nfs::export_id_of(nfs::normal_export_name(entry.name));
        auto vfs = nfs::VfsPosix::create(entry.path, posix);
        if (!vfs) return complain("cannot export " + entry.path, vfs.error()) == 0;
        const Result<void> added = server.add_export(entry.name, *std::move(vfs));
        if (!added) return complain("cannot export " + entry.path, added.error()) == 0;
    }
    return true;
}

std::string names_of(const nfs::Server& server) {
    std::string out;
    for (const auto& entry : server.exports()) {
        if (!out.empty()) out += ", ";
        out += entry->name;
    }
    return out;
}

class Daemon {
  public:
    explicit Daemon(const Options& options) : options_(options) {}
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
        if (!add_exports(options_, server_) || !make_loops() || !make_devices() || !listen()) {
            return 1;
        }
        for (auto& worker : workers_)
            worker->start();
        static_cast<void>(std::printf("nfsrdmad: serving %s on %s (softroce, %u %s)\n",
                                      names_of(server_).c_str(),
                                      workers_.front()->local().to_string().c_str(), options_.loops,
                                      options_.loops == 1 ? "loop" : "loops"));
        static_cast<void>(std::fflush(stdout));
        wait_for_end();
        const bool in_order = end();
        workers_joined();
        write_stats();
        return in_order ? 0 : 1;
    }

  private:
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
        for (auto& worker : workers_)
            loops.push_back(&worker->loop());
        soft::UdpOptions udp;
        udp.bind = options_.listen.with_port(options_.roce_port);
        soft::SoftOptions soft_options;
        auto devices = soft::DeviceGroup::create(loops, udp, soft_options);
        if (!devices) {
            const bool taken =
                devices.error().code == Errc::system && devices.error().sys == EADDRINUSE;
            const std::string what = "UDP port of the soft-RoCE device, " + udp.bind.to_string();
            return complain(taken ? what + ", is in use by another process" : what,
                            devices.error()) == 0;
        }
        devices_ = *std::move(devices);
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
            if (got < 0 && errno == EAGAIN) server_.tidy();
        }
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
            for (const int number : {SIGTERM, SIGINT, SIGUSR1})
                sigaddset(&s, number);
            return s;
        }();
        return set;
    }

  private:
    const Options& options_;
    nfs::Server server_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::unique_ptr<soft::DeviceGroup> devices_;
};

int run(int argc, const char* const* argv) {
    Options options;
    int status = 0;
    if (!parse_options(argc, argv, options, status)) return status;
    log::set_level(options.log_level);
    // Before any thread: all inherit it, and the main thread alone takes them.
    if (::pthread_sigmask(SIG_BLOCK, &Daemon::signals(), nullptr) != 0) return 1;
    if (std::signal(SIGPIPE, SIG_IGN) == SIG_ERR) return 1;
    ::umask(0);  // modes are the clients' business
    if (!options.listen.is_loopback()) {
        log::warn("serving on {}: whoever reaches this address acts as this process's user",
                  options.listen.address_to_string());
    }
    if (options.registration == pools::Registration::fixed) {
        log::warn(
            "--registration static: memory keys stay valid for as long as their connection. "
            "Use it to measure, not to serve.");
    }
    return Daemon(options).run();
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad

int main(int argc, char** argv) {
    return nfsrdma::nfsrdmad::run(argc, argv);
}
