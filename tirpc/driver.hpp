#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "base/result.hpp"

// One event loop that is driven by whoever waits for it, so that a call costs no hop from thread to
// thread. For callers that come on threads of their own, as those of libtirpc do.
namespace nfsrdma::tirpc {

// Operation. The loop and everything of it belong to whoever holds it (Hold), one thread at a time.
// Who waits for something drives the loop meanwhile; others that wait for theirs follow, asleep,
// and are woken when it has come. Who asks for the loop gets it after the turn in progress. Who
// leaves hands the loop to one that asks, or else to a follower. While nobody holds it, a keeper
// thread looks each millisecond whether it was driven meanwhile, and if not drives it itself,
// asleep in it, until somebody asks: so timers, acknowledgements and what the peer sends go on
// while a program computes, and when it does nothing.
//
// Threads. Any may make a Hold, but none that has one, and no callback of the loop.
class Driver {
  public:
    using Finished = bool (*)(void* arg);

    // With the epoll backend, which does not care which thread comes. Starts the keeper, with all
    // signals blocked. Errc::system.
    static Result<std::unique_ptr<Driver>> create();
    // Ends the keeper. Nobody holds it or will; what lives on the loop is gone, or goes before it.
    ~Driver();
    Driver(const Driver&) = delete;
    Driver& operator=(const Driver&) = delete;

    // For the holder; Loop::post and now_ns for everybody.
    Loop& loop() noexcept { return *loop_; }

    // The loop is this thread's, from here on.
    class Hold {
      public:
        explicit Hold(Driver& driver) noexcept : driver_(driver) { driver_.acquire(); }
        ~Hold() {
            if (held_) driver_.release();
        }
        Hold(const Hold&) = delete;
        Hold& operator=(const Hold&) = delete;
        void release() noexcept;
        // Until `finished(arg)` or `deadline_ns` of the loop's clock (UINT64_MAX: none). `finished`
        // is asked by whoever drives, after each turn. True when finished. Either way the loop is
        // *not* held any more: what is of it is for the next Hold, or for Loop::post.
        bool wait_for(Finished finished, void* arg, std::uint64_t deadline_ns) noexcept;
        // The same, but the loop is held when it returns; others held it meanwhile.
        bool wait_held(Finished finished, void* arg, std::uint64_t deadline_ns) noexcept;
        // The same without sleeping, and the loop stays held; gives up early when somebody asks for
        // it, or when no turn of `quiet_ns` did anything.
        bool poll_for(Finished finished, void* arg, std::uint64_t deadline_ns,
                      std::uint64_t quiet_ns = UINT64_MAX) noexcept;
        // Before it leaves: nobody is expected soon, so the keeper is to drive at once.
        void going_idle() noexcept { driver_.idle_hint_ = true; }

      private:
        Driver& driver_;
        bool held_ = true;
    };

    // How often the keeper took the loop, and the turns that it made. Any thread.
    std::uint64_t takeovers() const noexcept { return takeovers_.load(std::memory_order_relaxed); }
    std::uint64_t keeper_turns() const noexcept {
        return keeper_turns_.load(std::memory_order_relaxed);
    }

  private:
    struct Waiter : ListHook<Waiter> {
        std::condition_variable wake;
        bool holds = false;     // it was given the loop
        bool finished = false;  // a follower's thing has come
        Finished is_finished = nullptr;
        void* arg = nullptr;
    };
    struct Nudge;

    Driver();
    void acquire() noexcept;
    void release() noexcept;
    bool give_away() noexcept;
    bool follow(Waiter& self, std::uint64_t deadline_ns) noexcept;
    bool drive(Finished finished, void* arg, std::uint64_t deadline_ns) noexcept;
    void wake_finished() noexcept;
    // By the holder, who is alone.
    void note_turn() noexcept {
        turns_.store(turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    }
    void keep() noexcept;
    void keep_driving() noexcept;

    std::unique_ptr<Loop> loop_;
    std::unique_ptr<Nudge> nudge_;  // makes who sleeps in the loop return from its turn
    std::mutex mutex_;              // guards all that follows, but for the atomics
    bool busy_ = false;             // somebody holds the loop
    bool ending_ = false;
    bool idle_hint_ = false;    // the holder's
    bool keeper_turn_ = false;  // the last holder expects nobody soon
    bool keeper_sleeps_ = false;
    List<Waiter, Waiter> askers_, followers_;
    std::condition_variable keeper_wake_;
    std::atomic<std::uint32_t> asking_{0}, following_{0};  // sizes of the lists, for who drives
    std::atomic<std::uint64_t> turns_{0};                  // by others than the keeper
    std::atomic<std::uint64_t> takeovers_{0}, keeper_turns_{0};
    std::thread keeper_;
};

}  // namespace nfsrdma::tirpc
