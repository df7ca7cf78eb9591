#include "tools/mount_nfsrdma/end_signals.hpp"

#include <array>
#include <csignal>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/log.hpp"

namespace nfsrdma::mount {

EndSignals::EndSignals(bool hangup_ends, std::function<void(int)> first)
    : first_(std::move(first)) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (hangup_ends) {
        sigaddset(&set, SIGHUP);
    } else {
        (void)std::signal(SIGHUP, SIG_IGN);
    }
    (void)std::signal(SIGPIPE, SIG_IGN);
    NR_ASSERT(::pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
    signals_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    stop_.reset(::eventfd(0, EFD_CLOEXEC));
    if (signals_ && stop_) {
        thread_ = std::thread([this] { wait(); });
    } else {
        // Without them the kernel ends the process at the first one, which unmounts as well.
        log::warn("no descriptors are left to wait for signals with");
        (void)::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    }
}

EndSignals::~EndSignals() {
    if (!thread_.joinable()) return;
    const std::uint64_t one = 1;
    (void)!::write(stop_.get(), &one, sizeof one);
    thread_.join();
}

void EndSignals::wait() noexcept {
    bool ending = false;
    for (;;) {
        std::array<pollfd, 2> both{pollfd{signals_.get(), POLLIN, 0},
                                   pollfd{stop_.get(), POLLIN, 0}};
        if (::poll(both.data(), both.size(), -1) < 0) continue;
        if (both[1].revents != 0) return;
        signalfd_siginfo info{};
        if (::read(signals_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info))
            continue;
        const int number = static_cast<int>(info.ssi_signo);
        if (ending) ::_exit(128 + number);
        ending = true;
        first_(number);
    }
}

}  // namespace nfsrdma::mount
