#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <poll.h>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"

// One text by HTTP, for whoever asks with GET: what a scraper of metrics needs, by IPv4 and IPv6.
namespace nfsrdma::nfsrdmad {

// What to answer to the first line of a request, and its status line. Pure.
struct HttpAnswer {
    const char* status;
    bool has_text, has_body;  // the text; any body at all
};
HttpAnswer answer_to(std::string_view request_line, std::string_view path) noexcept;

// A thread of its own serves a few connections at once, one request each. A peer has a few seconds
// for its request and for taking the answer, unless newer ones need its place, and a few KiB for
// its headers.
class HttpText {
  public:
    // `text` is called on that thread until the object dies. Errc::system when the address cannot
    // be had.
    static Result<std::unique_ptr<HttpText>> create(const SockAddr& local, std::string path,
                                                    std::string type,
                                                    std::function<std::string()> text);
    ~HttpText();
    HttpText(const HttpText&) = delete;
    HttpText& operator=(const HttpText&) = delete;
    SockAddr local() const noexcept { return local_; }

  private:
    HttpText() = default;
    Result<void> listen(const SockAddr& local) noexcept;
    static constexpr std::size_t kSessions = 16;
    // One connection: its request grows, then its answer is sent.
    struct Session {
        UniqueFd fd;
        std::string request, answer;
        std::size_t sent = 0;  // of the answer
        std::uint64_t deadline_ns = 0;
    };
    void serve() noexcept;
    // poll(2) until then; the first of `fds` is that which ends the thread. false: it must end.
    static bool wait(std::span<pollfd> fds, std::uint64_t until_ns) noexcept;
    void take_peer() noexcept;
    bool go_on(Session& session) const noexcept;  // false: it is over
    static bool send_more(Session& session) noexcept;
    std::string answer(const std::string& request) const;

    std::string path_, type_;
    std::function<std::string()> text_;
    SockAddr local_;
    UniqueFd listen_fd_, end_fd_;
    std::array<Session, kSessions> sessions_;
    std::thread thread_;
};

}  // namespace nfsrdma::nfsrdmad
