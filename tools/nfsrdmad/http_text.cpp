#include "tools/nfsrdmad/http_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.hpp"

// Operation. A request is read up to the blank line behind its headers, of which only the first
// line counts; the answer ends the connection (HTTP/1.0, which every client of HTTP/1.1 takes).
//
// Ownership. The thread has all of its own but the event that ends it.
//
// Errors. A peer that is slow, sends too much, or asks for something else is told so where it can
// be, and closed. Nothing of a peer is kept.
namespace nfsrdma::nfsrdmad {

namespace {

constexpr std::size_t kRequestMax = 8192;
constexpr std::uint64_t kPeerNs = 5 * kNsPerSec;
constexpr int kBacklog = 16;
constexpr std::string_view kHeadersEnd = "\r\n\r\n";

std::uint64_t now_ns() noexcept {
    return RealClock().now_ns();
}

Error failed(const char* step) noexcept {
    return {Errc::system, errno, step};
}

}  // namespace

HttpAnswer answer_to(std::string_view line, std::string_view path) noexcept {
    const std::size_t method_end = line.find(' ');
    const std::size_t target_end =
        method_end == line.npos ? line.npos : line.find(' ', method_end + 1);
    if (target_end == line.npos || line.substr(target_end + 1).substr(0, 7) != "HTTP/1.")
        return {"400 Bad Request", false, true};
    const std::string_view method = line.substr(0, method_end);
    std::string_view target = line.substr(method_end + 1, target_end - method_end - 1);
    if (method != "GET" && method != "HEAD") return {"405 Method Not Allowed", false, true};
    target = target.substr(0, target.find('?'));
    const bool get = method == "GET";
    if (target != path) return {"404 Not Found", false, get};
    return {"200 OK", true, get};
}

Result<std::unique_ptr<HttpText>> HttpText::create(const SockAddr& local, std::string path,
                                                   std::string type,
                                                   std::function<std::string()> text) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<HttpText> self(new HttpText);
    self->path_ = std::move(path);
    self->type_ = std::move(type);
    self->text_ = std::move(text);
    NR_TRY(self->listen(local));
    self->end_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!self->end_fd_) return failed("make an event");
    self->thread_ = std::thread([http = self.get()] { http->serve(); });
    return self;
}

Result<void> HttpText::listen(const SockAddr& local) noexcept {
    listen_fd_ =
        UniqueFd(::socket(local.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
    if (!listen_fd_) return failed("make a socket");
    const int on = 1;
    // A port that was used a moment ago may be used again; one that is in use may not.
    static_cast<void>(::setsockopt(listen_fd_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on));
    if (local.is_v6()) {
        static_cast<void>(
            ::setsockopt(listen_fd_.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on));
    }
    if (::bind(listen_fd_.get(), local.sa(), local.sa_len()) != 0) return failed("bind");
    if (::listen(listen_fd_.get(), kBacklog) != 0) return failed("listen");
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
    if (::getsockname(listen_fd_.get(), sa, &size) != 0) return failed("name of a socket");
    local_ = SockAddr::from(sa);
    return {};
}

HttpText::~HttpText() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    static_cast<void>(::write(end_fd_.get(), &one, sizeof one));
    thread_.join();
}

void HttpText::serve() noexcept {
    while (wait(listen_fd_.get(), POLLIN, UINT64_MAX)) {
        const UniqueFd peer(
            ::accept4(listen_fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
        if (peer) {
            answer(peer.get());
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            // It stays ready: not to turn in a circle.
            static_cast<void>(wait(end_fd_.get(), POLLIN, now_ns() + kNsPerSec));
        }
    }
}

bool HttpText::wait(int fd, short events, std::uint64_t deadline_ns) const noexcept {
    for (;;) {
        const std::uint64_t now = now_ns();
        if (now >= deadline_ns) return false;
        const std::uint64_t left_ms = (deadline_ns - now) / kNsPerMs + 1;
        std::array<pollfd, 2> fds = {{{fd, events, 0}, {end_fd_.get(), POLLIN, 0}}};
        constexpr std::uint64_t kPollMaxMs = 60'000;
        const int ready =
            ::poll(fds.data(), fds.size(), static_cast<int>(std::min(left_ms, kPollMaxMs)));
        if (ready < 0 && errno != EINTR) return false;
        if (ready <= 0) continue;
        if (fds[1].revents != 0) return false;
        return true;
    }
}

bool HttpText::read_request(int fd, std::string& out, std::uint64_t deadline_ns) const {
    std::array<char, 1024> part{};
    while (out.find(kHeadersEnd) == out.npos) {
        if (out.size() >= kRequestMax || !wait(fd, POLLIN, deadline_ns)) return false;
        const ssize_t got = ::recv(fd, part.data(), part.size(), 0);
        if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (got <= 0) return false;
        out.append(part.data(), static_cast<std::size_t>(got));
    }
    return true;
}

void HttpText::send_all(int fd, std::string_view bytes, std::uint64_t deadline_ns) const noexcept {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(sent));
            continue;
        }
        const bool may_go_on = errno == EAGAIN || errno == EINTR;
        if (!may_go_on || !wait(fd, POLLOUT, deadline_ns)) return;
    }
}

void HttpText::answer(int fd) const noexcept {
    const std::uint64_t deadline_ns = now_ns() + kPeerNs;
    std::string request;
    const bool whole = read_request(fd, request, deadline_ns);
    if (!whole && request.size() < kRequestMax) return;  // gone, or too slow
    const HttpAnswer how =
        whole ? answer_to(std::string_view(request).substr(0, request.find("\r\n")), path_)
              : HttpAnswer{"431 Request Header Fields Too Large", false, true};
    const std::string body = how.has_text ? text_() : std::string(how.status) + '\n';
    std::string all = std::string("HTTP/1.0 ") + how.status +
                      "\r\nContent-Type: " + (how.has_text ? type_ : std::string("text/plain")) +
                      "\r\nContent-Length: " + std::to_string(body.size()) +
                      "\r\nConnection: close\r\n\r\n";
    if (how.has_body) all += body;
    send_all(fd, all, deadline_ns);
    static_cast<void>(::shutdown(fd, SHUT_WR));
}

}  // namespace nfsrdma::nfsrdmad
