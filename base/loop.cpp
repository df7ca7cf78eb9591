#include "base/loop.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <thread>
#include <unistd.h>

#include "base/assert.hpp"
#include "base/blocking_pool.hpp"
#include "base/file_io.hpp"
#include "base/loop_backend.hpp"
#include "base/mpsc_queue.hpp"
#include "base/posted.hpp"
#include "base/timer_heap.hpp"
#include "base/unique_fd.hpp"

// Operation. turn() is one iteration without waiting; run_once() repeats it, with idle() between,
// until something was done or the time is over. idle() polls again, or sleeps in the backend.
//
// Ownership. The loop owns nothing that is linked into it: pollables, timers, watches, tasks and
// operations live in their owners, who take them out (or have them run) before they die.
//
// Waking. Another thread pushes into the queue, counts `posted`, then looks at `sleeping`; the loop
// sets `sleeping`, then looks at `posted`. Both in the one order of sequentially consistent
// operations, so one of the two sees the other: no wake-up is lost, and a loop that is awake is
// never written to.

namespace nfsrdma {

namespace {

std::atomic<std::uint64_t> last_serial{0};

constexpr std::size_t kPostedMax = 1024;       // waiting in the bridge; then posters wait
constexpr std::size_t kTimersReserved = 4096;  // armed at once before the heap has to grow
constexpr std::uint32_t kReadyPerTurnMax = 4096;
// Of files in one turn: what was read is sent while it is in the cache, and small requests do not
// wait for all large ones that came with them.
constexpr std::size_t kFileBytesPerTurn = std::size_t{512} << 10;
constexpr std::uint64_t kCheckNs = 20 * kNsPerUs;      // between looks at fds while polling
constexpr std::uint64_t kPreemptedNs = 30 * kNsPerUs;  // an idle poll takes about 2 us
constexpr std::uint32_t kVainSpinsMax = 4;             // in a row, then the spin time halves
constexpr std::uint64_t kSpinShrinkMax = 16;           // down to this part of the full time
constexpr std::uint64_t kNearMissSpins = 4;    // woken within so many spin times: spin longer
constexpr unsigned long kTimerSlackNs = 1000;  // the default of 50 us would be most of a round trip
constexpr std::uint64_t kNever = TimerHeap::kNever;

std::uint64_t add_saturating(std::uint64_t a, std::uint64_t b) noexcept {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

}  // namespace

struct Loop::Shared {
    Shared() : queue(kPostedMax), wake_watch(&Shared::drain) {}
    // The count is of no interest: what was posted is looked at anyway.
    static void drain(FdWatch& watch, std::uint32_t) noexcept {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(watch.fd, &count, sizeof count);
    }

