// rpcrdma-stress: seeded load of many connections on one NFS server over RDMA, with every byte
// compared.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "devices/open.hpp"
#include "tools/rpcrdma_stress/report.hpp"
#include "tools/rpcrdma_stress/server_process.hpp"
#include "tools/rpcrdma_stress/stress.hpp"

namespace nfsrdma::stress {
namespace {

constexpr std::uint64_t kFileBytesLeast = 64 << 10;

void add_where(CLI::App& app, Options& options) {
    app.add_option(
        "--dir", options.dir,
        "nfs://HOST[:PORT]/EXPORT/DIRECTORY: works only inside a directory that it makes "
        "there, and removes it at the end");
    app.add_option("--serve", options.serve,
                   "instead of --dir: starts an nfsrdmad of its own that exports this directory");
    devices::add_client_options(
        app, options, 0.1,
        "seconds to wait for each answer, and for a server that takes no connections");
}

void add_faults(CLI::App& app, std::string& faults) {
    app.add_option("--faults", faults, verbs::softroce::kFaultsHelp)->type_name("SPEC");
}

void add_load(CLI::App& app, Options& options) {
    app.add_option("--seed", options.seed,
                   "of everything that is drawn: equal runs for equal seeds")
        ->capture_default_str();
    auto* seconds = app.add_option("--seconds", options.seconds, "how long")
                        ->check(CLI::Range(0.1, 1e7))
                        ->capture_default_str();
    app.add_option("--ops", options.ops, "how many steps instead, of all workers together")
        ->excludes(seconds);
    app.add_option("--connections", options.connections, "at a time")
        ->check(CLI::Range(1u, 256u))
        ->capture_default_str();
    app.add_option("--depth", options.depth, "workers of each connection: calls in flight")
        ->check(CLI::Range(1u, 128u))
        ->capture_default_str();
    app.add_option("--files", options.files, "of each worker")
        ->check(CLI::Range(1u, 1024u))
        ->capture_default_str();
    app.add_option("--file-size", options.file_bytes, "bytes of the largest file")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::Range(kFileBytesLeast, kOffsetMax))
        ->capture_default_str();
    app.add_option("--cancel-rate", options.cancel_rate, "steps whose call is cancelled, of 1")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_option("--disconnect-rate", options.disconnect_rate,
                   "steps at which a connection is ended and made again, of 1")
        ->check(CLI::Range(0.0, 1.0))
        ->capture_default_str();
    app.add_flag("--tolerate-loss", options.tolerate_loss,
                 "connections that are lost without our doing are made again: for a server that is "
                 "killed and started meanwhile");
    app.add_flag("--hard", options.hard,
                 "the client recovers by itself, for ever: no connection is ever lost, and no call "
                 "fails because one was");
    app.add_flag("--keep", options.keep, "the directory is left as it is at the end");
    app.add_flag("--json", options.json, "the result as one line of JSON on standard output");
}

// The first signal ends the run in order; the second one kills.
class Signals final : public FdWatch {
  public:
    Signals(Loop& loop, Stress& stress) : FdWatch(on_signal), loop_(loop), stress_(stress) {
        sigset_t set = both();
        if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return;
        fd_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
        fd = fd_.get();
        events = POLLIN;
        (void)loop_.watch(*this);
    }
    ~Signals() { loop_.unwatch(*this); }
    Signals(const Signals&) = delete;
    Signals& operator=(const Signals&) = delete;
    int number() const noexcept { return number_; }

