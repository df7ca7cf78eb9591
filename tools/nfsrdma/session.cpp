#include "tools/nfsrdma/session.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <utility>

#include "devices/open.hpp"
#include "tools/nfsrdma/patience.hpp"
#include "tools/nfsrdma/stats.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint64_t kGoodbyeNs = 5 * kNsPerSec;
constexpr std::uint64_t kGoodbyeInterruptedNs = kNsPerSec;  // nobody likes to press it twice
constexpr double kConnectMaxS = 10;                         // a host that is there answers in less
constexpr double kMountMaxS = 10;                           // and so does its mountd
constexpr std::uint64_t kNewsNs = 5 * kNsPerSec;            // a shorter absence is no news
// Linux's server grants no more; each has 1 MiB of memory here.
constexpr std::uint32_t kCreditsMax = 64;

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

// So that --jobs files of one request each are all under way at once.
pools::Demand Session::demand() const noexcept {
    pools::Demand demand;
    demand.credits =
        credits_each(std::clamp(options_.jobs, demand.credits, kCreditsMax), options_.nconnect);
    return demand;
}

bool Session::open_device(const SockAddr& server) {
    Result<devices::Request> request = devices::request_of(options_, server);
    if (!request) {
        complain("", "--bind " + options_.bind + ": " + to_string(request.error()));
        return false;
    }
    request->demand = demand();
    request->connections = options_.nconnect;
    Result<devices::Opened> opened = devices::open(*loop_, *request);
    if (!opened) {
        complain("", devices::explain(*request, opened.error()));
        return false;
    }
    if (request->choice.kind == devices::Kind::automatic) complain("", opened->line);
    device_ = std::move(opened->device);
    return true;
}

bool Session::open_transport(const SockAddr& server) {
    xprtrdma::TransportOptions how;
    how.demand = demand();
    how.registration = devices::registration_of(options_);
    how.connect_timeout_ns = to_ns(std::min(options_.timeout_s, kConnectMaxS));
    how.reply_timeout_ns = to_ns(options_.timeout_s);
    how.recovery = recovery_of(options_);
    // An attempt that is repeated need not be long.
    if (how.recovery.first_too)
        how.connect_timeout_ns = std::min(how.connect_timeout_ns, how.recovery.try_timeout_ns);
    std::optional<Result<void>> outcome;
    const auto connected_to = [](void* arg, Result<void> result) noexcept {
        *static_cast<std::optional<Result<void>>*>(arg) = result;
    };
    auto connections =
        Connections::create(*device_, server, how, options_.nconnect, connected_to, &outcome);
    if (!connections) {
        complain(server_.server(), "cannot connect: " + to_string(connections.error()));
        return false;
    }
    connections_ = *std::move(connections);
    tell_of_absence();
    bool truncated = false;
    const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
    nfs_ = std::make_unique<nfs::client::Client>(connections_->xprt(), &sys);
    nfs_->timeout_ns = nfs_->jukebox_ns = call_time_ns(options_);
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
    if (connections_->connected() < options_.nconnect) {
        complain("warning", "only " + std::to_string(connections_->connected()) + " of " +
                                std::to_string(options_.nconnect) +
                                " connections were made; going on with those" +
                                (connections_->recovering() != 0 ? ", and still trying" : ""));
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
    if (connections_ != nullptr) {
        connections_->close();
        const auto idle = [](void* arg) { return static_cast<Connections*>(arg)->idle(); };
        const std::uint64_t patience = interrupted_ ? kGoodbyeInterruptedNs : kGoodbyeNs;
        if (!loop_->run_until(idle, connections_.get(), patience)) {
            if (!interrupted_)
                complain(server_.server(), "the connection does not end; leaving without");
            (void)std::fflush(nullptr);
            ::_exit(status(kFailed));
        }
    }
    connections_.reset();
    device_.reset();
    if (signal_watch_ != nullptr) loop_->unwatch(*signal_watch_);
}

// Who waits for a server that is gone is told so, once, and when it is back.
void Session::tell_of_absence() {
    news_timer_.session = this;
    loop_->arm(news_timer_, loop_->now_ns() + kNewsNs);
}

void Session::on_news_timer(Timer& timer) noexcept {
    Session& session = *static_cast<NewsTimer&>(timer).session;
    if (session.connections_ != nullptr) session.tell_news(*session.connections_);
    session.loop_->arm(timer, session.loop_->now_ns() + kNewsNs);
}

// What lasts from one look to the next, and was not told yet; that all is well again, at once.
void Session::tell_news(const Connections& connections) {
    const std::uint32_t there = connections.connected();
    Presence now = Presence::all;
    if (connections.recovering() != 0) now = there == 0 ? Presence::none : Presence::some;
    const bool lasts = std::exchange(seen_, now) == now || now == Presence::all;
    if (now == told_ || !lasts) return;
    told_ = now;
    std::string news = "connected again";
    if (now != Presence::all) {
        news = now == Presence::none ? "no connection"
                                     : std::to_string(there) + " of " +
                                           std::to_string(connections.count()) + " connections";
        if (const Error* const why = connections.why_down())
            news += " (" + connect_trouble(*why, server_) + ")";
        news += "; still trying";
    }
    complain(server_.server(), news);
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
    if (session.connections_ != nullptr) session.connections_->close();
    if (session.nfs_ != nullptr) session.nfs_->hurry();
}

std::vector<Statistic> Session::statistics(const Moved& moved) {
    return statistics_of(connections_->counters(), connections_->io_counters(),
                         nfs_->rpc_counters(), nfs_->counters(), moved);
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