    MpscQueue<Posted> queue;
    std::atomic<std::uint64_t> posted{0};
    std::atomic<bool> sleeping{false};
    std::atomic<bool> stop{false};
    std::atomic<bool> closing{false};
    std::atomic<std::thread::id> runner{};  // the thread inside run_once; none outside
    std::uint64_t taken = 0;                // of `posted`; the loop's own
    UniqueFd wake_fd;
    FdWatch wake_watch;
};

Timer::~Timer() {
    if (loop_ != nullptr) loop_->disarm(*this);
}

std::uint16_t Loop::add_personality() noexcept {
    return impl_->add_personality();
}

Loop::Loop(const LoopOptions& options)
    : manual_clock_(options.clock),
      serial_(++last_serial),
      blocking_threads_(options.blocking_threads),
      timers_(std::make_unique<TimerHeap>(kTimersReserved)),
      spin_max_ns_(options.spin_us * kNsPerUs),
      spin_ns_(spin_max_ns_),
      shared_(std::make_unique<Shared>()) {}

Loop::~Loop() {
    shared_->closing.store(true);
    pool_.reset();
    if (impl_ != nullptr && shared_->wake_watch.linked()) unwatch(shared_->wake_watch);
    impl_.reset();
    while (!timers_->empty())
        timers_->pop().loop_ = nullptr;
}

Result<std::unique_ptr<Loop>> Loop::create(const LoopOptions& options) {
    std::unique_ptr<Loop> loop(new Loop(options));  // NOLINT: the constructor is private
    NR_TRY(loop->start(options));
    return loop;
}

Result<void> Loop::start(const LoopOptions& options) {
    if (options.backend == LoopBackend::simulated) {
        if (manual_clock_ == nullptr) {
            return Error{Errc::invalid_argument, 0, "a simulated loop needs a clock"};
        }
        clock_ = manual_clock_;
        backend_ = LoopBackend::simulated;
        impl_ = make_simulated_backend(*this);
        return {};
    }
    static const RealClock real_clock;
    clock_ = &real_clock;
    return start_real(options.backend);
}

Result<void> Loop::start_real(LoopBackend wanted) {
    if (wanted != LoopBackend::epoll) {
        auto uring = make_uring_backend(*this);
        if (uring) {
            impl_ = *std::move(uring);
            backend_ = LoopBackend::io_uring;
        } else if (wanted == LoopBackend::io_uring) {
            return uring.error();
        }
    }
    if (impl_ == nullptr) {
        NR_TRY_ASSIGN(impl_, make_epoll_backend(*this));
        backend_ = LoopBackend::epoll;
    }
    shared_->wake_fd.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!shared_->wake_fd) return Error{Errc::system, errno, "eventfd"};
    shared_->wake_watch.fd = shared_->wake_fd.get();
    shared_->wake_watch.events = POLLIN;
    return watch(shared_->wake_watch);
}

// ---- running

void Loop::run() noexcept {
    while (!take_stop()) {
        const std::uint32_t done = run_once(UINT64_MAX);
        if (done == 0 && backend_ == LoopBackend::simulated && next_timer_ns() == kNever) {
            take_stop();
            return;
        }
    }
}

bool Loop::run_until(bool (*finished)(void*), void* arg, std::uint64_t timeout_ns) noexcept {
    const std::uint64_t limit = add_saturating(now_ns(), timeout_ns);
    for (;;) {
        if (finished(arg)) return true;
        const std::uint64_t now = now_ns();
        if (now >= limit || take_stop()) return false;
        const std::uint32_t done = run_once(limit - now);
        if (done == 0 && backend_ == LoopBackend::simulated && now_ns() == now) {
            return finished(arg);  // nothing left that could happen
        }
    }
}

std::uint32_t Loop::run_once(std::uint64_t max_sleep_ns) noexcept {
    NR_ASSERT(!in_turn_);
    in_turn_ = true;
    adopt_thread();
    std::uint64_t now = now_ns();
    const std::uint64_t limit = add_saturating(now, max_sleep_ns);
    std::uint32_t done = turn(now);
    if (done == 0 && max_sleep_ns == 0 && now - last_check_ns_ >= kCheckNs) {
        // Somebody else does the waiting: fds are looked at here all the same.
        if (check_backend(now) != 0) done = 1 + turn(now);
    }
    while (done == 0 && now < limit && !stop_requested()) {
        const std::uint64_t before = now;
        const std::uint32_t events = idle(now, limit);
        now = now_ns();
        done = turn(now) + events;
        if (backend_ == LoopBackend::simulated && done == 0 && now == before) break;
    }
    shared_->runner.store(std::thread::id{}, std::memory_order_relaxed);
    in_turn_ = false;
    return done;
}

void Loop::adopt_thread() noexcept {
    shared_->runner.store(std::this_thread::get_id(), std::memory_order_relaxed);
    if (backend_ == LoopBackend::simulated || slack_set_) return;
    ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0UL, 0UL, 0UL);
    slack_set_ = true;
}

std::uint32_t Loop::turn(std::uint64_t now) noexcept {
    const std::uint32_t timers = fire_timers(now);
    std::uint32_t active = take_posted();
    active += impl_->peek();
    active += poll_pollables();
    active += run_ready();
    const std::uint32_t done = timers + active;
    if (done != 0) {
        if (now - last_check_ns_ >= kCheckNs) active += check_backend(now);
        flush_pollables();
        if (last_idle_ns_ != 0) spins_in_vain_ = 0;
        last_idle_ns_ = 0;
        // A timer alone (a keep-alive, a retry that may be far from its answer) is no reason to
        // expect more at once.
        if (active != 0) last_activity_ns_ = now;
    }
    impl_->flush();
    ++counters_.iterations;
    return done;
}

std::uint32_t Loop::fire_timers(std::uint64_t now) noexcept {
    if (timers_->next_deadline_ns() > now) return 0;
    // A timer that arms itself again for now waits for the next turn.
    std::uint32_t budget = static_cast<std::uint32_t>(timers_->size());
    std::uint32_t fired = 0;
    while (budget-- > 0 && timers_->next_deadline_ns() <= now) {
        Timer& timer = timers_->pop();
        timer.loop_ = nullptr;
        timer.fire(timer);
        ++fired;
    }
    counters_.timers_fired += fired;
    return fired;
}

std::uint32_t Loop::poll_pollables() noexcept {
    std::uint32_t done = 0;
    for (Pollable* at = first_pollable(); at != nullptr; at = next_pollable_) {
        next_pollable_ = pollable_after(*at);
        done += at->poll();
    }
    return done;
}

void Loop::flush_pollables() noexcept {
    for (Pollable* at = first_pollable(); at != nullptr; at = next_pollable_) {
        next_pollable_ = pollable_after(*at);
        at->flush();
    }
}

