#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <sys/epoll.h>
#include <time.h>

#include "base/loop_backend.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma {

namespace {

constexpr std::size_t kEventsPerWait = 64;

class EpollBackend final : public LoopBackendImpl {
  public:
    EpollBackend(Loop& loop, UniqueFd epoll) noexcept
        : LoopBackendImpl(loop), epoll_(std::move(epoll)) {}

    Result<void> watch(FdWatch& watch) noexcept override { return control(EPOLL_CTL_ADD, watch); }
    Result<void> rewatch(FdWatch& watch) noexcept override { return control(EPOLL_CTL_MOD, watch); }
    void unwatch(FdWatch& watch) noexcept override {
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, watch.fd, nullptr);
        // Events of this watch that were fetched but not delivered yet.
        for (epoll_event& event : batch_) {
            if (event.data.ptr == &watch) event.data.ptr = nullptr;
        }
    }
    std::uint32_t wait(std::uint64_t timeout_ns) noexcept override;
    bool submit(FileOp&) noexcept override { return false; }

  private:
    Result<void> control(int operation, FdWatch& watch) noexcept {
        epoll_event event{};
        event.events = watch.events;  // POLLIN and so on are EPOLLIN and so on
        event.data.ptr = &watch;
        if (::epoll_ctl(epoll_.get(), operation, watch.fd, &event) == 0) return {};
        return Error{Errc::system, errno, "watch a file descriptor"};
    }
    int fetch(std::uint64_t timeout_ns) noexcept;

    UniqueFd epoll_;
    bool has_pwait2_ = true;
    std::array<epoll_event, kEventsPerWait> events_{};
    std::span<epoll_event> batch_;
};

int EpollBackend::fetch(std::uint64_t timeout_ns) noexcept {
    constexpr int kCount = static_cast<int>(kEventsPerWait);
    if (timeout_ns != 0 && has_pwait2_) {
        timespec limit{};
        limit.tv_sec = static_cast<time_t>(timeout_ns / kNsPerSec);
        limit.tv_nsec = static_cast<long>(timeout_ns % kNsPerSec);
        const int count = ::epoll_pwait2(epoll_.get(), events_.data(), kCount,
                                         timeout_ns == UINT64_MAX ? nullptr : &limit, nullptr);
        if (count >= 0 || errno == EINTR) return count;
        has_pwait2_ = false;  // an old kernel, or a filter that does not know it: milliseconds
    }
    constexpr std::uint64_t kLongestMs = 1'000'000'000;
    const std::uint64_t timeout_ms = timeout_ns / kNsPerMs + (timeout_ns % kNsPerMs != 0);
    const int limit_ms =
        timeout_ns == UINT64_MAX ? -1 : static_cast<int>(std::min(timeout_ms, kLongestMs));
    return ::epoll_wait(epoll_.get(), events_.data(), kCount, limit_ms);
}

std::uint32_t EpollBackend::wait(std::uint64_t timeout_ns) noexcept {
    const int count = fetch(timeout_ns);
    if (count <= 0) return 0;
    batch_ = std::span(events_).first(static_cast<std::size_t>(count));
    std::uint32_t delivered = 0;
    for (const epoll_event& event : batch_) {
        if (event.data.ptr == nullptr) continue;
        auto* const watch = static_cast<FdWatch*>(event.data.ptr);
        watch->ready(*watch, event.events);
        ++delivered;
    }
    batch_ = {};
    return delivered;
}

}  // namespace

Result<std::unique_ptr<LoopBackendImpl>> make_epoll_backend(Loop& loop) {
    UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!epoll) return Error{Errc::system, errno, "epoll_create1"};
    return std::unique_ptr<LoopBackendImpl>(std::make_unique<EpollBackend>(loop, std::move(epoll)));
}

}  // namespace nfsrdma
