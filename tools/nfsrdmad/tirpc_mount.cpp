#include "tools/nfsrdmad/tirpc_mount.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rpc/rpc_com.h>

#include "base/bytes.hpp"
#include "base/log.hpp"
#include "nfs/mount3.hpp"
#include "nfs/nfs3_types.hpp"

namespace nfsrdma::nfsrdmad {
namespace {

constexpr std::uint32_t kArgsRoom = 4096;
constexpr std::uint32_t kReplyRoom = 96 << 10;
constexpr u_int kDatagramMax = 60000;
constexpr int kScanMs = 1000;
constexpr int kBacklog = 64;
constexpr std::uint64_t kAnswerNs = 60 * kNsPerSec;

// The rest of a message, as it is.
struct Raw {
    std::span<std::byte> room;
    std::uint32_t used = 0;
    std::uint32_t end = UINT32_MAX;  // of the message
};
// A path, the only argument there is in MOUNT, or what there is of one; nothing into no room.
bool_t take_path(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    Raw* const raw = va_arg(list, Raw*);
    va_end(list);
    if (xdr->x_op != XDR_DECODE) return TRUE;
    constexpr std::uint32_t kUnit = 4;
    std::uint64_t wanted = kUnit;
    while (raw->used < wanted && raw->used + kUnit <= raw->room.size() &&
           xdr_getpos(xdr) + kUnit <= raw->end &&
           xdr_opaque(xdr, as_chars(raw->room.data() + raw->used), kUnit) != FALSE) {
        raw->used += kUnit;
        if (raw->used == kUnit) wanted += load_be32(raw->room.data());
    }
    return TRUE;
}
bool_t give_raw(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    const Raw* const raw = va_arg(list, const Raw*);
    va_end(list);
    return xdr_opaque(xdr, as_chars(raw->room.data()), static_cast<u_int>(raw->room.size()));
}

Result<UniqueFd> bound_socket(const SockAddr& local, int type) {
    UniqueFd fd(::socket(local.family(), type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return Error{Errc::system, errno, "make a socket for MOUNT"};
    const int on = 1;
    // Without it a restart would have to wait for connections that ended. UDP does without: there
    // it would let two servers have one port.
    if (type == SOCK_STREAM)
        static_cast<void>(::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    if (local.is_v6())
        static_cast<void>(::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    if (::bind(fd.get(), local.sa(), local.sa_len()) != 0)
        return Error{Errc::system, errno, "bind the port of MOUNT"};
    if (type == SOCK_STREAM && ::listen(fd.get(), kBacklog) != 0)
        return Error{Errc::system, errno, "listen at the port of MOUNT"};
    return fd;
}

Result<SockAddr> name_of(int fd) {
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    auto* const generic = static_cast<sockaddr*>(static_cast<void*>(&name));
    if (::getsockname(fd, generic, &size) != 0)
        return Error{Errc::system, errno, "name of a socket"};
    return SockAddr::from(generic);
}

sunrpc::AuthSys sys_of(const svc_req& request) noexcept {
    sunrpc::AuthSys sys;
    const auto* const parms = static_cast<const authunix_parms*>(request.rq_clntcred);
    sys.stamp = static_cast<std::uint32_t>(parms->aup_time);
    sys.uid = parms->aup_uid;
    sys.gid = parms->aup_gid;
    sys.group_count = std::min(parms->aup_len, sunrpc::kAuthSysGroupsMax);
    std::copy_n(parms->aup_gids, sys.group_count, sys.groups.begin());
    const std::size_t length = ::strnlen(parms->aup_machname, std::size_t{sunrpc::kMachineNameMax});
    std::memcpy(sys.machine.data(), parms->aup_machname, length);
    return sys;
}

}  // namespace

TirpcMount* TirpcMount::the_one = nullptr;

// What the dispatcher sees: one call at a time.
class TirpcMount::Xprt final : public sunrpc::SvcXprt {
  public:
    explicit Xprt(Loop& loop) noexcept : loop_(loop) {}
    void begin(const SockAddr& peer, const char* netid) noexcept {
        peer_ = peer;
        netid_ = netid;
        over_ = answered_ = false;
    }
    Loop& loop() noexcept override { return loop_; }
    const SockAddr& peer() const noexcept override { return peer_; }
    const char* netid() const noexcept override { return netid_; }
    std::uint32_t max_payload() const noexcept override { return 0; }
    Result<std::span<std::byte>> get_result_payload(sunrpc::SvcRqst& /*rqst*/,
                                                    std::uint32_t /*bytes*/) noexcept override {
        return Error{Errc::too_big, 0, "MOUNT has no payloads"};
    }
    void reply(sunrpc::SvcRqst& /*rqst*/) noexcept override { over_ = answered_ = true; }
    void drop(sunrpc::SvcRqst& /*rqst*/) noexcept override { over_ = true; }
    void release_payload(void* /*cookie*/) noexcept override {}
    static bool is_over(void* self) { return static_cast<Xprt*>(self)->over_; }
    bool answered() const noexcept { return answered_; }

  private:
    Loop& loop_;
    SockAddr peer_;
    const char* netid_ = "tcp";
    bool over_ = false, answered_ = false;
};

TirpcMount::TirpcMount(nfs::Server& server, std::unique_ptr<Loop> loop)
    : loop_(std::move(loop)),
      xprt_(std::make_unique<Xprt>(*loop_)),
      call_room_(sunrpc::call_header_size(nullptr) + sunrpc::kAuthBodyMax + kArgsRoom),
      reply_room_(kReplyRoom) {
    NR_ASSERT(the_one == nullptr);
    the_one = this;
    dispatcher_.add(nfs::mount3_program(server));
    scratch_.resize(dispatcher_.scratch_bytes() / sizeof(CacheLine) + 1);
}

Result<std::unique_ptr<TirpcMount>> TirpcMount::create(nfs::Server& server, const SockAddr& local) {
    LoopOptions options;
    options.backend = LoopBackend::epoll;  // it waits for nothing but MOUNT's own work
    NR_TRY_ASSIGN(std::unique_ptr<Loop> loop, Loop::create(options));
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<TirpcMount> self(new TirpcMount(server, std::move(loop)));
    self->wake_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!self->wake_) return Error{Errc::system, errno, "make an eventfd"};
    NR_TRY(self->bind_sockets(local));
    NR_TRY(self->make_transports());
    return self;
}

// With port 0 the port of the TCP socket may be taken for UDP: then another.
Result<void> TirpcMount::bind_sockets(const SockAddr& local) {
    constexpr int kTries = 16;
    for (int i = 0;; ++i) {
        NR_TRY_ASSIGN(UniqueFd tcp, bound_socket(local, SOCK_STREAM));
        NR_TRY_ASSIGN(local_, name_of(tcp.get()));
        auto udp = bound_socket(local_, SOCK_DGRAM);
        if (!udp) {
            if (local.port() == 0 && i < kTries) continue;
            return udp.error();
        }
        tcp_fd_ = tcp.release();
        udp_fd_ = udp->release();
        return {};
    }
}

Result<void> TirpcMount::make_transports() {
    // Records are bounded, and reading never waits for the rest of one.
    int record_max = static_cast<int>(kRecordMax);
    rpc_control(RPC_SVC_CONNMAXREC_SET, &record_max);
    tcp_ = svc_vc_create(tcp_fd_, 0, 0);
    udp_ = svc_dg_create(udp_fd_, kDatagramMax, kDatagramMax);
    if (tcp_ == nullptr || udp_ == nullptr)
        return Error{Errc::system, ENOMEM, "libtirpc makes no transport"};
    for (SVCXPRT* const transport : {tcp_, udp_}) {
        if (svc_reg(
                transport, MOUNT3_PROGRAM, MOUNT_V3,
                [](svc_req* request, SVCXPRT* xprt) { on_call(request, xprt); }, nullptr) == FALSE)
            return Error{Errc::system, ENOMEM, "libtirpc registers no program"};
    }
    return {};
}

TirpcMount::~TirpcMount() {
    if (thread_.joinable()) {
        ending_.store(true);
        const std::uint64_t one = 1;
        static_cast<void>(::write(wake_.get(), &one, sizeof one));
        thread_.join();
    }
    close_connections();
    svc_unreg(MOUNT3_PROGRAM, MOUNT_V3);
    for (SVCXPRT* const transport : {tcp_, udp_})
        if (transport != nullptr) svc_destroy(transport);
    if (tcp_ == nullptr && tcp_fd_ >= 0) ::close(tcp_fd_);
    if (udp_ == nullptr && udp_fd_ >= 0) ::close(udp_fd_);
    the_one = nullptr;
}

void TirpcMount::start() {
    thread_ = std::thread([this] { run(); });
}

// libtirpc's svc_run, but that it ends, and watches its connections.
void TirpcMount::run() noexcept {
    std::vector<pollfd> fds;
    while (!ending_.load()) {
        fds.assign(svc_pollfd, svc_pollfd + std::max(svc_max_pollfd, 0));
        // At the limit new connections wait in the backlog until there is room.
        const bool full = seen_.size() >= kConnectionsMax;
        if (full) make_room();
        for (pollfd& entry : fds)
            if (full && entry.fd == tcp_fd_) entry.fd = -1;
        const int count = static_cast<int>(fds.size());
        fds.push_back({wake_.get(), POLLIN, 0});
        const int ready = ::poll(fds.data(), fds.size(), kScanMs);
        if (ready < 0 && errno != EINTR) {
            log::error("MOUNT over TCP and UDP ends: poll: {}", strerrordesc_np(errno));
            return;
        }
        note_activity({fds.data(), static_cast<std::size_t>(count)});
        const bool woken = fds.back().revents != 0;
        // libtirpc takes what is behind a datagram in its buffer, another caller's, for a part of
        // it. It reads one a turn: this one.
        const ssize_t next = ::recv(udp_fd_, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
        datagram_bytes_ = next > 0 ? static_cast<std::uint32_t>(next) : 0;
        if (ready > 0 && !woken) svc_getreq_poll(fds.data(), ready);
    }
}

// Which connections there are, and when each last said something.
void TirpcMount::note_activity(std::span<const pollfd> fds) noexcept {
    const std::uint64_t now = loop_->now_ns();
    for (Seen& seen : seen_)
        seen.there = false;
    for (int i = 0; i < svc_max_pollfd; ++i) {
        const int fd = svc_pollfd[i].fd;
        if (fd < 0 || is_listener(fd)) continue;
        auto at = std::find_if(seen_.begin(), seen_.end(),
                               [fd](const Seen& seen) { return seen.fd == fd; });
        if (at == seen_.end()) at = seen_.insert(at, {fd, now, true});
        at->there = true;
        const bool active = std::any_of(fds.begin(), fds.end(), [fd](const pollfd& entry) {
            return entry.fd == fd && entry.revents != 0;
        });
        if (active) at->last_ns = now;
        // It comes back as the end of the connection, which libtirpc handles.
        if (now - at->last_ns > kIdleNs) static_cast<void>(::shutdown(fd, SHUT_RDWR));
    }
    std::erase_if(seen_, [](const Seen& seen) { return !seen.there; });
}

void TirpcMount::make_room() noexcept {
    const auto oldest =
        std::min_element(seen_.begin(), seen_.end(),
                         [](const Seen& a, const Seen& b) { return a.last_ns < b.last_ns; });
    if (oldest != seen_.end()) static_cast<void>(::shutdown(oldest->fd, SHUT_RDWR));
}

// libtirpc has no list of its connections for others: each is told that its peer has gone.
void TirpcMount::close_connections() noexcept {
    std::vector<int> open;
    for (int i = 0; i < svc_max_pollfd; ++i) {
        const int fd = svc_pollfd[i].fd;
        if (fd >= 0 && !is_listener(fd)) open.push_back(fd);
    }
    for (const int fd : open) {
        static_cast<void>(::shutdown(fd, SHUT_RDWR));
        pollfd gone{fd, POLLIN, POLLIN};
        svc_getreq_poll(&gone, 1);
    }
}

void TirpcMount::on_call(svc_req* request, SVCXPRT* transport) noexcept {
    the_one->serve(*request, *transport);
}

void TirpcMount::serve(svc_req& request, SVCXPRT& transport) noexcept {
    const auto flavor = request.rq_cred.oa_flavor;
    if (flavor != AUTH_NONE && flavor != AUTH_SYS) {
        svcerr_weakauth(&transport);
        return;
    }
    const netbuf* const caller = svc_getrpccaller(&transport);
    const SockAddr peer = SockAddr::from(static_cast<const sockaddr*>(caller->buf));
    const bool udp = &transport == udp_;
    xprt_->begin(peer, udp ? (peer.is_v6() ? "udp6" : "udp") : (peer.is_v6() ? "tcp6" : "tcp"));
    sunrpc::SvcRqst rqst;
    rqst.xprt = xprt_.get();
    rqst.scratch = {scratch_.data()->bytes, scratch_.size() * sizeof(CacheLine)};
    rqst.res_room = reply_room_;
    if (!make_message(request, transport, rqst)) {
        svcerr_decode(&transport);
        return;
    }
    dispatcher_.dispatch(rqst);
    // A handler that looks at a slow file system does so on a helper thread.
    while (!Xprt::is_over(xprt_.get()))
        static_cast<void>(loop_->run_until(Xprt::is_over, xprt_.get(), kAnswerNs));
    take_stats();  // before the answer: who has it finds it counted
    if (xprt_->answered()) answer(transport, rqst.res.head);
}

void TirpcMount::take_stats() {
    const std::lock_guard lock(stats_mutex_);
    stats_.rpc = dispatcher_.counters();
    take_procedures(dispatcher_, stats_.procedures);
}

SocketStats TirpcMount::stats() const {
    const std::lock_guard lock(stats_mutex_);
    return stats_;
}

bool TirpcMount::make_message(svc_req& request, SVCXPRT& transport,
                              sunrpc::SvcRqst& rqst) noexcept {
    sunrpc::CallHeader header;
    header.xid = 1;  // libtirpc keeps the caller's
    header.prog = static_cast<std::uint32_t>(request.rq_prog);
    header.vers = static_cast<std::uint32_t>(request.rq_vers);
    header.proc = static_cast<std::uint32_t>(request.rq_proc);
    sunrpc::AuthSys sys;
    const bool known = request.rq_cred.oa_flavor == AUTH_SYS;
    if (known) sys = sys_of(request);
    auto used = sunrpc::encode_call(call_room_, header, known ? &sys : nullptr);
    if (!used) return false;
    const bool has_path = header.proc == MOUNTPROC3_MNT || header.proc == MOUNTPROC3_UMNT;
    Raw args{std::span(call_room_).subspan(*used, has_path ? kArgsRoom : 0)};
    if (&transport == udp_) args.end = datagram_bytes_;
    if (svc_getargs(&transport, take_path, &args) == FALSE) return false;
    rqst.arg.head = std::span(call_room_).first(*used + args.used);
    return true;
}

void TirpcMount::answer(SVCXPRT& transport, std::span<std::byte> message) noexcept {
    sunrpc::ReplyHeader header;
    if (!sunrpc::decode_reply(message, header)) return;
    if (!header.accepted) {
        svcerr_auth(&transport, static_cast<auth_stat>(header.auth));
        return;
    }
    Raw results{message.subspan(header.size)};
    switch (header.accept) {
        case sunrpc::AcceptStat::success:
            // What UDP cannot carry is answered by an error, so that the caller takes TCP.
            if (svc_sendreply(&transport, give_raw, &results) == FALSE)
                svcerr_systemerr(&transport);
            return;
        case sunrpc::AcceptStat::proc_unavail:
            svcerr_noproc(&transport);
            return;
        case sunrpc::AcceptStat::garbage_args:
            svcerr_decode(&transport);
            return;
        case sunrpc::AcceptStat::prog_unavail:
        case sunrpc::AcceptStat::prog_mismatch:
        case sunrpc::AcceptStat::system_err:
            svcerr_systemerr(&transport);
            return;
    }
}

}  // namespace nfsrdma::nfsrdmad
