#pragma once
#include <cstddef>
#include <functional>
#include <memory>
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

// A thread of its own takes one connection after the other, answers one request, and closes. A peer
// has a few seconds for its request and for taking the answer, and a few KiB for its headers.
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
    void serve() noexcept;
    void answer(int fd) const noexcept;
    // poll(2) until the deadline; false: it passed, or the object is about to die.
    bool wait(int fd, short events, std::uint64_t deadline_ns) const noexcept;
    bool read_request(int fd, std::string& out, std::uint64_t deadline_ns) const;
    void send_all(int fd, std::string_view bytes, std::uint64_t deadline_ns) const noexcept;

    std::string path_, type_;
    std::function<std::string()> text_;
    SockAddr local_;
    UniqueFd listen_fd_, end_fd_;
    std::thread thread_;
};

}  // namespace nfsrdma::nfsrdmad
