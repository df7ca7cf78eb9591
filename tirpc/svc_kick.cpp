#include "tirpc/svc_kick.hpp"

#include <array>
#include <cerrno>
#include <sys/socket.h>

namespace nfsrdma::tirpc {

Result<KickPair> KickPair::create() noexcept {
    std::array<int, 2> fds{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()) != 0)
        return Error{Errc::system, errno, "make a pair of sockets"};
    KickPair pair;
    pair.ours_ = UniqueFd(fds[0]);
    pair.theirs_ = UniqueFd(fds[1]);
    return pair;
}

void KickPair::close() noexcept {
    ours_.reset();
    theirs_.reset();
}

// A pair that is full is readable as well.
void KickPair::kick() noexcept {
    const int before = errno;
    const char one = 1;
    static_cast<void>(::send(ours_.get(), &one, 1, MSG_DONTWAIT | MSG_NOSIGNAL));
    errno = before;
}

void KickPair::ack() noexcept {
    std::array<char, 64> taken{};
    while (::recv(theirs_.get(), taken.data(), taken.size(), MSG_DONTWAIT) ==
           static_cast<ssize_t>(taken.size())) {
    }
}

}  // namespace nfsrdma::tirpc
