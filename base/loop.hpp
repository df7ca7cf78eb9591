#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/list.hpp"
#include "base/result.hpp"

namespace nfsrdma {

class Loop;

// Something that the loop polls while it is awake: a device, a completion queue. Called on the loop's thread only.
class Pollable : public ListHook<Pollable> {
  public:
    virtual ~Pollable() = default;
    // Does a bounded amount of work and returns how many items it did; 0 lets the loop go idle.
    virtual std::uint32_t poll() noexcept = 0;
    // Called last in each iteration in which anything was done: transmit what was queued meanwhile.
    virtual void flush() noexcept {}
    // Called before the loop sleeps: make sure that a watched fd, or a timer, wakes it when there is work. False when
    // work arrived meanwhile and the loop must not sleep.
    virtual bool arm() noexcept { return true; }
};

// One step of work put off to the next turn of the loop: completions append, they do not act.
class Task : public ListHook<Task> {
  public:
    using Run = void (*)(Task&) noexcept;
    explicit Task(Run r) noexcept : run(r) {}
    Run run;
};

// A one-shot timer, reusable. Lives in its owner; must be disarmed (or have fired) before it dies: its destructor
// disarms it.
class Timer {
  public:
    using Fire = void (*)(Timer&) noexcept;
    explicit Timer(Fire f) noexcept : fire(f) {}
    ~Timer();
    Timer(const Timer&) = delete;
    Timer& operator=(const Timer&) = delete;
    bool armed() const noexcept { return loop_ != nullptr; }
    std::uint64_t deadline_ns() const noexcept { return deadline_ns_; }
    Fire fire;

  private:
    friend class TimerHeap;
    friend class Loop;
    Loop* loop_ = nullptr;
    std::uint64_t deadline_ns_ = 0;
    std::uint32_t heap_index_ = 0;
};

// Watches one fd for readability or writability, level triggered.
class FdWatch : public ListHook<FdWatch> {
  public:
    using Ready = void (*)(FdWatch&, std::uint32_t poll_events) noexcept;  // POLLIN, POLLOUT, POLLHUP, POLLERR
    explicit FdWatch(Ready r) noexcept : ready(r) {}
    Ready ready;
    int fd = -1;
    std::uint32_t events = 0;  // POLLIN | POLLOUT
    void* backend = nullptr;   // the loop's own
};

// One file operation whose buffer is arena memory. Lives in its owner until `done` ran.
struct FileOp : ListHook<FileOp> {
    enum class Kind : std::uint8_t { read, write, sync, data_sync };
    // Runs on the loop. `result` is bytes moved, or -errno.
    using Done = void (*)(FileOp&, std::int64_t result) noexcept;
    Done done = nullptr;
    Kind kind = Kind::read;
    // True where the file answers from memory (tmpfs): pread/pwrite at once, on the loop (docs/adr: file IO).
    bool in_line = false;
    int fd = -1;
    std::span<std::byte> buffer;
    std::uint64_t offset = 0;
    std::int64_t result = 0;
};

// Work that may block, run on one of a few helper threads; `done` runs on the loop afterwards. Lives in its owner.
struct BlockingWork : ListHook<BlockingWork> {
    using Run = void (*)(BlockingWork&) noexcept;
    Run run = nullptr;   // on a helper thread
    Run done = nullptr;  // on the loop
    Loop* origin = nullptr;
};

enum class LoopBackend : std::uint8_t {
    automatic,  // io_uring where io_uring_setup is allowed, else epoll
    io_uring,
    epoll,
    simulated,  // never sleeps: moves a ManualClock to the next timer; no fds, file operations in line
};

struct LoopOptions {
    LoopBackend backend = LoopBackend::automatic;
    std::uint32_t spin_us = 50;         // polls at most this long after the last activity before it sleeps; adaptive
    std::uint32_t blocking_threads = 2; // helper threads for BlockingWork, started at first use
    ManualClock* clock = nullptr;       // simulated only
};

struct LoopCounters {
    std::uint64_t iterations = 0, sleeps = 0, timers_fired = 0, tasks_run = 0, file_ops = 0, blocking_works = 0;
};

// One thread's event loop. Everything that a connection owns belongs to one loop; only `post` and `stop` may be called
// from other threads.
//
// One iteration: due timers, pollables, ready tasks, then flush of every pollable. When nothing was done for the spin time
// (adaptive: it shrinks when spinning did not help, and stops when the thread is preempted), the loop arms the pollables
// and sleeps until an fd, a timer or a posted task wakes it.
class Loop {
  public:
    // Errc::system when no backend can be set up.
    static Result<std::unique_ptr<Loop>> create(const LoopOptions& options);
    virtual ~Loop() = default;
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void run() noexcept;             // until stop()
    // One iteration; sleeps at most `max_sleep_ns` when idle. Returns how many items of work were done.
    std::uint32_t run_once(std::uint64_t max_sleep_ns) noexcept;
    // Runs until `finished(arg)` or `timeout_ns` of the loop's clock passed; true when finished.
    bool run_until(bool (*finished)(void*), void* arg, std::uint64_t timeout_ns) noexcept;
    void stop() noexcept;            // any thread
    // Runs `task` on this loop's thread; any thread. The task lives until it ran. Never fails: a bounded queue that is full
    // makes the caller wait.
    void post(Task& task) noexcept;

    std::uint64_t now_ns() const noexcept { return clock_->now_ns(); }
    const Clock& clock() const noexcept { return *clock_; }
    void ready(Task& task) noexcept; // this thread; runs in this or the next iteration, in order
    void arm(Timer& timer, std::uint64_t deadline_ns) noexcept;  // re-arming moves it
    void disarm(Timer& timer) noexcept;
    void add(Pollable& pollable) noexcept;
    void remove(Pollable& pollable) noexcept;
    Result<void> watch(FdWatch& watch) noexcept;  // fd and events set
    void unwatch(FdWatch& watch) noexcept;
    void submit(FileOp& op) noexcept;             // `done` runs later in this or another iteration
    void submit(BlockingWork& work) noexcept;
    const LoopCounters& counters() const noexcept { return counters_; }
    LoopBackend backend() const noexcept { return backend_; }  // never `automatic`

  protected:
    Loop() = default;
    const Clock* clock_ = nullptr;
    LoopBackend backend_ = LoopBackend::epoll;
    LoopCounters counters_;
};

}  // namespace nfsrdma
