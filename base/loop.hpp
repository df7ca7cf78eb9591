#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/list.hpp"
#include "base/result.hpp"

namespace nfsrdma {

class Loop;

// Something that the loop polls while it is awake: a device, a completion queue. Called on the
// loop's thread only.
class Pollable : public ListHook<Pollable> {
  public:
    virtual ~Pollable() = default;
    // Does a bounded amount of work and returns how many items it did; 0 lets the loop go idle.
    virtual std::uint32_t poll() noexcept = 0;
    // Called last in each iteration in which anything was done: transmit what was queued meanwhile.
    virtual void flush() noexcept {}
    // Called before the loop sleeps: make sure that a watched fd, or a timer, wakes it when there
    // is work. False when work arrived meanwhile and the loop must not sleep.
    virtual bool arm() noexcept { return true; }
};

// One step of work put off to the next turn of the loop: completions append, they do not act.
class Task : public ListHook<Task> {
  public:
    using Run = void (*)(Task&) noexcept;
    explicit Task(Run r) noexcept : run(r) {}
    Run run;

  private:
    friend class Loop;
    bool last_ = false;
};

// A one-shot timer, reusable. Lives in its owner; must be disarmed (or have fired) before it dies:
// its destructor disarms it.
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
    using Ready = void (*)(
        FdWatch&, std::uint32_t poll_events) noexcept;  // POLLIN, POLLOUT, POLLHUP, POLLERR
    explicit FdWatch(Ready r) noexcept : ready(r) {}
    Ready ready;
    int fd = -1;
    std::uint32_t events = 0;  // POLLIN | POLLOUT
    void* backend = nullptr;   // the loop's own
};

class FileMapping;

// One file operation whose buffer is arena memory. Lives in its owner until `done` ran.
struct FileOp : ListHook<FileOp> {
    enum class Kind : std::uint8_t { read, write, sync, data_sync };
    // Runs on the loop. `result` is bytes moved, or -errno.
    using Done = void (*)(FileOp&, std::int64_t result) noexcept;
    Done done = nullptr;
    Kind kind = Kind::read;
    // True where the file answers from memory (tmpfs): pread/pwrite on the loop, a bounded number
    // of bytes a turn (docs/adr: file IO).
    bool in_line = false;
    int fd = -1;
    // Whom it is done as, from Loop::add_personality; 0: as whoever the thread acts as then. Heeded
    // where the backend hands the operation to the kernel (not in line, not on a helper thread).
    std::uint16_t personality = 0;
    // Of `fd`, to read from where it reaches and holds; lent until `done`.
    const FileMapping* mapping = nullptr;
    std::span<std::byte> buffer;
    std::uint64_t offset = 0;
    std::int64_t result = 0;
};

// Work that may block, run on one of a few helper threads; `done` runs on the loop afterwards.
// Lives in its owner.
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
    simulated,  // never sleeps: moves a ManualClock to the next timer; no fds, file operations in
                // line
};

struct LoopOptions {
    LoopBackend backend = LoopBackend::automatic;
    std::uint32_t spin_us =
        50;  // polls at most this long after the last activity before it sleeps; adaptive
    std::uint32_t blocking_threads = 2;  // helper threads for BlockingWork, started at first use
    ManualClock* clock = nullptr;        // simulated only
};

struct LoopCounters {
    std::uint64_t iterations = 0, sleeps = 0, timers_fired = 0, tasks_run = 0, file_ops = 0,
                  blocking_works = 0;
};

class LoopBackendImpl;
class BlockingPool;
class TimerHeap;
struct Posted;
template <class T>
class MpscQueue;

// One thread's event loop. Everything that a connection owns belongs to one loop; only `post` and
// `stop` may be called from other threads.
//
// One iteration: due timers, pollables, ready tasks, then flush of every pollable. When nothing was
// done for the spin time (adaptive: it shrinks when spinning did not help, and stops when the
// thread is preempted), the loop arms the pollables and sleeps until an fd, a timer or a posted
// task wakes it. A loop without pollables has nothing to spin for and sleeps at once.
//
// Any callback may remove, disarm, unwatch or free itself or others; none may run the loop again.
class Loop {
  public:
    // Errc::system when no backend can be set up; Errc::unsupported when io_uring is asked for and
    // the kernel refuses it; Errc::invalid_argument for `simulated` without a clock.
    static Result<std::unique_ptr<Loop>> create(const LoopOptions& options);
    // Waits for the file operations and blocking works that run; what is queued is dropped.
    ~Loop();
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    // Until stop(). In simulation also returns when nothing is left that could ever happen.
    void run() noexcept;
    // One iteration; waits at most `max_sleep_ns` (0: not at all) for work, spinning and then
    // sleeping. Returns how many items of work were done.
    std::uint32_t run_once(std::uint64_t max_sleep_ns) noexcept;
    // Runs until `finished(arg)` or `timeout_ns` of the loop's clock passed; true when finished.
    // stop() ends it early.
    bool run_until(bool (*finished)(void*), void* arg, std::uint64_t timeout_ns) noexcept;
    // Any thread, and signal handlers. Ends the run or run_until in progress, else the next one.
    void stop() noexcept;
    // Runs `task` on this loop's thread; any thread. The task lives until it ran. Never fails: a
    // bounded queue that is full makes the caller wait. In simulation: the loop's thread only.
    void post(Task& task) noexcept;

