#include "tools/nfsrdmad/notify.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::nfsrdmad {

Notify::Notify(const char* socket) : socket_(socket == nullptr ? "" : socket) {
    if (!socket_.empty() && socket_.front() != '/' && socket_.front() != '@') socket_.clear();
}

void Notify::ready(std::string_view status) const noexcept {
    std::string line(status.substr(0, 512));
    std::ranges::replace(line, '\n', ' ');
    send("READY=1\nSTATUS=" + line + "\n");
}

void Notify::reloading() const noexcept {
    send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(RealClock().now_ns() / kNsPerUs) + "\n");
}

void Notify::stopping() const noexcept {
    send("STOPPING=1\nSTATUS=ending: requests in progress may finish\n");
}

void Notify::send(const std::string& text) const noexcept {
    sockaddr_un address{};
    if (socket_.empty() || socket_.size() >= sizeof address.sun_path) return;
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_.data(), socket_.size());
    if (socket_.front() == '@') address.sun_path[0] = '\0';
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_.size() +
                                               (socket_.front() == '@' ? 0 : 1));
    const UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const sockaddr* const to = static_cast<const sockaddr*>(static_cast<const void*>(&address));
    if (!fd || ::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL, to, length) < 0) {
        log::warn("cannot tell the service manager at {}: {}", socket_, strerrordesc_np(errno));
    }
}

}  // namespace nfsrdma::nfsrdmad
