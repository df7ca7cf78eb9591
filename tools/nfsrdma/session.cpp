#include "tools/nfsrdma/session.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "tools/nfsrdma/text.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/udp_wire.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::FileHandle;
using nfs::client::Outcome;

constexpr std::uint64_t kForeverNs = 365ull * 24 * 3600 * kNsPerSec;
constexpr std::uint64_t kGoodbyeNs = 5 * kNsPerSec;

Result<std::unique_ptr<Loop>> make_loop(const Options& options) {
    LoopOptions how;
    if (options.loop == "io_uring") how.backend = LoopBackend::io_uring;
    if (options.loop == "epoll") how.backend = LoopBackend::epoll;
    return Loop::create(how);
}

Result<std::unique_ptr<verbs::Device>> make_device(Loop& loop, const Options& options,
                                                   const SockAddr& server) {
    std::unique_ptr<verbs::softroce::Wire> wire;
    if (options.bind.empty()) {
        NR_TRY_ASSIGN(wire, verbs::softroce::create_udp_wire_towards(server));
    } else {
        verbs::softroce::UdpOptions udp;
        NR_TRY_ASSIGN(udp.bind, SockAddr::parse(options.bind, 0));
        NR_TRY_ASSIGN(wire, verbs::softroce::create_udp_wire(udp));
    }
    return verbs::softroce::create_device(loop, std::move(wire), {});
}