    // Something was sent from outside of a turn, whose answer may come soon: worth to poll for.
    void expect_answer() noexcept;

    std::uint64_t now_ns() const noexcept { return clock_->now_ns(); }
    const Clock& clock() const noexcept { return *clock_; }
    // This thread; runs in this or the next iteration, in order. The task is not ready yet.
    void ready(Task& task) noexcept;
    // As ready, but behind everything else that this turn does, reads of files too: for what many
    // of them are gathered for.
    void last(Task& task) noexcept;
    // Takes back a task made ready or last, if it has not run. Not for posted tasks.
    void cancel(Task& task) noexcept;
    void arm(Timer& timer, std::uint64_t deadline_ns) noexcept;  // re-arming moves it
    void disarm(Timer& timer) noexcept;
    // Deadline of the earliest timer; UINT64_MAX when none is armed.
    std::uint64_t next_timer_ns() const noexcept;
    void add(Pollable& pollable) noexcept;
    void remove(Pollable& pollable) noexcept;
    // `watch.fd` and `watch.events` are set. To change the events: change them and watch again.
    // Errc::system (EBADF; EPERM for files that cannot be waited for), Errc::unsupported in
    // simulation.
    Result<void> watch(FdWatch& watch) noexcept;
    void unwatch(FdWatch& watch) noexcept;  // before its fd is closed; no effect when not watched
    // `done` runs later in this or another iteration. A read or write goes on until the buffer is
    // done, the file ends or an error; bytes moved before an error win over the error.
    void submit(FileOp& op) noexcept;
    void submit(BlockingWork& work) noexcept;
    // Keeps whom the calling thread acts as now (ids, groups, capabilities), for
    // FileOp::personality, as long as the loop lives. 0: the backend cannot, or has too many.
    std::uint16_t add_personality() noexcept;
    // Differs from that of any other loop of the process, also of those that are gone.
    std::uint64_t serial() const noexcept { return serial_; }
    // Read on the loop's thread.
    const LoopCounters& counters() const noexcept { return counters_; }
    LoopBackend backend() const noexcept { return backend_; }  // never `automatic`

  private:
    friend class BlockingPool;
    friend class LoopBackendImpl;
    explicit Loop(const LoopOptions& options);
    Result<void> start(const LoopOptions& options);
    Result<void> start_real(LoopBackend wanted);

    void adopt_thread() noexcept;
    std::uint32_t turn(std::uint64_t now) noexcept;
    std::uint32_t fire_timers(std::uint64_t now) noexcept;
    std::uint32_t poll_pollables() noexcept;
    void flush_pollables() noexcept;
    bool arm_pollables() noexcept;
    Pollable* first_pollable() noexcept;
    Pollable* pollable_after(Pollable& pollable) noexcept;
    std::uint32_t take_posted() noexcept;
    bool nothing_ready() const noexcept;
    std::uint32_t run_ready() noexcept;
    std::uint32_t check_backend(std::uint64_t now) noexcept;
    // One step of having nothing to do; `limit` is when run_once must return.
    std::uint32_t idle(std::uint64_t now, std::uint64_t limit) noexcept;
    std::uint32_t sleep(std::uint64_t now, std::uint64_t limit) noexcept;
    void jump(std::uint64_t now, std::uint64_t limit) noexcept;
    bool should_spin(std::uint64_t now) noexcept;
    bool stop_requested() const noexcept;
    bool take_stop() noexcept;
    bool has_posted() const noexcept;

    // From helper threads: hands a finished item over to the loop's thread.
    void hand_over(const Posted& posted) noexcept;
    void wake() noexcept;
    // On the loop's thread: `op.done` runs with `op.result` in the next ready phase.
    void finish(FileOp& op, std::int64_t result) noexcept;
    void run_quick(FileOp& op) noexcept;    // in line, or from the page cache where that has it
    void submit_slow(FileOp& op) noexcept;  // where it may block
    BlockingPool& pool() noexcept;

    const Clock* clock_ = nullptr;
    ManualClock* manual_clock_ = nullptr;
    LoopBackend backend_ = LoopBackend::epoll;
    LoopCounters counters_;
    const std::uint64_t serial_;
    std::uint32_t blocking_threads_ = 1;

    List<Pollable, Pollable> pollables_;
    Pollable* next_pollable_ = nullptr;  // where the walk over the pollables goes on
    List<Task, Task> ready_, last_;
    List<FileOp, FileOp> quick_ops_;  // to be tried on the loop
    List<FileOp, FileOp> finished_ops_;
    List<BlockingWork, BlockingWork> finished_works_;
    List<FdWatch, FdWatch> watches_;
    std::unique_ptr<TimerHeap> timers_;
    std::unique_ptr<LoopBackendImpl> impl_;
    std::unique_ptr<BlockingPool> pool_;
    bool in_turn_ = false;
    bool slack_set_ = false;

    // Spinning.
    std::uint64_t spin_max_ns_ = 0;
    std::uint64_t spin_ns_ = 0;           // at present
    std::uint32_t spins_in_vain_ = 0;     // in a row
    std::uint64_t last_activity_ns_ = 0;  // of something that may be followed by more
    std::uint64_t last_check_ns_ = 0;     // of the backend
    std::uint64_t last_idle_ns_ = 0;      // of the previous idle poll; 0: it found work

    // Shared with other threads.
    struct Shared;
    std::unique_ptr<Shared> shared_;
};

}  // namespace nfsrdma
