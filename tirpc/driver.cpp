#include "tirpc/driver.hpp"

#include <csignal>
#include <sched.h>
#include <system_error>
#include <utility>

#include "base/assert.hpp"

namespace nfsrdma::tirpc {
namespace {

constexpr std::uint64_t kForever = UINT64_MAX;
constexpr std::chrono::milliseconds kKeeperLooks{1};
constexpr std::uint32_t kLooksMax = 20;

std::chrono::steady_clock::time_point time_of(std::uint64_t ns) noexcept {
    return std::chrono::steady_clock::time_point{
        std::chrono::nanoseconds{static_cast<std::int64_t>(ns)}};
}

}  // namespace

// Posted to the loop at most once at a time, by whoever asks.
struct Driver::Nudge final : Task {
    Nudge() noexcept
        : Task([](Task& task) noexcept { static_cast<Nudge&>(task).posted.store(false); }) {}
    std::atomic<bool> posted{false};
};

Driver::Driver() : nudge_(std::make_unique<Nudge>()) {}

Result<std::unique_ptr<Driver>> Driver::create() {
    std::unique_ptr<Driver> driver(new Driver());
    LoopOptions options;
    options.backend = LoopBackend::epoll;
    NR_TRY_ASSIGN(driver->loop_, Loop::create(options));
    // The program's signals are the program's threads'.
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    Error failure;
    try {
        driver->keeper_ = std::thread([self = driver.get()] { self->keep(); });
    } catch (const std::system_error& error) {
        failure = Error{Errc::system, error.code().value(), "no thread for an event loop"};
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!driver->keeper_.joinable()) return failure;
    return driver;
}

Driver::~Driver() {
    if (keeper_.joinable()) {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ending_ = true;
        }
        // It may sleep in the loop, or wait to.
        asking_.fetch_add(1);
        if (!nudge_->posted.exchange(true)) loop_->post(*nudge_);
        keeper_wake_.notify_one();
        keeper_.join();
    }
    if (loop_ != nullptr) static_cast<void>(loop_->run_once(0));  // the nudge
}

void Driver::Hold::release() noexcept {
    if (held_) driver_.release();
    held_ = false;
}

bool Driver::Hold::wait_for(Finished finished, void* arg, std::uint64_t deadline_ns) noexcept {
    NR_ASSERT(held_);
    held_ = false;
    return driver_.drive(finished, arg, deadline_ns);
}

bool Driver::Hold::wait_held(Finished finished, void* arg, std::uint64_t deadline_ns) noexcept {
    const bool done = wait_for(finished, arg, deadline_ns);
    driver_.acquire();
    held_ = true;
    return done;
}

bool Driver::Hold::poll_for(Finished finished, void* arg, std::uint64_t deadline_ns,
                            std::uint64_t quiet_ns) noexcept {
    NR_ASSERT(held_);
    Loop& loop = *driver_.loop_;
    std::uint64_t active_ns = loop.now_ns();
    while (!finished(arg)) {
        if (driver_.asking_.load(std::memory_order_relaxed) != 0) return false;
        const std::uint32_t done = loop.run_once(0);
        driver_.note_turn();
        if (done != 0) driver_.wake_finished();
        const std::uint64_t now = loop.now_ns();
        if (now >= deadline_ns) return finished(arg);
        if (done != 0) {
            active_ns = now;
            continue;
        }
        if (now - active_ns >= quiet_ns) return false;
        ::sched_yield();
    }
    return true;
}

void Driver::acquire() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!busy_) {
        busy_ = true;
        return;
    }
    Waiter self;
    askers_.push_back(self);
    asking_.fetch_add(1);
    // Whoever drives it may be asleep in it, or about to be.
    if (!nudge_->posted.exchange(true)) loop_->post(*nudge_);
    while (!self.holds)
        self.wake.wait(lock);
}

void Driver::release() noexcept {
    wake_finished();  // by what was done without a turn
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool idle = std::exchange(idle_hint_, false);
    if (give_away()) return;
    busy_ = false;
    keeper_turn_ = idle;
    if (idle || keeper_sleeps_) keeper_wake_.notify_one();
}

// To one that asks, else to one that follows.
bool Driver::give_away() noexcept {
    List<Waiter, Waiter>& from = askers_.empty() ? followers_ : askers_;
    if (from.empty()) return false;
    (askers_.empty() ? following_ : asking_).fetch_sub(1);
    Waiter& next = from.front();
    from.erase(next);
    next.holds = true;
    next.wake.notify_one();
    return true;
}

// Called by who holds the loop; when it returns it does not. A follower that is given the loop
// drives on.
bool Driver::drive(Finished finished, void* arg, std::uint64_t deadline_ns) noexcept {
    while (!finished(arg)) {
        const std::uint64_t now = loop_->now_ns();
        if (now >= deadline_ns) {
            release();
            return false;
        }
        if (asking_.load() == 0) {
            static_cast<void>(loop_->run_once(deadline_ns - now));
            note_turn();
            wake_finished();
            continue;
        }
        Waiter self;
        self.is_finished = finished;
        self.arg = arg;
        if (!follow(self, deadline_ns)) return self.finished;
    }
    release();
    return true;
}

// Leaves the loop to one that asks, and sleeps. True: it was given back, to be driven on. False:
// what `self` waits for has come (self.finished), or its time is out.
bool Driver::follow(Waiter& self, std::uint64_t deadline_ns) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    if (askers_.empty()) return true;  // it went by itself
    followers_.push_front(self);
    following_.fetch_add(1);
    static_cast<void>(give_away());
    while (!self.holds && !self.finished) {
        if (deadline_ns == kForever) {
            self.wake.wait(lock);
        } else if (self.wake.wait_until(lock, time_of(deadline_ns)) == std::cv_status::timeout &&
                   !self.holds && !self.finished) {
            followers_.erase(self);
            following_.fetch_sub(1);
            return false;
        }
    }
    return self.holds;
}

void Driver::wake_finished() noexcept {
    if (following_.load() == 0) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = followers_.begin(); it != followers_.end();) {
        Waiter& waiter = *it;
        ++it;
        if (!waiter.is_finished(waiter.arg)) continue;
        followers_.erase(waiter);
        following_.fetch_sub(1);
        waiter.finished = true;
        waiter.wake.notify_one();
    }
}

void Driver::keep() noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    std::uint64_t seen = turns_.load(std::memory_order_relaxed);
    std::uint32_t looks = 0;  // in a row, at a loop that somebody holds all the while
    while (!ending_) {
        // While the loop is in use, a look now and then costs its users less than to tell.
        keeper_sleeps_ = looks >= kLooksMax;
        if (keeper_sleeps_) {
            keeper_wake_.wait(lock);
        } else {
            static_cast<void>(keeper_wake_.wait_for(lock, kKeeperLooks));
        }
        keeper_sleeps_ = false;
        // Who held it and made no turn moved nothing on: what was to happen by itself still waits.
        const std::uint64_t turns = turns_.load(std::memory_order_relaxed);
        const bool used = std::exchange(seen, turns) != turns;
        looks = busy_ && !used ? looks + 1 : 0;
        if (ending_ || busy_ || (used && !keeper_turn_)) continue;
        busy_ = true;
        takeovers_.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        keep_driving();
        lock.lock();
        if (!give_away()) busy_ = false;
        seen = turns_.load(std::memory_order_relaxed);
    }
}

void Driver::keep_driving() noexcept {
    while (asking_.load() == 0) {
        static_cast<void>(loop_->run_once(kForever));
        keeper_turns_.fetch_add(1, std::memory_order_relaxed);
    }
}

}  // namespace nfsrdma::tirpc
