#include "tirpc/error_text.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::tirpc {
namespace {

// One line, in pieces, cut where the room ends.
class Line {
  public:
    explicit Line(std::array<char, kErrorTextBytes>& room) noexcept : room_(room) { room_[0] = 0; }
    void add(std::string_view text) noexcept {
        const std::size_t bytes = std::min(text.size(), room_.size() - 1 - used_);
        std::memcpy(room_.data() + used_, text.data(), bytes);
        used_ += bytes;
        room_[used_] = 0;
    }

  private:
    std::array<char, kErrorTextBytes>& room_;
    std::size_t used_ = 0;
};

std::array<char, kErrorTextBytes>& text_of_thread() noexcept {
    thread_local std::array<char, kErrorTextBytes> text{};
    return text;
}

}  // namespace

void set_error_text(std::string_view text) noexcept {
    // The text may be this very one.
    std::array<char, kErrorTextBytes> made{};
    Line line(made);
    line.add(text);
    text_of_thread() = made;
}

void set_error_text(std::string_view step, const Error& error) noexcept {
    Line line(text_of_thread());
    line.add(step);
    if (!step.empty()) line.add(": ");
    const std::string_view what = error.what;
    line.add(what.empty() ? std::string_view(to_string(error.code)) : what);
    if (error.sys == 0) return;
    // NULL for a number that the C library does not know.
    const char* const why = ::strerrordesc_np(error.sys);
    line.add(": ");
    line.add(why != nullptr ? why : "unknown error");
}

const char* error_text() noexcept {
    return text_of_thread().data();
}

int errno_of(const Error& error) noexcept {
    if (error.sys != 0) return error.sys;
    switch (error.code) {
        case Errc::again:
            return EAGAIN;
        case Errc::reconnect:
            return ECONNRESET;
        case Errc::too_big:
            return EMSGSIZE;
        case Errc::bad_message:
            return EPROTO;
        case Errc::unsupported:
            return EOPNOTSUPP;
        case Errc::timed_out:
            return ETIMEDOUT;
        case Errc::closed:
            return ESHUTDOWN;
        case Errc::invalid_argument:
            return EINVAL;
        case Errc::refused:
            return ECONNREFUSED;
        case Errc::system:
            return EIO;
    }
    return EIO;
}

}  // namespace nfsrdma::tirpc

extern "C" const char* rpcrdma_strerror(void) {
    return nfsrdma::tirpc::error_text();
}
