#include "base/loop.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <functional>
#include <iostream>
#include <poll.h>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma {
namespace {

constexpr std::uint64_t kLong = 5 * kNsPerSec;

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

bool until(Loop& loop, std::function<bool()> finished, std::uint64_t timeout_ns = kLong) {
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
            GTEST_SKIP() << "io_uring refused: " << to_string(made.error());
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

std::string backend_name(const testing::TestParamInfo<LoopBackend>& info) {
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

INSTANTIATE_TEST_SUITE_P(Backends, LoopTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring,
                                         LoopBackend::simulated),
                         backend_name);

// ---- timers

TEST_P(LoopTest, TimersFireInOrderOfDeadlineNotOfArming) {
    TestTimer a, b, c;
    std::string order;
    a.what = [&] { order += 'a'; };
    b.what = [&] { order += 'b'; };
    c.what = [&] { order += 'c'; };
    const std::uint64_t now = loop_->now_ns();
    loop_->arm(a, now + 3 * kNsPerMs);
    loop_->arm(b, now + 1 * kNsPerMs);
    loop_->arm(c, now + 2 * kNsPerMs);
    EXPECT_EQ(loop_->next_timer_ns(), now + 1 * kNsPerMs);
    ASSERT_TRUE(run_until([&] { return order.size() == 3; }));
    EXPECT_EQ(order, "bca");
    EXPECT_GE(loop_->now_ns(), now + 3 * kNsPerMs);
    EXPECT_EQ(loop_->next_timer_ns(), UINT64_MAX);
    EXPECT_EQ(loop_->counters().timers_fired, 3u);
}

TEST_P(LoopTest, TimerIsNotEarlyAndNearlyInTime) {
    TestTimer timer;
    const std::uint64_t deadline = loop_->now_ns() + 5 * kNsPerMs + 123;
    std::uint64_t fired_at = 0;
    timer.what = [&] { fired_at = loop_->now_ns(); };
    loop_->arm(timer, deadline);
    ASSERT_TRUE(run_until([&] { return fired_at != 0; }));
    EXPECT_GE(fired_at, deadline);
    if (simulated()) {
        EXPECT_EQ(fired_at, deadline);
    }
    EXPECT_LT(fired_at, deadline + kNsPerSec);
}

TEST_P(LoopTest, RearmingMovesATimer) {
    TestTimer moved, mark;
    const std::uint64_t now = loop_->now_ns();
    loop_->arm(moved, now + 1 * kNsPerMs);
    loop_->arm(moved, now + 4 * kNsPerMs);
    EXPECT_EQ(moved.deadline_ns(), now + 4 * kNsPerMs);
    std::uint32_t calls_at_mark = 9;
    mark.what = [&] { calls_at_mark = moved.calls; };
    loop_->arm(mark, now + 2 * kNsPerMs);
    ASSERT_TRUE(run_until([&] { return moved.calls == 1; }));
    EXPECT_EQ(calls_at_mark, 0u);
    EXPECT_FALSE(moved.armed());
}

TEST_P(LoopTest, TimerMayRearmItselfAndDisarmOthers) {
    TestTimer ticking, other;
    const std::uint64_t now = loop_->now_ns();
    ticking.what = [&] {
        EXPECT_FALSE(ticking.armed());
        loop_->disarm(other);
        if (ticking.calls < 3) loop_->arm(ticking, loop_->now_ns() + 100 * kNsPerUs);
    };
    loop_->arm(ticking, now + kNsPerMs);
    loop_->arm(other, now + kNsPerMs);
    ASSERT_TRUE(run_until([&] { return ticking.calls == 3; }));
    EXPECT_EQ(other.calls, 0u);
    EXPECT_FALSE(other.armed());
}

TEST_P(LoopTest, TimerArmedForThePastDoesNotStarveTheRest) {
    TestTimer eager;
    TestTask task;
    eager.what = [&] { loop_->arm(eager, 0); };
    loop_->arm(eager, 0);
    loop_->ready(task);
    ASSERT_TRUE(run_until([&] { return task.calls == 1 && eager.calls >= 3; }));
    loop_->disarm(eager);
}

TEST_P(LoopTest, DyingTimerDisarmsItself) {
    {
        TestTimer gone;
        loop_->arm(gone, loop_->now_ns() + 1);
    }
    EXPECT_EQ(loop_->next_timer_ns(), UINT64_MAX);
    EXPECT_EQ(loop_->run_once(kNsPerMs), 0u);
}

TEST_P(LoopTest, TimerOutlivesItsLoop) {
    TestTimer timer;
    loop_->arm(timer, loop_->now_ns() + 1);
    loop_.reset();
    EXPECT_FALSE(timer.armed());
}

TEST_P(LoopTest, RunUntilGivesUpAtItsTimeout) {
    const std::uint64_t before = loop_->now_ns();
    EXPECT_FALSE(until(
        *loop_, [] { return false; }, 3 * kNsPerMs));
    EXPECT_GE(loop_->now_ns(), before + 3 * kNsPerMs);
    if (simulated()) {
        EXPECT_EQ(loop_->now_ns(), before + 3 * kNsPerMs);
    }
}

TEST_P(LoopTest, RunOnceWithoutSleepReturnsAtOnce) {
    TestTimer later;
    loop_->arm(later, loop_->now_ns() + kNsPerSec);
    const std::uint64_t before = loop_->now_ns();
    EXPECT_EQ(loop_->run_once(0), 0u);
    EXPECT_LT(loop_->now_ns(), before + kNsPerSec / 2);
    EXPECT_EQ(loop_->counters().sleeps, 0u);
}

// ---- tasks

TEST_P(LoopTest, TasksRunInOrderAndMayQueueMore) {
    TestTask a, b, c;
    std::string order;
    a.what = [&] {
        order += 'a';
        loop_->ready(c);
    };
    b.what = [&] { order += 'b'; };
    c.what = [&] { order += 'c'; };
    loop_->ready(a);
    loop_->ready(b);
    EXPECT_EQ(loop_->run_once(0), 3u);
    EXPECT_EQ(order, "abc");
    EXPECT_EQ(loop_->counters().tasks_run, 3u);
}

TEST_P(LoopTest, TaskThatQueuesItselfForEverDoesNotStopTheLoop) {
    TestTask again;
    TestTimer timer;
    again.what = [&] { loop_->ready(again); };
    loop_->ready(again);
    loop_->arm(timer, loop_->now_ns());
    loop_->run_once(0);
    loop_->run_once(0);
    EXPECT_EQ(timer.calls, 1u);
    EXPECT_GT(again.calls, 1u);
    loop_->cancel(again);
    EXPECT_FALSE(again.linked());
}

TEST_P(LoopTest, CancelledTaskDoesNotRun) {
    TestTask a, b;
    a.what = [&] { loop_->cancel(b); };
    loop_->ready(a);
    loop_->ready(b);
    loop_->run_once(0);
    EXPECT_EQ(a.calls, 1u);
    EXPECT_EQ(b.calls, 0u);
}

// ---- pollables

TEST_P(LoopTest, FlushComesLastAndOnlyAfterWork) {
    TestPollable pollable;
    TestTask task;
    std::string order;
    bool work = true;
    pollable.on_poll = [&] {
        order += 'p';
        return work ? 1u : 0u;
    };
    pollable.on_flush = [&] { order += 'f'; };
    task.what = [&] { order += 't'; };
    loop_->add(pollable);
    loop_->ready(task);
    EXPECT_EQ(loop_->run_once(0), 2u);
    EXPECT_EQ(order, "ptf");
    work = false;
    EXPECT_EQ(loop_->run_once(0), 0u);
    EXPECT_EQ(order, "ptfp");
    loop_->remove(pollable);
}

TEST_P(LoopTest, PollableMayRemoveItselfAndItsNeighbours) {
    std::vector<TestPollable> three(3);
    for (TestPollable& pollable : three)
        loop_->add(pollable);
    three[0].on_poll = [&] {
        loop_->remove(three[1]);
        loop_->remove(three[0]);
        return 1u;
    };
    loop_->run_once(0);
    EXPECT_EQ(three[0].polls, 1u);
    EXPECT_EQ(three[1].polls, 0u);
    EXPECT_EQ(three[2].polls, 1u);
    EXPECT_EQ(three[0].flushes, 0u);
    EXPECT_EQ(three[2].flushes, 1u);
    three[2].on_flush = [&] { loop_->remove(three[2]); };
    TestTask task;
    loop_->ready(task);
    loop_->run_once(0);
    loop_->run_once(0);
    EXPECT_EQ(three[2].polls, 2u);
}

TEST_P(LoopTest, PollableAddedWhilePollingIsPolledToo) {
    TestPollable first, added;
    loop_->add(first);
    first.on_poll = [&] {
        if (!added.linked()) loop_->add(added);
        return 0u;
    };
    loop_->run_once(0);
    loop_->run_once(0);
    EXPECT_GE(added.polls, 1u);
    loop_->remove(first);
    loop_->remove(added);
}

TEST_P(LoopTest, PollableThatCannotArmKeepsTheLoopAwake) {
    TestPollable pollable;
    TestTimer far;
    bool has_work = false;
    pollable.on_arm = [&] {
        has_work = true;  // came between the last poll and the sleep
        return false;
    };
    pollable.on_poll = [&] { return has_work ? 1u : 0u; };
    loop_->add(pollable);
    const std::uint64_t before = loop_->now_ns();
    loop_->arm(far, before + kLong);
    EXPECT_EQ(loop_->run_once(kLong), 1u);
    EXPECT_LT(loop_->now_ns(), before + kLong);
    EXPECT_EQ(loop_->counters().sleeps, 0u);
    loop_->remove(pollable);
}

TEST_P(LoopTest, RunOnceWaitsForWorkWithinItsTime) {
    TestTimer timer;
    loop_->arm(timer, loop_->now_ns() + 2 * kNsPerMs);
    EXPECT_EQ(loop_->run_once(kLong), 1u);
    EXPECT_EQ(timer.calls, 1u);
}

// ---- blocking work and files

TEST_P(LoopTest, BlockingWorkRunsElsewhereAndIsDoneHere) {
    std::vector<TestWork> works(8);
    const std::thread::id here = std::this_thread::get_id();
    std::atomic<std::uint32_t> ran{0};
    std::uint32_t finished = 0;
    for (TestWork& work : works) {
        work.job = [&] {
            EXPECT_EQ(std::this_thread::get_id() == here, simulated());
            ran.fetch_add(1);
        };
        work.what = [&] {
            EXPECT_EQ(std::this_thread::get_id(), here);
            ++finished;
        };
        loop_->submit(work);
        EXPECT_EQ(work.calls, 0u);
    }
    ASSERT_TRUE(run_until([&] { return finished == works.size(); }));
    EXPECT_EQ(ran.load(), works.size());
    EXPECT_EQ(works[0].origin, loop_.get());
    EXPECT_EQ(loop_->counters().blocking_works, works.size());
}

TEST_P(LoopTest, LoopDiesWithBlockingWorkQueued) {
    std::vector<TestWork> works(16);
    std::atomic<std::uint32_t> ran{0};
    for (TestWork& work : works) {
        work.job = [&] {
            ran.fetch_add(1);
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        };
        loop_->submit(work);
    }
    loop_.reset();
    for (const TestWork& work : works)
        EXPECT_EQ(work.calls, 0u);
}

class LoopFileTest : public LoopTest {
  protected:
    void SetUp() override {
        LoopTest::SetUp();
        std::string name = testing::TempDir() + "/loop_test.XXXXXX";
        file_.reset(::mkstemp(name.data()));
        ASSERT_TRUE(file_);
        ::unlink(name.c_str());
    }
    std::int64_t run(TestOp& op) {
        const std::uint32_t before = op.calls;
        loop_->submit(op);
        EXPECT_EQ(op.calls, before) << "done ran inside submit";
        EXPECT_TRUE(run_until([&] { return op.calls == before + 1; }));
        return op.moved;
    }
    UniqueFd file_;
};
INSTANTIATE_TEST_SUITE_P(Backends, LoopFileTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring,
                                         LoopBackend::simulated),
                         backend_name);

TEST_P(LoopFileTest, WritesSyncsAndReadsBack) {
    for (const bool in_line : {false, true}) {
        std::vector<std::byte> out(300'001), in(out.size());
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<std::byte>(i * 7);
        TestOp write(FileOp::Kind::write), sync(FileOp::Kind::sync),
            data_sync(FileOp::Kind::data_sync), read(FileOp::Kind::read);
        for (TestOp* op : {&write, &sync, &data_sync, &read}) {
            op->in_line = in_line;
            op->fd = file_.get();
            op->offset = 4097;
        }
        write.buffer = out;
        read.buffer = in;
        EXPECT_EQ(run(write), static_cast<std::int64_t>(out.size()));
        EXPECT_EQ(run(sync), 0);
        EXPECT_EQ(run(data_sync), 0);
        EXPECT_EQ(run(read), static_cast<std::int64_t>(in.size()));
        EXPECT_EQ(in, out);
    }
    EXPECT_EQ(loop_->counters().file_ops, 8u);
}

TEST_P(LoopFileTest, ReadPastTheEndIsShortThenEmpty) {
    ASSERT_EQ(::pwrite(file_.get(), "0123456789", 10, 0), 10);
    std::array<std::byte, 64> buffer{};
    for (const bool in_line : {false, true}) {
        TestOp read(FileOp::Kind::read);
        read.in_line = in_line;
        read.fd = file_.get();
        read.buffer = buffer;
        read.offset = 6;
        EXPECT_EQ(run(read), 4);
        read.offset = 10;
        EXPECT_EQ(run(read), 0);
        read.offset = 1 << 20;
        EXPECT_EQ(run(read), 0);
        read.buffer = {};
        read.offset = 0;
        EXPECT_EQ(run(read), 0);
    }
}

TEST_P(LoopFileTest, ErrorsComeBackAsErrno) {
    std::array<std::byte, 16> buffer{};
    const UniqueFd read_only(::open("/dev/null", O_RDONLY));
    for (const bool in_line : {false, true}) {
        for (const auto kind : {FileOp::Kind::read, FileOp::Kind::write, FileOp::Kind::sync}) {
            TestOp bad(kind);
            bad.in_line = in_line;
            bad.fd = -1;
            bad.buffer = buffer;
            EXPECT_EQ(run(bad), -EBADF);
        }
        TestOp write(FileOp::Kind::write);
        write.in_line = in_line;
        write.fd = read_only.get();
        write.buffer = buffer;
        EXPECT_EQ(run(write), -EBADF);
        // Offsets that off_t cannot hold; io_uring would take -1 as "where the file stands".
        for (const std::uint64_t offset : {UINT64_MAX, std::uint64_t{INT64_MAX} - 15 + 1}) {
            write.offset = offset;
            EXPECT_EQ(run(write), -EINVAL);
        }
    }
}

TEST_P(LoopFileTest, ShortWriteReportsWhatWasWritten) {
    // The file may not grow past 10000 bytes: a write over that edge is short, the next one fails.
    ::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit limit{10'000, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
    std::vector<std::byte> buffer(8000);
    TestOp write(FileOp::Kind::write);
    write.fd = file_.get();
    write.buffer = buffer;
    write.offset = 6000;
    const std::int64_t first = run(write);
    write.offset = 10'000;
    const std::int64_t second = run(write);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_EQ(first, 4000);
    EXPECT_EQ(second, -EFBIG);
}

TEST_P(LoopFileTest, ManyOperationsAtOnceAllComplete) {
    constexpr std::size_t kOps = 3000;  // more than the ring holds
    std::vector<std::unique_ptr<TestOp>> ops;
    std::vector<std::uint32_t> values(kOps);
    std::size_t finished = 0;
    for (std::size_t i = 0; i < kOps; ++i) {
        values[i] = static_cast<std::uint32_t>(i);
        auto op = std::make_unique<TestOp>(FileOp::Kind::write);
        op->fd = file_.get();
        op->buffer = std::as_writable_bytes(std::span(&values[i], 1));
        op->offset = i * 4;
        op->what = [&] { ++finished; };
        loop_->submit(*op);
        ops.push_back(std::move(op));
    }
    ASSERT_TRUE(run_until([&] { return finished == kOps; }));
    std::vector<std::uint32_t> got(kOps);
    ASSERT_EQ(::pread(file_.get(), got.data(), kOps * 4, 0), static_cast<ssize_t>(kOps * 4));
    EXPECT_EQ(got, values);
}

TEST_P(LoopFileTest, LoopDiesWithOperationsInFlight) {
    std::vector<std::byte> buffer(1 << 20);
    std::vector<std::unique_ptr<TestOp>> ops;
    for (int i = 0; i < 32; ++i) {
        auto op = std::make_unique<TestOp>(FileOp::Kind::write);
        op->fd = file_.get();
        op->buffer = buffer;
        loop_->submit(*op);
        ops.push_back(std::move(op));
    }
    loop_->run_once(0);
    loop_.reset();
    for (auto& op : ops)
        EXPECT_FALSE(op->linked());
}

// ---- simulated only

class SimulatedLoop : public testing::Test {
  protected:
    void SetUp() override {
        LoopOptions options;
        options.backend = LoopBackend::simulated;
        options.clock = &clock_;
        loop_ = *Loop::create(options);
    }
    ManualClock clock_;
    std::unique_ptr<Loop> loop_;
};

TEST_F(SimulatedLoop, JumpsToTheTimerAndNotBeyondMaxSleep) {
    TestTimer timer;
    const std::uint64_t start = clock_.now_ns();
    loop_->arm(timer, start + 100 * kNsPerSec);
    EXPECT_EQ(loop_->run_once(10 * kNsPerSec), 0u);
    EXPECT_EQ(clock_.now_ns(), start + 10 * kNsPerSec);
    EXPECT_EQ(loop_->run_once(UINT64_MAX), 1u);
    EXPECT_EQ(clock_.now_ns(), start + 100 * kNsPerSec);
}

TEST_F(SimulatedLoop, RunReturnsWhenNothingCanHappen) {
    TestTimer timer;
    loop_->arm(timer, clock_.now_ns() + kNsPerSec);
    loop_->run();
    EXPECT_EQ(timer.calls, 1u);
}

TEST_F(SimulatedLoop, WatchesNoFds) {
    TestWatch watch;
    watch.fd = 0;
    watch.events = POLLIN;
    auto watched = loop_->watch(watch);
    ASSERT_FALSE(watched);
    EXPECT_EQ(watched.error().code, Errc::unsupported);
    loop_->unwatch(watch);
}

TEST_F(SimulatedLoop, NeedsAClock) {
    LoopOptions options;
    options.backend = LoopBackend::simulated;
    auto loop = Loop::create(options);
    ASSERT_FALSE(loop);
    EXPECT_EQ(loop.error().code, Errc::invalid_argument);
}

TEST(LoopCreate, AutomaticPicksOneOfTheTwo) {
    auto loop = Loop::create({});
    ASSERT_TRUE(loop);
    EXPECT_TRUE((*loop)->backend() == LoopBackend::io_uring ||
                (*loop)->backend() == LoopBackend::epoll);
}

}  // namespace
}  // namespace nfsrdma
