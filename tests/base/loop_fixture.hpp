#pragma once
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "base/loop.hpp"

// What the tests of the loop share: callbacks that count and do what the test says.
namespace nfsrdma {

// Longer than any machine is busy with something else.
inline constexpr std::uint64_t kLong = 30 * kNsPerSec;

// Every callback of these tests: counts, notes, and does what the test says.
struct Action {
    std::uint32_t calls = 0;
    std::function<void()> what = [] {};
    void operator()() noexcept {
        ++calls;
        what();
    }
};
struct TestTimer : Timer, Action {
    TestTimer() : Timer([](Timer& t) noexcept { static_cast<TestTimer&>(t)(); }) {}
};
struct TestTask : Task, Action {
    TestTask() : Task([](Task& t) noexcept { static_cast<TestTask&>(t)(); }) {}
};
struct TestWatch : FdWatch, Action {
    TestWatch()
        : FdWatch([](FdWatch& w, std::uint32_t revents) noexcept {
              static_cast<TestWatch&>(w).got = revents;
              static_cast<TestWatch&>(w)();
          }) {}
    std::uint32_t got = 0;
};
struct TestOp : FileOp, Action {
    explicit TestOp(Kind k) {
        kind = k;
        done = [](FileOp& op, std::int64_t bytes) noexcept {
            static_cast<TestOp&>(op).moved = bytes;
            static_cast<TestOp&>(op)();
        };
    }
    std::int64_t moved = INT64_MIN;
};
struct TestWork : BlockingWork, Action {
    TestWork() {
        run = [](BlockingWork& w) noexcept { static_cast<TestWork&>(w).job(); };
        done = [](BlockingWork& w) noexcept { static_cast<TestWork&>(w)(); };
    }
    std::function<void()> job = [] {};
};
struct TestPollable : Pollable {
    std::uint32_t poll() noexcept override {
        ++polls;
        return on_poll();
    }
    void flush() noexcept override {
        ++flushes;
        on_flush();
    }
    bool arm() noexcept override {
        ++arms;
        return on_arm();
    }
    std::uint32_t polls = 0, flushes = 0, arms = 0;
    std::function<std::uint32_t()> on_poll = [] { return 0u; };
    std::function<void()> on_flush = [] {};
    std::function<bool()> on_arm = [] { return true; };
};

inline bool until(Loop& loop, std::function<bool()> finished, std::uint64_t timeout_ns = kLong) {
    return loop.run_until([](void* f) { return (*static_cast<std::function<bool()>*>(f))(); },
                          &finished, timeout_ns);
}

class LoopTest : public testing::TestWithParam<LoopBackend> {
  protected:
    void SetUp() override {
        LoopOptions options;
        options.backend = GetParam();
        options.clock = &clock_;
        auto made = Loop::create(options);
        if (!made && GetParam() == LoopBackend::io_uring) {
            std::cerr << "SKIPPED: this kernel refuses io_uring: " << to_string(made.error())
                      << "\n";
            GTEST_SKIP() << "needs io_uring: " << to_string(made.error());
        }
        ASSERT_TRUE(made) << to_string(made.error());
        loop_ = *std::move(made);
        EXPECT_EQ(loop_->backend(), GetParam());
    }
    bool simulated() const { return GetParam() == LoopBackend::simulated; }
    bool run_until(std::function<bool()> finished) { return until(*loop_, std::move(finished)); }

    ManualClock clock_;
    std::unique_ptr<Loop> loop_;
};

inline std::string backend_name(const testing::TestParamInfo<LoopBackend>& info) {
    switch (info.param) {
        case LoopBackend::automatic:
            return "automatic";
        case LoopBackend::io_uring:
            return "io_uring";
        case LoopBackend::epoll:
            return "epoll";
        case LoopBackend::simulated:
            return "simulated";
    }
    return "";
}

class RealLoopTest : public LoopTest {};

}  // namespace nfsrdma
