#pragma once
#include <cstdint>
#include <memory>

#include "base/loop.hpp"
#include "base/result.hpp"

namespace nfsrdma {

// What a Loop needs of the operating system: waiting for fds and moving file data. Called on the
// loop's thread only. Events are delivered by FdWatch::ready from inside check() and wait().
class LoopBackendImpl {
  public:
    explicit LoopBackendImpl(Loop& loop) noexcept : loop_(loop) {}
    virtual ~LoopBackendImpl() = default;
    LoopBackendImpl(const LoopBackendImpl&) = delete;
    LoopBackendImpl& operator=(const LoopBackendImpl&) = delete;

    virtual Result<void> watch(FdWatch& watch) noexcept = 0;
    // `watch` is watched, and its events changed.
    virtual Result<void> rewatch(FdWatch& watch) noexcept = 0;
    virtual void unwatch(FdWatch& watch) noexcept = 0;
    // What can be seen without a system call; returns the events delivered.
    virtual std::uint32_t peek() noexcept { return 0; }
    // Sleeps at most `timeout_ns` (0: looks only; UINT64_MAX: no limit). Returns the events
    // delivered.
    virtual std::uint32_t wait(std::uint64_t timeout_ns) noexcept = 0;
    // A file operation that may block; false when it has to go to the helper threads.
    virtual bool submit(FileOp& op) noexcept = 0;
    virtual std::uint16_t add_personality() noexcept { return 0; }  // as Loop has it
    // Hands what was queued to the kernel.
    virtual void flush() noexcept {}

  protected:
    void finish(FileOp& op, std::int64_t result) noexcept { loop_.finish(op, result); }

  private:
    Loop& loop_;
};

Result<std::unique_ptr<LoopBackendImpl>> make_epoll_backend(Loop& loop);
// Errc::unsupported when the kernel refuses io_uring or lacks what is needed of it.
Result<std::unique_ptr<LoopBackendImpl>> make_uring_backend(Loop& loop);
std::unique_ptr<LoopBackendImpl> make_simulated_backend(Loop& loop);

}  // namespace nfsrdma