bool Loop::arm_pollables() noexcept {
    bool may_sleep = true;
    for (Pollable* at = first_pollable(); at != nullptr; at = next_pollable_) {
        next_pollable_ = pollable_after(*at);
        may_sleep = at->arm() && may_sleep;
    }
    return may_sleep;
}

Pollable* Loop::first_pollable() noexcept {
    return pollables_.empty() ? nullptr : &pollables_.front();
}

Pollable* Loop::pollable_after(Pollable& pollable) noexcept {
    return &pollable == &pollables_.back() ? nullptr : static_cast<Pollable*>(pollable.next);
}

std::uint32_t Loop::take_posted() noexcept {
    if (!has_posted()) return 0;
    std::uint32_t count = 0;
    Posted posted;
    while (count < kPostedMax && shared_->queue.pop(posted)) {
        if (posted.task != nullptr) ready_.push_back(*posted.task);
        if (posted.op != nullptr) finished_ops_.push_back(*posted.op);
        if (posted.work != nullptr) finished_works_.push_back(*posted.work);
        ++count;
    }
    shared_->taken += count;
    return count;
}

bool Loop::nothing_ready() const noexcept {
    return ready_.empty() && last_.empty() && quick_ops_.empty() && finished_ops_.empty() &&
           finished_works_.empty();
}

std::uint32_t Loop::run_ready() noexcept {
    std::uint32_t done = 0;
    std::size_t file_bytes = 0;
    while (done < kReadyPerTurnMax) {
        if (!ready_.empty()) {
            Task& task = ready_.pop_front();
            task.run(task);
            ++counters_.tasks_run;
        } else if (!finished_ops_.empty()) {
            FileOp& op = finished_ops_.pop_front();
            op.done(op, op.result);
        } else if (!finished_works_.empty()) {
            BlockingWork& work = finished_works_.pop_front();
            work.done(work);
        } else if (!quick_ops_.empty() && file_bytes < kFileBytesPerTurn) {
            FileOp& op = quick_ops_.pop_front();
            file_bytes += op.buffer.size();
            run_quick(op);
        } else {
            break;
        }
        ++done;
    }
    for (; !last_.empty(); ++done) {
        Task& task = last_.pop_front();
        task.run(task);
        ++counters_.tasks_run;
    }
    return done;
}

// ---- waiting

std::uint32_t Loop::check_backend(std::uint64_t now) noexcept {
    last_check_ns_ = now;
    return impl_->wait(0);
}

std::uint32_t Loop::idle(std::uint64_t now, std::uint64_t limit) noexcept {
    if (backend_ == LoopBackend::simulated) {
        if (arm_pollables() && nothing_ready()) jump(now, limit);
        return 0;
    }
    if (!should_spin(now)) return sleep(now, limit);
    last_idle_ns_ = now;
    if (now - last_check_ns_ >= kCheckNs) return check_backend(now);
    ::sched_yield();
    return 0;
}

void Loop::jump(std::uint64_t now, std::uint64_t limit) noexcept {
    const std::uint64_t target = std::min(next_timer_ns(), limit);
    if (target != kNever && target > now) manual_clock_->advance_to(target);
}

void Loop::expect_answer() noexcept {
    last_activity_ns_ = now_ns();
    last_idle_ns_ = 0;
}

bool Loop::should_spin(std::uint64_t now) noexcept {
    if (pollables_.empty() || now - last_activity_ns_ >= spin_ns_) return false;
    // Somebody else needs this core: whoever is to answer us may be among them.
    return last_idle_ns_ == 0 || now - last_idle_ns_ < kPreemptedNs;
}

std::uint32_t Loop::sleep(std::uint64_t now, std::uint64_t limit) noexcept {
    const bool spun_in_vain = last_idle_ns_ != 0 && now - last_idle_ns_ < kPreemptedNs;
    if (!arm_pollables()) return 0;  // a last look, then this again
    last_idle_ns_ = 0;
    if (spun_in_vain && ++spins_in_vain_ >= kVainSpinsMax) {
        spins_in_vain_ = 0;
        spin_ns_ = std::max(spin_ns_ / 2, spin_max_ns_ / kSpinShrinkMax);
    }
    impl_->flush();
    const std::uint64_t until = std::min(next_timer_ns(), limit);
    const std::uint64_t timeout = until == kNever ? kNever : until - std::min(until, now);
    std::uint32_t events = 0;
    shared_->sleeping.store(true);
    if (shared_->posted.load() == shared_->taken && nothing_ready() && timeout != 0) {
        ++counters_.sleeps;
        events = impl_->wait(timeout);
    }
    shared_->sleeping.store(false, std::memory_order_relaxed);
    if (events != 0) {
        const std::uint64_t woken = now_ns();
        last_activity_ns_ = last_check_ns_ = woken;
        if (woken - now < kNearMissSpins * spin_max_ns_) {
            spin_ns_ = std::min(spin_ns_ * 2, spin_max_ns_);
        }
    }
    return events;
}

