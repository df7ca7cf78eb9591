#include "tools/nfsrdma/session.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/device/open.hpp"
#include "tools/nfsrdma/stats.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint64_t kGoodbyeNs = 5 * kNsPerSec;
constexpr std::uint64_t kGoodbyeInterruptedNs = kNsPerSec;  // nobody likes to press it twice
constexpr double kConnectMaxS = 10;                         // a host that is there answers in less
constexpr double kMountMaxS = 10;                           // and so does its mountd
// Linux's server grants no more; each has 1 MiB of memory here.
constexpr std::uint32_t kCreditsMax = 64;

std::uint64_t to_ns(double seconds) noexcept {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(kNsPerSec));
}

std::string connect_trouble(const Error& error, const Url& url) {
    switch (error.code) {
        case Errc::refused:
            return "connection refused: nothing listens there for NFS over RDMA; start nfsrdmad on "
                   "that host, or "
                   "give its port as nfs://" +
                   url.host + ":PORT/...";
        case Errc::timed_out:
        case Errc::reconnect:  // the attempt was given up
            return "no answer: check that the host runs nfsrdmad and that UDP port 4791 passes the "
                   "firewalls "
                   "between here and there";
        case Errc::again:
        case Errc::too_big:
        case Errc::bad_message:
        case Errc::unsupported:
        case Errc::closed:
        case Errc::invalid_argument:
        case Errc::system:
            return "cannot connect: " + to_string(error);
    }
    return "cannot connect";
}

}  // namespace

std::unique_ptr<Session> Session::open(const Options& options, const Url& url, bool mounted,
                                       int& status) {
    std::unique_ptr<Session> session(new Session);
    session->options_ = options;
    session->server_ = url;
    if (options.registration == "static") {
        complain("warning",
                 "--registration static leaves this process's whole buffer memory open to the "
                 "server for as long as it is "
                 "connected; use it for measurements among machines that you trust");
    }
    if (!session->connect() || (mounted && !session->mount(url.path))) {
        if (session->interrupted_) complain("", "interrupted");
        status = session->status(kFailed);
        return nullptr;
    }
    session->client().limit_sizes(options.rsize, options.wsize);
    status = kOk;
    return session;
}

bool Session::connect() {
    Result<SockAddr> server = SockAddr::resolve(server_.host, server_.port);
    if (!server) {
        complain(server_.host, "unknown host: " + to_string(server.error()));
        return false;
    }
    Result<std::unique_ptr<Loop>> loop = Loop::create(devices::loop_options(options_));
    if (!loop) {
        complain("", "cannot start: " + to_string(loop.error()) +
                         (options_.loop == "io_uring" ? "; try --loop epoll" : ""));
        return false;
    }
    loop_ = *std::move(loop);
    catch_signals();
    return open_device(*server) && open_transport(*server);
}

bool Session::open_device(const SockAddr& server) {
    devices::Request request;
    request.choice = devices::parse_choice(options_.device).value_or(devices::Choice{});
    request.address = server;
    if (!options_.bind.empty()) {
        Result<SockAddr> bind = SockAddr::parse(options_.bind, 0);
        if (!bind) {
            complain("", "--bind " + options_.bind + ": " + to_string(bind.error()));
            return false;
        }
        request.bind = *bind;
    }
    Result<devices::Opened> opened = devices::open(*loop_, request);
    if (!opened) {
        complain("", devices::explain(request, opened.error()));
        return false;
    }
    if (request.choice.kind == devices::Kind::automatic) complain("", opened->line);
    device_ = std::move(opened->device);
    return true;
}

