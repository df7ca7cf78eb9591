#include "tools/nfsrdma/http_get.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::tool {
namespace {

class Deadline {
  public:
    explicit Deadline(double seconds)
        : end_ns_(clock_.now_ns() +
                  static_cast<std::uint64_t>(seconds * static_cast<double>(kNsPerSec))) {}
    Result<void> wait(int fd, short events) const {
        const std::uint64_t now = clock_.now_ns();
        if (now >= end_ns_) return Error{Errc::timed_out, 0, "no answer in time"};
        pollfd one{fd, events, 0};
        const int got = ::poll(&one, 1, static_cast<int>((end_ns_ - now) / kNsPerMs) + 1);
        if (got < 0 && errno != EINTR) return Error{Errc::system, errno, "wait for the server"};
        if (got == 0) return Error{Errc::timed_out, 0, "no answer in time"};
        return {};
    }

  private:
    RealClock clock_;
    std::uint64_t end_ns_;
};

Result<UniqueFd> connect_to(const SockAddr& server, const Deadline& deadline) {
    UniqueFd fd(::socket(server.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return Error{Errc::system, errno, "make a socket"};
    if (::connect(fd.get(), server.sa(), server.sa_len()) == 0) return fd;
    if (errno != EINPROGRESS) return Error{Errc::system, errno, "connect"};
    NR_TRY(deadline.wait(fd.get(), POLLOUT));
    int error = 0;
    socklen_t size = sizeof error;
    if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
        return Error{Errc::system, error, "connect"};
    return fd;
}

Result<void> send_all(int fd, const std::string& text, const Deadline& deadline) {
    std::size_t sent = 0;
    while (sent < text.size()) {
        NR_TRY(deadline.wait(fd, POLLOUT));
        const ssize_t n = ::send(fd, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return Error{Errc::system, errno, "send the request"};
        if (n > 0) sent += static_cast<std::size_t>(n);
    }
    return {};
}

Result<std::string> read_all(int fd, const Deadline& deadline) {
    std::string all;
    std::array<char, 16384> part{};
    for (;;) {
        NR_TRY(deadline.wait(fd, POLLIN));
        const ssize_t n = ::recv(fd, part.data(), part.size(), 0);
        if (n == 0) return all;
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return Error{Errc::system, errno, "read the answer"};
        if (n > 0) all.append(part.data(), static_cast<std::size_t>(n));
        if (all.size() > kHttpBodyMax) return Error{Errc::too_big, 0, "the answer has no end"};
    }
}

}  // namespace

// HTTP/1.0: the answer ends with the connection, and comes in one piece.
Result<std::string> http_get(const SockAddr& server, const std::string& path, double timeout_s) {
    const Deadline deadline(timeout_s);
    NR_TRY_ASSIGN(const UniqueFd fd, connect_to(server, deadline));
    NR_TRY(send_all(fd.get(),
                    "GET " + path + " HTTP/1.0\r\nHost: " + server.to_string() + "\r\n\r\n",
                    deadline));
    NR_TRY_ASSIGN(std::string answer, read_all(fd.get(), deadline));
    const std::size_t body = answer.find("\r\n\r\n");
    const bool is_http = answer.rfind("HTTP/1.", 0) == 0 && body != answer.npos;
    if (!is_http || answer.substr(8, 5) != " 200 ")
        return Error{Errc::bad_message, 0, "no metrics are served there"};
    return answer.substr(body + 4);
}

}  // namespace nfsrdma::tool