// ---- from other threads

bool Loop::has_posted() const noexcept {
    return shared_->posted.load(std::memory_order_acquire) != shared_->taken;
}

bool Loop::stop_requested() const noexcept {
    return shared_->stop.load(std::memory_order_relaxed);
}

bool Loop::take_stop() noexcept {
    return stop_requested() && shared_->stop.exchange(false);
}

void Loop::stop() noexcept {
    shared_->stop.store(true);
    wake();
}

void Loop::wake() noexcept {
    if (!shared_->wake_fd) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(shared_->wake_fd.get(), &one, sizeof one);
}

void Loop::post(Task& task) noexcept {
    const bool own = shared_->runner.load(std::memory_order_relaxed) == std::this_thread::get_id();
    if (own || backend_ == LoopBackend::simulated) {
        ready(task);
        return;
    }
    Posted posted;
    posted.task = &task;
    hand_over(posted);
}

void Loop::hand_over(const Posted& posted) noexcept {
    while (!shared_->queue.push(posted)) {
        if (shared_->closing.load()) return;
        if (shared_->sleeping.exchange(false)) wake();
        ::sched_yield();
    }
    shared_->posted.fetch_add(1);
    if (shared_->sleeping.exchange(false)) wake();
}

// ---- what waits in the loop

void Loop::ready(Task& task) noexcept {
    NR_ASSERT(!task.linked());
    task.last_ = false;
    ready_.push_back(task);
}

void Loop::last(Task& task) noexcept {
    task.last_ = true;
    last_.push_back(task);
}

void Loop::cancel(Task& task) noexcept {
    if (task.linked()) (task.last_ ? last_ : ready_).erase(task);
}

void Loop::arm(Timer& timer, std::uint64_t deadline_ns) noexcept {
    NR_ASSERT(timer.loop_ == nullptr || timer.loop_ == this);
    if (timer.loop_ != nullptr) timers_->erase(timer);
    timer.loop_ = this;
    timers_->push(timer, deadline_ns);
}

void Loop::disarm(Timer& timer) noexcept {
    if (timer.loop_ == nullptr) return;
    NR_ASSERT(timer.loop_ == this);
    timers_->erase(timer);
    timer.loop_ = nullptr;
}

std::uint64_t Loop::next_timer_ns() const noexcept {
    return timers_->next_deadline_ns();
}

void Loop::add(Pollable& pollable) noexcept {
    NR_ASSERT(!pollable.linked());
    pollables_.push_back(pollable);
}

void Loop::remove(Pollable& pollable) noexcept {
    if (!pollable.linked()) return;
    if (next_pollable_ == &pollable) next_pollable_ = pollable_after(pollable);
    pollables_.erase(pollable);
}

Result<void> Loop::watch(FdWatch& watch) noexcept {
    if (watch.linked()) return impl_->rewatch(watch);
    NR_TRY(impl_->watch(watch));
    watches_.push_back(watch);
    return {};
}

void Loop::unwatch(FdWatch& watch) noexcept {
    if (!watch.linked()) return;
    watches_.erase(watch);
    impl_->unwatch(watch);
}

void Loop::submit(FileOp& op) noexcept {
    ++counters_.file_ops;
    if (!check_file_op(op)) {
        finish(op, op.result);
    } else if (op.in_line || op.kind == FileOp::Kind::read) {
        quick_ops_.push_back(op);
    } else {
        submit_slow(op);
    }
}

void Loop::run_quick(FileOp& op) noexcept {
    if (op.in_line) {
        finish(op, run_file_op(op));
    } else if (read_cached(op)) {
        finish(op, op.result);
    } else {
        submit_slow(op);
    }
}

void Loop::submit_slow(FileOp& op) noexcept {
    if (!impl_->submit(op)) pool().submit(op);
}

void Loop::submit(BlockingWork& work) noexcept {
    ++counters_.blocking_works;
    work.origin = this;
    if (backend_ == LoopBackend::simulated) {
        work.run(work);
        finished_works_.push_back(work);
    } else {
        pool().submit(work);
    }
}

BlockingPool& Loop::pool() noexcept {
    if (pool_ == nullptr) pool_ = std::make_unique<BlockingPool>(*this, blocking_threads_);
    return *pool_;
}

void Loop::finish(FileOp& op, std::int64_t result) noexcept {
    op.result = result;
    finished_ops_.push_back(op);
}

}  // namespace nfsrdma