pools::Registration registration_of(const std::string& text) {
    if (text == "bind") return pools::Registration::bind;
    if (text == "static") return pools::Registration::fixed;
    return pools::Registration::automatic;
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

std::unique_ptr<Session> Session::open(const Options& options, const Url& url) {
    std::unique_ptr<Session> session(new Session);
    session->options_ = options;
    session->url_ = url;
    if (options.registration == "static") {
        complain("warning",
                 "--registration static leaves this process's whole buffer memory open to the "
                 "server for as long as it "
                 "is connected; use it for measurements among machines that you trust");
    }
    if (!session->connect(options, url) || !session->mount(url)) return nullptr;
    return session;
}

bool Session::connect(const Options& options, const Url& url) {
    Result<SockAddr> server = SockAddr::resolve(url.host, url.port);
    if (!server) {
        complain(url.host, "unknown host: " + to_string(server.error()));
        return false;
    }
    Result<std::unique_ptr<Loop>> loop = make_loop(options);
    if (!loop) {
        complain("", "cannot start: " + to_string(loop.error()) +
                         (options.loop == "io_uring" ? "; try --loop epoll" : ""));
        return false;
    }
    loop_ = *std::move(loop);
    catch_signals();
    Result<std::unique_ptr<verbs::Device>> device = make_device(*loop_, options, *server);
    if (!device) {
        complain("", "cannot open the softroce device" +
                         (options.bind.empty() ? "" : " at " + options.bind) + ": " +
                         to_string(device.error()) +
                         "; --bind ADDRESS[:PORT] chooses another address");
        return false;
    }
    device_ = *std::move(device);

    xprtrdma::TransportOptions how;
    how.registration = registration_of(options.registration);
    how.connect_timeout_ns =
        static_cast<std::uint64_t>(options.timeout_s * static_cast<double>(kNsPerSec));
    std::optional<Result<void>> outcome;
    const auto connected = [](void* arg, Result<void> result) noexcept {
        *static_cast<std::optional<Result<void>>*>(arg) = result;
    };
    auto transport = xprtrdma::Transport::create(*device_, *server, how, connected, &outcome);
    if (!transport) {
        complain(url.server(), "cannot connect: " + to_string(transport.error()));
        return false;
    }
    transport_ = *std::move(transport);
    wait_until([&] { return outcome.has_value() || interrupted_; });
    if (!outcome || !*outcome) {
        complain(url.server(), outcome ? connect_trouble(outcome->error(), url) : "interrupted");
        return false;
    }
    bool truncated = false;
    const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
    if (truncated) {
        complain("warning",
                 "this user is in more than 16 groups; the server is told the first 16 (AUTH_SYS "
                 "has no room)");
    }
    client_ = std::make_unique<nfs::client::Client>(*transport_, &sys);
    client_->timeout_ns = how.connect_timeout_ns;
    return true;
}

// What MOUNT knows tells where in the path the export ends; where it tells nothing, the path is
// tried from its end on.
bool Session::mount(const Url& url) {
    const std::string path = normal_path(url.path);
    std::vector<std::string> exports;
    Outcome outcome;
    if (find_export(path, exports)) {
        if (try_mount(export_, outcome)) return true;
        complain(url.server(), "cannot mount '" + export_ + "': " + to_string(outcome));
        return false;
    }
    if (exports.empty()) {
        for (std::string tried = path;;) {
            if (try_mount(tried, outcome)) return true;
            if (!outcome.rpc || tried == "/") break;
            tried = normal_path(tried.substr(0, tried.rfind('/')));
        }
    }
    std::string known;
    for (const std::string& name : exports)
        known += " " + name;
    complain(url.server(), "'" + path + "' is not exported: " +
                               (known.empty() ? to_string(outcome) : "the exports are" + known));
    return false;
}

bool Session::find_export(const std::string& path, std::vector<std::string>& exports) {
    nfs::client::ExportOp op;
    if (!run(op).ok()) return false;
    for (const mountexport3* entry = op.res.entries; entry != nullptr; entry = entry->ex_next) {
        if (entry->ex_dir == nullptr) continue;
        const std::string name = normal_path(entry->ex_dir);
        exports.push_back(name);
        if (is_path_prefix(name, path) && name.size() > export_.size()) export_ = name;
    }
    return !export_.empty();
}

bool Session::try_mount(const std::string& path, Outcome& outcome) {
    struct Waiting {
        bool finished = false;
    } waiting;
    nfs::client::MountFlow flow(*client_);
    flow.start(
        path.c_str(),
        [](nfs::client::MountFlow& f) noexcept { static_cast<Waiting*>(f.user)->finished = true; },
        &waiting);
    wait_until([&] { return waiting.finished; });
    outcome = flow.outcome;
    if (!outcome.ok()) return false;
    root_ = flow.root;
    export_ = path;
    mounted_ = true;
    client_->limit_sizes(options_.rsize, options_.wsize);
    return true;
}

Session::~Session() {
    if (mounted_ && connected() && !interrupted_) {
        nfs::client::UmntOp op;
        op.args.dirpath = export_.data();
        client_->timeout_ns = kNsPerSec;
        (void)run(op);  // the server's list of mounts is but a courtesy
    }
    client_.reset();
    if (transport_ != nullptr) {
        transport_->close();
        const auto idle = [](void* arg) { return static_cast<xprtrdma::Transport*>(arg)->idle(); };
        if (!loop_->run_until(idle, transport_.get(), kGoodbyeNs)) {
            complain(url_.server(), "the connection does not end; leaving without");
            std::fflush(nullptr);
            ::_exit(kFailed);
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
    (void)!::read(session.signal_fd_.get(), &info, sizeof info);
    ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    if (session.transport_ != nullptr) session.transport_->close();
}

void Session::wait_until(const std::function<bool()>& finished) {
    const auto ask = [](void* arg) { return (*static_cast<const std::function<bool()>*>(arg))(); };
    std::function<bool()> copy = finished;
    loop_->run_until(ask, &copy, kForeverNs);
}

void Session::sleep(std::uint64_t ns) {
    (void)loop_->run_until([](void* arg) { return static_cast<Session*>(arg)->interrupted_; }, this,
                           ns);
}

Outcome Session::run(nfs::client::Op& op) {
    bool finished = false;
    op.user = &finished;
    op.done = [](nfs::client::Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
    client_->start(op);
    wait_until([&] { return finished; });
    return op.outcome;
}

bool Session::holds(const Url& url) const {
    if (!url.same_server(url_)) {
        complain(url.text(),
                 "is on another server than " + url_.server() + "; one command, one server");
        return false;
    }
    if (!is_path_prefix(export_, normal_path(url.path))) {
        complain(url.text(), "is not in the export '" + export_ + "' of the other path");
        return false;
    }
    return true;
}

std::string Session::below_export(const Url& url) const {
    const std::string path = normal_path(url.path);
    return export_ == "/" ? path : path.substr(export_.size());
}

Found Session::walk(const nfs::client::PathWalk::Options& options) {
    nfs::client::PathWalk walk(*client_);
    bool finished = false;
    walk.user = &finished;
    walk.done = [](nfs::client::PathWalk& w) noexcept { *static_cast<bool*>(w.user) = true; };
    walk.start(options);
    wait_until([&] { return finished; });
    return {walk.outcome, walk.object, walk.attributes, walk.last_name()};
}

Found Session::walk(const Url& url, bool follow_last) {
    nfs::client::PathWalk::Options options;
    options.root = root_;
    options.path = below_export(url);
    // As in every file system, a slash behind a link asks for what it leads to.
    options.follow_last = follow_last || url.ends_in_slash();
    return walk(options);
}

Found Session::walk_to_parent(const Url& url) {
    nfs::client::PathWalk::Options options;
    options.root = root_;
    options.path = below_export(url);
    options.parent_only = true;
    return walk(options);
}

Found Session::look_up(const FileHandle& directory, const std::string& name) {
    std::string copy = name;
    nfs::client::LookupOp lookup;
    lookup.args.what = {directory.view(), copy.data()};
    Found found;
    found.outcome = run(lookup);
    if (!found.outcome.ok()) return found;
    found.handle = lookup.object;
    if (lookup.attributes() != nullptr) {
        found.attributes = *lookup.attributes();
        return found;
    }
    nfs::client::GetattrOp getattr;
    getattr.args.object = found.handle.view();
    found.outcome = run(getattr);
    if (found.outcome.ok()) found.attributes = getattr.res.GETATTR3res_u.resok.obj_attributes;
    return found;
}

Outcome Session::list(const FileHandle& directory, std::vector<Entry>& entries) {
    struct Listing {
        std::vector<Entry>& entries;
        bool finished = false;
    } listing{entries};
    nfs::client::DirReader reader(*client_);
    reader.user = &listing;
    reader.on_entry = [](nfs::client::DirReader& r, const nfs::client::DirEntry& from) noexcept {
        const std::string_view name = from.name;
        if (name == "." || name == "..") return true;
        Entry entry;
        entry.name = name;
        entry.handle = from.handle;
        if (from.attributes != nullptr) entry.attributes = *from.attributes;
        entry.known = from.attributes != nullptr && !from.handle.empty();
        static_cast<Listing*>(r.user)->entries.push_back(std::move(entry));
        return true;
    };
    reader.done = [](nfs::client::DirReader& r) noexcept {
        static_cast<Listing*>(r.user)->finished = true;
    };
    reader.start(directory);
    wait_until([&] { return listing.finished; });
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    for (Entry& entry : entries) {
        if (entry.known || !nfs::client::is_plain_name(entry.name.c_str())) continue;
        Found found = look_up(directory, entry.name);
        if (!found.outcome.ok()) continue;  // gone meanwhile, or not for us
        entry.handle = found.handle;
        entry.attributes = found.attributes;
        entry.known = true;
    }
    return reader.outcome;
}

void Session::print_stats(double seconds, std::uint64_t bytes, std::FILE* json_to) {
    if (options_.json) {
        const std::string text = stats_json(seconds, bytes);
        std::fputs(text.c_str(), json_to);
    } else if (options_.stats) {
        const std::string text = stats_text(seconds, bytes);
        std::fputs(text.c_str(), stderr);
    }
}

namespace {

struct Line {
    const char* name;
    double value;
    bool whole;
};

std::vector<Line> lines_of(const xprtrdma::Transport& transport, const nfs::client::Client& client,
                           double seconds, std::uint64_t bytes) {
    const xprtrdma::TransportCounters& rdma = transport.counters();
    const pools::IoCounters& io = transport.io_counters();
    const sunrpc::ClntCounters& rpc = client.rpc_counters();
    const auto n = [](std::uint64_t value) { return static_cast<double>(value); };
    const double keyed = n(rdma.read_chunk_calls + rdma.write_chunk_calls + rdma.reply_chunk_calls +
                           rdma.long_calls);
    return {
        {"seconds", seconds, false},
        {"bytes", n(bytes), true},
        {"bytes_per_second", seconds > 0 ? n(bytes) / seconds : 0, true},
        {"calls", n(rdma.calls), true},
        {"replies", n(rdma.replies), true},
        {"inline_calls", n(rdma.inline_calls), true},
        {"read_chunk_calls", n(rdma.read_chunk_calls), true},
        {"write_chunk_calls", n(rdma.write_chunk_calls), true},
        {"reply_chunk_calls", n(rdma.reply_chunk_calls), true},
        {"long_calls", n(rdma.long_calls), true},
        {"in_flight_max", n(rdma.in_flight_max), true},
        {"binds", n(io.binds), true},
        {"remote_invalidations", n(io.remote_invalidations), true},
        {"local_invalidations", n(io.local_invalidations), true},
        {"keys_per_rpc", keyed > 0 ? n(io.binds) / keyed : 0, false},
        {"doorbells", n(io.doorbells), true},
        {"payload_copied_bytes", n(rdma.payload_copied_bytes + rpc.payload_copied_bytes), true},
        {"waited_for_credit", n(rdma.waited_for_credit), true},
        {"waited_for_key", n(rdma.waited_for_key), true},
        {"waited_for_slot", n(rdma.waited_for_slot), true},
        {"waited_for_payload", n(rdma.waited_for_payload), true},
        {"timeouts", n(rpc.timeouts), true},
    };
}

std::string number(const Line& line) {
    std::array<char, 48> out{};
    std::snprintf(out.data(), out.size(), line.whole ? "%.0f" : "%.3f", line.value);
    return out.data();
}

}  // namespace

std::string Session::stats_json(double seconds, std::uint64_t bytes) const {
    std::string out = "{";
    for (const Line& line : lines_of(*transport_, *client_, seconds, bytes)) {
        if (out.size() > 1) out += ",";
        out += std::string("\"") + line.name + "\":" + number(line);
    }
    return out + "}\n";
}

std::string Session::stats_text(double seconds, std::uint64_t bytes) const {
    std::string out;
    for (const Line& line : lines_of(*transport_, *client_, seconds, bytes)) {
        std::string name = line.name;
        name.resize(24, ' ');
        out += "  " + name + number(line) + "\n";
    }
    return out;
}

}  // namespace nfsrdma::tool
