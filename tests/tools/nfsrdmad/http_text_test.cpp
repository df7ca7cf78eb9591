#include "tools/nfsrdmad/http_text.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::nfsrdmad {
namespace {

TEST(HttpAnswer, OnlyTheOneText) {
    const auto status = [](const char* line) {
        return std::string(answer_to(line, "/metrics").status).substr(0, 3);
    };
    EXPECT_EQ(status("GET /metrics HTTP/1.1"), "200");
    EXPECT_EQ(status("GET /metrics HTTP/1.0"), "200");
    EXPECT_EQ(status("GET /metrics?name=x HTTP/1.1"), "200");
    EXPECT_EQ(status("HEAD /metrics HTTP/1.1"), "200");
    EXPECT_EQ(status("GET / HTTP/1.1"), "404");
    EXPECT_EQ(status("GET /metrics2 HTTP/1.1"), "404");
    EXPECT_EQ(status("POST /metrics HTTP/1.1"), "405");
    for (const char* bad :
         {"", " ", "  ", "GET", "GET /metrics", "GET /metrics HTTP/2", "\x16\x03\x01"})
        EXPECT_EQ(status(bad), "400") << bad;
    EXPECT_FALSE(answer_to("HEAD /metrics HTTP/1.1", "/metrics").has_body);
    EXPECT_FALSE(answer_to("GET /x HTTP/1.1", "/metrics").has_text);
}

class HttpTextTest : public ::testing::Test {
  protected:
    void start(const char* address = "127.0.0.1:0", std::size_t bytes = 5) {
        auto made =
            HttpText::create(*SockAddr::parse(address, 0), "/metrics", "text/plain", [this, bytes] {
                ++asked;
                return std::string(bytes, 'x');
            });
        ASSERT_TRUE(static_cast<bool>(made)) << to_string(made.error());
        http = std::move(*made);
    }
    UniqueFd connect() {
        UniqueFd fd(::socket(http->local().family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
        const SockAddr to = http->local();
        EXPECT_EQ(::connect(fd.get(), to.sa(), to.sa_len()), 0);
        return fd;
    }
    static void say(const UniqueFd& fd, std::string_view text) {
        while (!text.empty()) {
            const ssize_t sent = ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
            if (sent <= 0) return;
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    static std::string hear(const UniqueFd& fd) {
        std::string all;
        std::array<char, 4096> part{};
        for (ssize_t n = 0; (n = ::recv(fd.get(), part.data(), part.size(), 0)) > 0;)
            all.append(part.data(), static_cast<std::size_t>(n));
        return all;
    }
    std::string ask(std::string_view request) {
        const UniqueFd fd = connect();
        say(fd, request);
        return hear(fd);
    }
    std::atomic<int> asked{0};
    std::unique_ptr<HttpText> http;
};

TEST_F(HttpTextTest, TextComesWithItsLength) {
    start();
    const std::string answer = ask("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
    EXPECT_EQ(answer.find("HTTP/1.0 200 OK\r\n"), 0u) << answer;
    EXPECT_NE(answer.find("Content-Length: 5\r\n"), answer.npos);
    EXPECT_EQ(answer.substr(answer.size() - 9), "\r\n\r\nxxxxx");
    EXPECT_EQ(asked, 1);
}

TEST_F(HttpTextTest, HeadHasNoBody) {
    start();
    const std::string answer = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    EXPECT_NE(answer.find("Content-Length: 5\r\n"), answer.npos);
    EXPECT_EQ(answer.substr(answer.size() - 4), "\r\n\r\n");
}

TEST_F(HttpTextTest, RequestInPiecesIsOne) {
    start("[::1]:0");
    const UniqueFd fd = connect();
    for (const char* part : {"GET /met", "rics HTTP/1.1\r", "\n\r", "\n"}) {
        say(fd, part);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    EXPECT_NE(hear(fd).find(" 200 OK"), std::string::npos);
}

TEST_F(HttpTextTest, LongAnswersArriveWhole) {
    constexpr std::size_t kBytes = 8 << 20;
    start("127.0.0.1:0", kBytes);
    const std::string answer = ask("GET /metrics HTTP/1.1\r\n\r\n");
    EXPECT_GT(answer.size(), kBytes);
}

TEST_F(HttpTextTest, WhatIsNoRequestIsRefusedAndTheNextIsServed) {
    start();
    EXPECT_NE(ask("nonsense\r\n\r\n").find(" 400 "), std::string::npos);
    EXPECT_EQ(asked, 0);
    // More headers than there may be. What was not read may reset the connection.
    static_cast<void>(ask("GET /metrics HTTP/1.1\r\n" + std::string(100000, 'h')));
    {
        const UniqueFd gone = connect();
        say(gone, "GET /met");
    }
    EXPECT_NE(ask("GET /metrics HTTP/1.1\r\n\r\n").find(" 200 OK"), std::string::npos);
    EXPECT_EQ(asked, 1);
}

TEST_F(HttpTextTest, SilentPeersAreInNobodysWay) {
    start();
    std::vector<UniqueFd> silent;
    for (int i = 0; i < 40; ++i) {  // more than are served at once
        silent.push_back(connect());
        say(silent.back(), "GET /met");
        if (i % 10 == 0) {
            EXPECT_NE(ask("GET /metrics HTTP/1.1\r\n\r\n").find(" 200 OK"), std::string::npos);
        }
    }
    EXPECT_NE(ask("GET /metrics HTTP/1.1\r\n\r\n").find(" 200 OK"), std::string::npos);
    EXPECT_EQ(asked, 5);
    // The newest of them is still there.
    say(silent.back(), "rics HTTP/1.1\r\n\r\n");
    EXPECT_NE(hear(silent.back()).find(" 200 OK"), std::string::npos);
    EXPECT_EQ(hear(silent.front()), "");
}

TEST_F(HttpTextTest, EndsWhileAPeerIsSilent) {
    start();
    const UniqueFd silent = connect();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    http.reset();
    EXPECT_EQ(hear(silent), "");
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
