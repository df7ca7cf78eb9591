#include "tools/nfsrdmad/http_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <netinet/in.h>
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
    constexpr std::size_t kFixed = 2;
    std::array<pollfd, kFixed + kSessions> fds{};
    for (;;) {
        fds[0] = {end_fd_.get(), POLLIN, 0};
        fds[1] = {listen_fd_.get(), POLLIN, 0};
        std::uint64_t until_ns = UINT64_MAX;
        for (std::size_t i = 0; i < kSessions; ++i) {
            const Session& session = sessions_[i];
            const short events = session.answer.empty() ? POLLIN : POLLOUT;
            fds[kFixed + i] = {session.fd ? session.fd.get() : -1, events, 0};
            if (session.fd) until_ns = std::min(until_ns, session.deadline_ns);
        }
        if (!wait(fds, until_ns)) return;
        for (std::size_t i = 0; i < kSessions; ++i) {
            Session& session = sessions_[i];
            if (!session.fd) continue;
            const bool goes_on = fds[kFixed + i].revents == 0 || go_on(session);
            if (!goes_on || now_ns() >= session.deadline_ns) session = Session{};
        }
        if (fds[1].revents != 0) take_peer();
    }
}

bool HttpText::wait(std::span<pollfd> fds, std::uint64_t until_ns) noexcept {
    constexpr std::uint64_t kPollMaxMs = 60'000;
    const std::uint64_t now = now_ns();
    const std::uint64_t left_ms = until_ns > now ? (until_ns - now) / kNsPerMs + 1 : 0;
    const int timeout = static_cast<int>(std::min(left_ms, kPollMaxMs));
    const int ready = ::poll(fds.data(), fds.size(), timeout);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) {
        for (pollfd& fd : fds)
            fd.revents = 0;
    }
    return fds[0].revents == 0;
}

// Where all places are taken the newest gets that of the one that has been there for the longest: a
// scraper sends its request at once, and who is silent is in nobody's way.
void HttpText::take_peer() noexcept {
    UniqueFd peer(::accept4(listen_fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!peer) {
        // It stays ready: not to turn in a circle.
        if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
        std::array<pollfd, 1> end = {{{end_fd_.get(), POLLIN, 0}}};
        static_cast<void>(wait(end, now_ns() + kNsPerSec));
        return;
    }
    const auto age = [](const Session& session) { return session.fd ? session.deadline_ns : 0; };
    Session& place =
        *std::min_element(sessions_.begin(), sessions_.end(),
                          [&](const Session& x, const Session& y) { return age(x) < age(y); });
    place = Session{};
    place.fd = std::move(peer);
    place.deadline_ns = now_ns() + kPeerNs;
}

bool HttpText::go_on(Session& session) const noexcept {
    if (!session.answer.empty()) return send_more(session);
    std::array<char, 1024> part{};
    while (session.request.find(kHeadersEnd) == std::string::npos) {
        if (session.request.size() >= kRequestMax) break;
        const ssize_t got = ::recv(session.fd.get(), part.data(), part.size(), 0);
        if (got < 0 && errno == EAGAIN) return true;
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        session.request.append(part.data(), static_cast<std::size_t>(got));
    }
    session.answer = answer(session.request);
    return send_more(session);
}

bool HttpText::send_more(Session& session) noexcept {
    while (session.sent < session.answer.size()) {
        const ssize_t sent = ::send(session.fd.get(), session.answer.data() + session.sent,
                                    session.answer.size() - session.sent, MSG_NOSIGNAL);
        if (sent > 0) {
            session.sent += static_cast<std::size_t>(sent);
        } else if (errno == EAGAIN) {
            return true;
        } else if (errno != EINTR) {
            return false;
        }
    }
    static_cast<void>(::shutdown(session.fd.get(), SHUT_WR));
    return false;
}

std::string HttpText::answer(const std::string& request) const {
    const bool whole = request.find(kHeadersEnd) != std::string::npos;
    const HttpAnswer how =
        whole ? answer_to(std::string_view(request).substr(0, request.find("\r\n")), path_)
              : HttpAnswer{"431 Request Header Fields Too Large", false, true};
    const std::string body = how.has_text ? text_() : std::string(how.status) + '\n';
    std::string all = std::string("HTTP/1.0 ") + how.status +
                      "\r\nContent-Type: " + (how.has_text ? type_ : std::string("text/plain")) +
                      "\r\nContent-Length: " + std::to_string(body.size()) +
                      "\r\nConnection: close\r\n\r\n";
    if (how.has_body) all += body;
    return all;
}

}  // namespace nfsrdma::nfsrdmad
