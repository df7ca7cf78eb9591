#include "tools/mount_nfsrdma/launch.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/log_target.hpp"

namespace nfsrdma::mount {
namespace {

constexpr double kPauseMostSeconds = 30;

// Files that whoever called left open are not ours, and some wait for their end (a pipe of a
// script).
void close_foreign(int keep) noexcept {
    const auto kept = static_cast<unsigned>(keep);
    if (kept > 3) (void)::close_range(3, kept - 1, 0);
    (void)::close_range(std::max(kept + 1, 3u), UINT_MAX, 0);
}

void open_null() noexcept {
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null) return;
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        (void)::dup2(null.get(), fd);
}

// 0, 1 and 2 that are closed would be given to the next files that are opened.
void fill_standard() noexcept {
    for (;;) {
        const int fd = ::open("/dev/null", O_RDWR);
        if (fd < 0) return;
        if (fd > STDERR_FILENO) {
            ::close(fd);
            return;
        }
    }
}

void complain(const std::string& what) {
    (void)std::fprintf(stderr, "mount.nfsrdma: %s\n", what.c_str());
}

}  // namespace

bool Launch::to_child(int& status) {
    fill_standard();
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
        complain("cannot make a pipe: " + std::string(strerrordesc_np(errno)));
        status = kExitSystem;
        return false;
    }
    UniqueFd reads(ends[0]), writes(ends[1]);
    (void)std::fflush(nullptr);
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    if (child < 0) {
        complain("cannot start a process: " + std::string(strerrordesc_np(errno)));
        status = kExitSystem;
        return false;
    }
    if (child > 0) {
        pipe_ = std::move(reads);
        writes.reset();
        status = wait_for(child);
        return false;
    }
    pipe_ = std::move(writes);
    reads.reset();
    forked_ = true;
    close_foreign(pipe_.get());
    // Who interrupts the caller, or times it out, wants no mount any more.
    (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (::getppid() != parent) ::_exit(kExitSystem);
    return true;
}

int Launch::wait_for(int child) const {
    unsigned char told = 0;
    ssize_t got = 0;
    do {
        got = ::read(pipe_.get(), &told, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 1) return told;
    // It ended without a word.
    int how = 0;
    pid_t ended = 0;
    do {
        ended = ::waitpid(child, &how, 0);
    } while (ended < 0 && errno == EINTR);
    if (ended == child && WIFSIGNALED(how)) {
        const int number = WTERMSIG(how);
        const char* const name = ::sigdescr_np(number);
        complain("the process that was to serve the mount has ended by signal " +
                 std::to_string(number) + (name != nullptr ? " (" + std::string(name) + ")" : ""));
        return number == SIGTERM || number == SIGINT ? kExitSystem : kExitBug;
    }
    return ended == child && WIFEXITED(how) && WEXITSTATUS(how) != 0 ? WEXITSTATUS(how)
                                                                     : kExitSystem;
}

void Launch::tell(int status) {
    if (told_) return;
    told_ = true;
    if (!pipe_) return;
    const auto byte = static_cast<unsigned char>(status);
    while (::write(pipe_.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    pipe_.reset();
}

void Launch::tell_failed(int status) {
    tell(status);
}

void Launch::detach() {
    if (told_) return;
    // A process that serves a mount holds no directory: what it is in could not be unmounted.
    [[maybe_unused]] const int moved = ::chdir("/");
    if (forked_) {
        (void)::setsid();
        (void)::prctl(PR_SET_PDEATHSIG, 0);
        log::to_syslog("mount.nfsrdma");
        (void)std::fflush(nullptr);
        open_null();
    }
    tell(kExitOk);
}

void say(const Launch& launch, const std::string& what) {
    if (launch.in_background() && launch.told()) {
        log::warn("{}", what);
    } else {
        complain(what);
    }
}

Attempt keep_trying(const MountOptions& options, Launch& launch,
                    const std::function<Attempt()>& once, double first_pause_s) {
    const RealClock clock;
    const double minutes = std::min(options.retry_minutes, 1e7);
    const std::uint64_t end =
        clock.now_ns() + static_cast<std::uint64_t>(minutes * 60 * static_cast<double>(kNsPerSec));
    double pause_s = first_pause_s;
    bool said = false;
    for (;;) {
        Attempt attempt = once();
        const std::uint64_t now = clock.now_ns();
        if (attempt.ok) {
            if (said) say(launch, options.source() + ": the server is there");
            return attempt;
        }
        if (!attempt.again || now >= end) {
            say(launch, attempt.why);
            return attempt;
        }
        if (!said) {
            say(launch, attempt.why + "; trying on " +
                            (options.background ? "in the background" : "until it goes well") +
                            ", for " + std::to_string(static_cast<long>(minutes)) + " min");
            said = true;
            if (options.background) launch.detach();
        } else {
            log::info("{}; trying on", attempt.why);
        }
        const double left_s = static_cast<double>(end - now) / static_cast<double>(kNsPerSec);
        std::this_thread::sleep_for(
            std::chrono::duration<double>(std::min({pause_s, kPauseMostSeconds, left_s})));
        pause_s *= 2;
    }
}

}  // namespace nfsrdma::mount
