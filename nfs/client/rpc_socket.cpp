#include "nfs/client/rpc_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <rpc/rpc.h>

#include "base/bytes.hpp"
#include "sunrpc/rpc_msg.hpp"

namespace nfsrdma::nfs::client {

// A point in time, and what may come before it.
struct Until {
    std::uint64_t deadline_ns;
    int interrupt_fd;
};

namespace {

constexpr std::uint32_t kMark = 4;  // of a record on TCP (RFC 5531 s11)
constexpr std::uint32_t kLastFragment = 0x80000000;
constexpr std::uint32_t kDatagramMax = 65536;
constexpr std::uint64_t kAskAgainNs = kNsPerSec;  // of UDP at first; doubles
constexpr int kPortTries = 8;

std::uint64_t now_ns() noexcept {
    return RealClock().now_ns();
}

Until until_of(const RpcPatience& patience) noexcept {
    return {now_ns() + patience.timeout_ns, patience.interrupt_fd};
}

Error failed(int error, const char* what) noexcept {
    if (error == ECONNREFUSED) return Error{Errc::refused, error, what};
    if (error == ECONNRESET || error == EPIPE) return Error{Errc::reconnect, error, what};
    if (error == ETIMEDOUT) return Error{Errc::timed_out, error, what};
    return Error{Errc::system, error, what};
}

// Success: `fd` has one of `events`, or an error that the next call on it will tell.
Result<void> wait(int fd, short events, const Until& until) {
    for (;;) {
        const std::uint64_t now = now_ns();
        if (now >= until.deadline_ns) return Error{Errc::timed_out, 0, "wait for an answer"};
        const std::uint64_t ms = (until.deadline_ns - now) / kNsPerMs + 1;
        std::array<pollfd, 2> fds{{{fd, events, 0}, {until.interrupt_fd, POLLIN, 0}}};
        const int ready =
            ::poll(fds.data(), fds.size(), static_cast<int>(std::min<std::uint64_t>(ms, 60'000)));
        if (ready < 0 && errno != EINTR) return Error{Errc::system, errno, "poll"};
        if (ready <= 0) continue;
        if (fds[1].revents != 0) return Error{Errc::closed, 0, "interrupted"};
        if (fds[0].revents != 0) return {};
    }
}

// A port that only a privileged process gets. That there is none is no error.
void take_reserved_port(int fd, const SockAddr& server) noexcept {
    SockAddr any = server.is_v6() ? SockAddr::v6(in6addr_any, 0) : SockAddr::v4(INADDR_ANY, 0);
    sockaddr_storage name{};
    std::memcpy(&name, any.sa(), any.sa_len());
    static_cast<void>(::bindresvport_sa(fd, static_cast<sockaddr*>(static_cast<void*>(&name))));
}

Result<UniqueFd> connected(const SockAddr& server, RpcProto proto, bool reserved_port,
                           const Until& until) {
    const int type = proto == RpcProto::tcp ? SOCK_STREAM : SOCK_DGRAM;
    UniqueFd fd(::socket(server.family(), type | SOCK_CLOEXEC, 0));
    if (!fd) return Error{Errc::system, errno, "make a socket"};
    // Before it is made non-blocking: libtirpc's choice of ports expects nothing of it.
    if (reserved_port) take_reserved_port(fd.get(), server);
    const int flags = ::fcntl(fd.get(), F_GETFL);
    if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) < 0)
        return Error{Errc::system, errno, "make a socket"};
    if (::connect(fd.get(), server.sa(), server.sa_len()) != 0) {
        if (errno != EINPROGRESS) return failed(errno, "connect");
        NR_TRY(wait(fd.get(), POLLOUT, until));
        int error = 0;
        socklen_t size = sizeof error;
        if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
        if (error != 0) return failed(error, "connect");
    }
    return fd;
}

Result<RpcAnswer> answer_of(std::span<std::byte> message) {
    sunrpc::ReplyHeader header;
    NR_TRY(sunrpc::decode_reply(message, header));
    RpcAnswer answer;
    if (!header.accepted) {
        answer.status = header.reject == sunrpc::RejectStat::auth_error
                            ? sunrpc::RpcStatus::auth_error
                            : sunrpc::RpcStatus::rpc_mismatch;
        return answer;
    }
    switch (header.accept) {
        case sunrpc::AcceptStat::success:
            answer.results = message.subspan(header.size);
            break;
        case sunrpc::AcceptStat::prog_unavail:
            answer.status = sunrpc::RpcStatus::prog_unavail;
            break;
        case sunrpc::AcceptStat::prog_mismatch:
            answer.status = sunrpc::RpcStatus::prog_mismatch;
            break;
        case sunrpc::AcceptStat::proc_unavail:
            answer.status = sunrpc::RpcStatus::proc_unavail;
            break;
        case sunrpc::AcceptStat::garbage_args:
            answer.status = sunrpc::RpcStatus::garbage_args;
            break;
        case sunrpc::AcceptStat::system_err:
            answer.status = sunrpc::RpcStatus::system_err;
            break;
    }
    return answer;
}

}  // namespace

const char* to_string(RpcProto proto) noexcept {
    return proto == RpcProto::tcp ? "tcp" : "udp";
}

Result<RpcSocket> RpcSocket::connect(const SockAddr& server, RpcProto proto, bool reserved_port,
                                     const RpcPatience& patience) {
    const Until until = until_of(patience);
    for (int tries = 1;; ++tries) {
        auto fd = connected(server, proto, reserved_port, until);
        if (!fd) {
            // An earlier connection from the same port is not forgotten yet: another port.
            const bool taken = fd.error().code == Errc::system &&
                               (fd.error().sys == EADDRINUSE || fd.error().sys == EADDRNOTAVAIL);
            if (taken && reserved_port && tries < kPortTries) continue;
            return fd.error();
        }
        RpcSocket self(*std::move(fd), proto);
        // Where an attacker cannot see the calls, the answers cannot be forged.
        if (::getrandom(&self.next_xid_, sizeof self.next_xid_, 0) < 0)
            return Error{Errc::system, errno, "getrandom"};
        return self;
    }
}

Result<RpcAnswer> RpcSocket::call(const RpcRequest& request, const RpcPatience& patience) {
    const Until until = until_of(patience);
    sunrpc::CallHeader header;
    header.xid = next_xid_++;
    header.prog = request.prog;
    header.vers = request.vers;
    header.proc = request.proc;
    call_.resize(kMark + kCallMax);
    const std::span<std::byte> message = std::span(call_).subspan(kMark);
    NR_TRY_ASSIGN(std::size_t size, sunrpc::encode_call(message, header, request.sys));
    if (request.args.size() > message.size() - size)
        return Error{Errc::too_big, 0, "arguments of an RPC call"};
    std::copy(request.args.begin(), request.args.end(), message.begin() + static_cast<long>(size));
    size += request.args.size();
    NR_TRY(proto_ == RpcProto::tcp ? exchange_tcp(header.xid, size, until)
                                   : exchange_udp(header.xid, size, until));
    return answer_of(answer_);
}

bool RpcSocket::has_xid(std::uint32_t xid) const noexcept {
    return answer_.size() >= sizeof xid && load_be32(answer_.data()) == xid;
}

Result<void> RpcSocket::send(std::span<const std::byte> message, const Until& until) {
    while (!message.empty()) {
        const ssize_t sent = ::send(fd_.get(), message.data(), message.size(), MSG_NOSIGNAL);
        if (sent >= 0) {
            message = message.subspan(static_cast<std::size_t>(sent));
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return failed(errno, "send a call");
        NR_TRY(wait(fd_.get(), POLLOUT, until));
    }
    return {};
}

Result<void> RpcSocket::receive_bytes(std::span<std::byte> room, const Until& until) {
    while (!room.empty()) {
        // Before each turn: a server that never stops sending must outlast neither the time nor the
        // user's patience.
        NR_TRY(wait(fd_.get(), POLLIN, until));
        const ssize_t got = ::recv(fd_.get(), room.data(), room.size(), 0);
        if (got == 0) return Error{Errc::reconnect, 0, "the server closed the connection"};
        if (got > 0) {
            room = room.subspan(static_cast<std::size_t>(got));
            continue;
        }
        if (errno != EINTR && errno != EAGAIN) return failed(errno, "receive an answer");
    }
    return {};
}

Result<void> RpcSocket::receive_record(const Until& until) {
    answer_.clear();
    for (bool last = false; !last;) {
        std::array<std::byte, kMark> mark{};
        NR_TRY(receive_bytes(mark, until));
        const std::uint32_t word = load_be32(mark.data());
        const std::uint32_t length = word & ~kLastFragment;
        last = (word & kLastFragment) != 0;
        if (length > kAnswerMax - answer_.size())
            return Error{Errc::too_big, 0, "an answer of more than a MiB"};
        if (length == 0 && !last) return Error{Errc::bad_message, 0, "an empty fragment"};
        const std::size_t at = answer_.size();
        answer_.resize(at + length);
        NR_TRY(receive_bytes(std::span(answer_).subspan(at), until));
    }
    return {};
}

Result<void> RpcSocket::exchange_tcp(std::uint32_t xid, std::size_t size, const Until& until) {
    store_be32(call_.data(), static_cast<std::uint32_t>(size) | kLastFragment);
    NR_TRY(send(std::span(call_).first(kMark + size), until));
    do {
        NR_TRY(receive_record(until));
    } while (!has_xid(xid));
    return {};
}

Result<void> RpcSocket::exchange_udp(std::uint32_t xid, std::size_t size, const Until& until) {
    std::uint64_t pause = kAskAgainNs;
    for (;;) {
        NR_TRY(send(std::span(call_).subspan(kMark, size), until));
        const Until again{std::min(until.deadline_ns, now_ns() + pause), until.interrupt_fd};
        for (;;) {
            const Result<void> ready = wait(fd_.get(), POLLIN, again);
            if (!ready && ready.error().code == Errc::timed_out) break;
            NR_TRY(ready);
            answer_.resize(kDatagramMax);
            const ssize_t got = ::recv(fd_.get(), answer_.data(), answer_.size(), 0);
            if (got < 0 && errno != EAGAIN && errno != EINTR)
                return failed(errno, "receive an answer");
            answer_.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
            if (has_xid(xid)) return {};
        }
        if (now_ns() >= until.deadline_ns) return Error{Errc::timed_out, 0, "wait for an answer"};
        pause *= 2;
    }
}

}  // namespace nfsrdma::nfs::client
