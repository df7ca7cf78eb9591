#include "tools/nfsrdma/http_get.hpp"

#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"

namespace nfsrdma::tool {
namespace {

// Answers one connection with `text`, over and over up to `bytes`; `silent` keeps it open.
class OneAnswer {
  public:
    explicit OneAnswer(std::string text, std::size_t bytes = 0, bool silent = false)
        : text_(std::move(text)), bytes_(bytes), silent_(silent) {
        fd_ = UniqueFd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const SockAddr any = *SockAddr::parse("127.0.0.1:0", 0);
        EXPECT_EQ(::bind(fd_.get(), any.sa(), any.sa_len()), 0);
        EXPECT_EQ(::listen(fd_.get(), 1), 0);
        sockaddr_storage name{};
        socklen_t size = sizeof name;
        auto* const sa = static_cast<sockaddr*>(static_cast<void*>(&name));
        EXPECT_EQ(::getsockname(fd_.get(), sa, &size), 0);
        address = SockAddr::from(sa);
        thread_ = std::thread([this] { serve(); });
    }
    ~OneAnswer() {
        ::shutdown(fd_.get(), SHUT_RDWR);
        thread_.join();
    }
    OneAnswer(const OneAnswer&) = delete;
    OneAnswer& operator=(const OneAnswer&) = delete;
    SockAddr address;
    std::string request;

  private:
    void serve() {
        const UniqueFd peer(::accept(fd_.get(), nullptr, nullptr));
        if (!peer) return;
        char part[4096];
        const ssize_t got = ::recv(peer.get(), part, sizeof part, 0);
        if (got > 0) request.assign(part, static_cast<std::size_t>(got));
        std::size_t sent = 0;
        do {
            const ssize_t n = ::send(peer.get(), text_.data(), text_.size(), MSG_NOSIGNAL);
            if (n <= 0) break;
            sent += static_cast<std::size_t>(n);
        } while (sent < bytes_);
        while (silent_ && ::recv(peer.get(), part, sizeof part, 0) > 0) {
        }
    }
    std::string text_;
    std::size_t bytes_;
    bool silent_;
    UniqueFd fd_;
    std::thread thread_;
};

TEST(HttpGet, BodyOfAnAnswer) {
    OneAnswer server("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbody 1\n");
    const auto got = http_get(server.address, "/metrics", 5);
    ASSERT_TRUE(static_cast<bool>(got));
    Result<std::string> body = got;
    EXPECT_EQ(*body, "body 1\n");
    EXPECT_EQ(server.request.rfind("GET /metrics HTTP/1.0\r\n", 0), 0u);
}

TEST(HttpGet, OtherAnswersAreNone) {
    for (const char* text :
         {"HTTP/1.1 404 Not Found\r\n\r\nx", "garbage", "HTTP/1.1 200 OK\r\n", ""}) {
        OneAnswer server(text);
        const auto got = http_get(server.address, "/metrics", 5);
        ASSERT_FALSE(static_cast<bool>(got));
        EXPECT_EQ(got.error().code, Errc::bad_message);
    }
}

TEST(HttpGet, AnAnswerWithoutEndIsRefused) {
    OneAnswer server(std::string(65536, 'x'), 2 * kHttpBodyMax);
    EXPECT_EQ(http_get(server.address, "/metrics", 20).error().code, Errc::too_big);
}

TEST(HttpGet, SilenceTimesOut) {
    OneAnswer server("HTTP/1.1 200 OK\r\n\r\n", 0, true);
    EXPECT_EQ(http_get(server.address, "/metrics", 0.2).error().code, Errc::timed_out);
}

TEST(HttpGet, NobodyListens) {
    const auto got = http_get(*SockAddr::parse("127.0.0.1:1", 0), "/metrics", 5);
    ASSERT_FALSE(static_cast<bool>(got));
    EXPECT_EQ(got.error().sys, ECONNREFUSED);
}

}  // namespace
}  // namespace nfsrdma::tool