  private:
    static sigset_t both() noexcept {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        return set;
    }
    static void on_signal(FdWatch& watch, std::uint32_t /*events*/) noexcept {
        Signals& self = static_cast<Signals&>(watch);
        signalfd_siginfo info{};
        const ssize_t size = ::read(self.fd_.get(), &info, sizeof info);
        self.number_ = size == sizeof info ? static_cast<int>(info.ssi_signo) : SIGINT;
        self.loop_.unwatch(watch);
        const sigset_t set = both();
        (void)::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
        self.stress_.interrupt();
    }
    Loop& loop_;
    Stress& stress_;
    UniqueFd fd_;
    int number_ = 0;
};

int trouble(const std::string& what) {  // also for what is but worth knowing
    (void)std::fprintf(stderr, "rpcrdma-stress: %s\n", what.c_str());
    return kFailed;
}

int stress(const Options& options, const tool::Url& url, std::unique_ptr<ServerProcess> own) {
    Result<SockAddr> found = SockAddr::resolve(url.host, url.port);
    if (!found) return trouble("unknown host " + url.host + ": " + to_string(found.error()));
    const SockAddr server = *found;
    Result<std::unique_ptr<Loop>> made = Loop::create(devices::loop_options(options));
    if (!made) return trouble("cannot start: " + to_string(made.error()));
    const std::unique_ptr<Loop> loop = *std::move(made);
    Result<devices::Request> request = devices::request_of(options, server);
    if (!request) return trouble("--bind " + options.bind + ": " + to_string(request.error()));
    request->demand = demand_of(options);
    request->connections = options.connections;
    request->faults = options.faults;
    request->fault_seed = options.seed;
    Result<devices::Opened> opened = devices::open(*loop, *request);
    if (!opened) return trouble(devices::explain(*request, opened.error()));
    if (request->choice.kind == devices::Kind::automatic) (void)trouble(opened->line);
    const std::unique_ptr<verbs::Device> device = std::move(opened->device);
    Stress run(*device, server, url, options);
    const Signals signals(*loop, run);
    std::optional<ServerFaults> faults;
    // What ends connections for sure comes while the workers run, who bear it.
    const auto let_fail = [&](bool begin) {
        if (devices::is_softroce(*device)) verbs::softroce::hold_kills(*device, !begin);
        if (own == nullptr || !options.faults.on_server()) return;
        if (!begin) return faults->end();
        faults.emplace(*loop, *own, options.faults, options.seed,
                       [&run](const std::string& what) { run.trouble(what); });
    };
    if (devices::is_softroce(*device)) verbs::softroce::hold_kills(*device, true);
    run.at_work([&] { let_fail(true); }, [&] { let_fail(false); });
    StressResult result = run.run();
    if (devices::is_softroce(*device)) result.faults = verbs::softroce::fault_counters(*device);
    if (faults) {
        result.server_kills = faults->kills();
        result.server_stops = faults->stops();
    }
    const std::string text = to_text(result, options);
    if (options.json) (void)std::fputs(to_json(result, options).c_str(), stdout);
    (void)std::fputs(text.c_str(), options.json ? stderr : stdout);
    (void)std::fflush(stdout);
    own.reset();
    if (!result.ok) ::_exit(kFailed);  // what is still in flight is not waited for
    return signals.number() == 0 ? kOk : kSignalBase + signals.number();
}

// What is wrong with the command line; empty: nothing.
std::string understand(Options& options, const std::string& faults) {
    std::string why;
    if (options.dir.empty() == options.serve.empty()) return "either --dir or --serve is needed";
    if (!options.serve.empty()) {
        std::error_code error;
        options.serve = std::filesystem::canonical(options.serve, error).string();
        if (error) return "--serve: " + error.message();
        if (devices::parse_choice(options.device)->kind == devices::Kind::rdmacore) {
            return "--serve starts a server of softroce, which --device " + options.device +
                   " does not reach";
        }
        options.device = "softroce";
    }
    const auto spec = verbs::softroce::parse_faults(faults, why);
    if (!spec) return "--faults: " + why;
    options.faults = *spec;
    if (spec->on_server() && options.serve.empty())
        return "--faults: kill= and stop= are for the server that --serve starts";
    if (spec->on_server() || spec->qp_kill_ns != 0) options.tolerate_loss = true;
    if (why = devices::check_client_options(options); !why.empty()) return why;
    if (std::uint64_t{options.connections} * options.depth > kWorkersMax)
        return "--connections times --depth is more than 4096";
    return {};
}

int run(int argc, char** argv) {
    Options options;
    CLI::App app(
        "Seeded load on an NFS server over RDMA: many connections, calls of all kinds and sizes, "
        "random cancels and disconnects, and every byte that comes back is compared with what it "
        "must be.");
    app.name("rpcrdma-stress");
    app.footer(
        "Exit status: 0 all was as it must be, 1 it was not (the first mismatch is described), 2 "
        "the command line is wrong, 130 interrupted. See rpcrdma-stress(1).");
    add_where(app, options);
    add_load(app, options);
    std::string faults;
    add_faults(app, faults);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        return app.exit(error) == 0 ? kOk : kUsage;
    }
    if (const std::string why = understand(options, faults); !why.empty()) {
        (void)trouble(why);
        return kUsage;
    }
    std::unique_ptr<ServerProcess> server;
    if (!options.serve.empty()) {
        auto started = ServerProcess::start(program_folder() + "/nfsrdmad", options.serve,
                                            faults_of_server(options.faults));
        if (!started) return trouble("cannot start nfsrdmad: " + to_string(started.error()));
        server = *std::move(started);
        options.dir = "nfs://" + server->address() + options.serve;
    }
    std::string why;
    const std::optional<tool::Url> url = tool::parse_url(options.dir, why);
    if (!url) {
        (void)trouble("--dir: " + why);
        return kUsage;
    }
    return stress(options, *url, std::move(server));
}

}  // namespace
}  // namespace nfsrdma::stress

int main(int argc, char** argv) {
    try {
        return nfsrdma::stress::run(argc, argv);
    } catch (const std::exception& error) {  // of libraries: out of memory
        (void)std::fprintf(stderr, "rpcrdma-stress: %s\n", error.what());
        return nfsrdma::stress::kFailed;
    }
}