bool Session::open_transport(const SockAddr& server) {
    xprtrdma::TransportOptions how;
    // So that --jobs files of one request each are all under way at once.
    how.demand.credits = std::clamp(options_.jobs, how.demand.credits, kCreditsMax);
    how.registration = devices::registration_of(options_);
    how.connect_timeout_ns = to_ns(std::min(options_.timeout_s, kConnectMaxS));
    how.reply_timeout_ns = to_ns(options_.timeout_s);
    std::optional<Result<void>> outcome;
    const auto connected_to = [](void* arg, Result<void> result) noexcept {
        *static_cast<std::optional<Result<void>>*>(arg) = result;
    };
    auto transport = xprtrdma::Transport::create(*device_, server, how, connected_to, &outcome);
    if (!transport) {
        complain(server_.server(), "cannot connect: " + to_string(transport.error()));
        return false;
    }
    transport_ = *std::move(transport);
    bool truncated = false;
    const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
    nfs_ = std::make_unique<nfs::client::Client>(*transport_, &sys);
    nfs_->timeout_ns = nfs_->jukebox_ns = to_ns(options_.timeout_s);
    identity_ = "uid " + std::to_string(sys.uid) + ", gid " + std::to_string(sys.gid);
    client_ = nfs_.get();
    MountOptions mounting;
    mounting.proto = mount_proto_of(options_.mount_proto);
    mounting.port = options_.mount_port;
    mounting.timeout_ns = to_ns(std::min(options_.timeout_s, kMountMaxS));
    mounting.interrupt_fd = signal_fd_.get();
    mounts_.use(mounting, server, sys);
    // A signal closes the transport, which ends this as well.
    wait_until([&] { return outcome.has_value(); });
    if (!*outcome) {
        if (!interrupted_) complain(server_.server(), connect_trouble(outcome->error(), server_));
        return false;
    }
    if (truncated) {
        complain("warning",
                 "this user is in more than 16 groups; the server is told 16 of them (AUTH_SYS has "
                 "no room)");
    }
    return true;
}

Session::~Session() {
    if (!export_.empty() && client_ != nullptr && connected() && !interrupted_) {
        nfs_->timeout_ns = kNsPerSec;
        mounts_.set_timeout(kNsPerSec);
        (void)mounts_.umnt(export_);  // the server's list of mounts is but a courtesy
    }
    nfs_.reset();
    if (transport_ != nullptr) {
        transport_->close();
        const auto idle = [](void* arg) { return static_cast<xprtrdma::Transport*>(arg)->idle(); };
        const std::uint64_t patience = interrupted_ ? kGoodbyeInterruptedNs : kGoodbyeNs;
        if (!loop_->run_until(idle, transport_.get(), patience)) {
            if (!interrupted_)
                complain(server_.server(), "the connection does not end; leaving without");
            (void)std::fflush(nullptr);
            ::_exit(status(kFailed));
        }
    }
    transport_.reset();
    device_.reset();
    if (signal_watch_ != nullptr) loop_->unwatch(*signal_watch_);
}

// The first signal ends the connection, and with it, in order, all that waits for an answer; the
// second one kills.
void Session::catch_signals() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    if (::pthread_sigmask(SIG_BLOCK, &set, nullptr) != 0) return;
    signal_fd_.reset(::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC));
    if (!signal_fd_) return;
    signal_watch_ = std::make_unique<SignalWatch>(on_signal);
    signal_watch_->session = this;
    signal_watch_->fd = signal_fd_.get();
    signal_watch_->events = POLLIN;
    if (!loop_->watch(*signal_watch_)) signal_watch_.reset();
}

void Session::on_signal(FdWatch& watch, std::uint32_t /*events*/) noexcept {
    Session& session = *static_cast<SignalWatch&>(watch).session;
    session.interrupted_ = true;
    session.loop_->unwatch(watch);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    signalfd_siginfo info{};
    // Read it, or it kills us at once when it is no longer blocked.
    const ssize_t size = ::read(session.signal_fd_.get(), &info, sizeof info);
    session.signal_ = size == sizeof info ? static_cast<int>(info.ssi_signo) : SIGINT;
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    if (session.transport_ != nullptr) session.transport_->close();
    if (session.nfs_ != nullptr) session.nfs_->hurry();
}

std::vector<Statistic> Session::statistics(const Moved& moved) {
    return statistics_of(transport_->counters(), transport_->io_counters(), nfs_->rpc_counters(),
                         moved);
}

void Session::print_stats(const Moved& moved) {
    if (interrupted_) complain("", "interrupted");
    if (options_.stats) (void)std::fputs(to_text(statistics(moved)).c_str(), stderr);
}

void Session::print_summary(const Moved& moved, JsonObject object, std::FILE* to) {
    print_stats(moved);
    if (!options_.json) return;
    add_to(object, statistics(moved));
    (void)std::fputs(object.line().c_str(), to);
}

}  // namespace nfsrdma::tool
