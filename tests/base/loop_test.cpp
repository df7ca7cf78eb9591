#include "base/loop.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <time.h>
#include <utility>
#include <vector>

#include "tests/base/loop_fixture.hpp"

namespace nfsrdma {
namespace {

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
    EXPECT_LT(fired_at, deadline + kLong);
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
    loop_->arm(later, loop_->now_ns() + kLong);
    const std::uint64_t before = loop_->now_ns();
    EXPECT_EQ(loop_->run_once(0), 0u);
    EXPECT_LT(loop_->now_ns(), before + kLong / 2);
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

TEST_P(LoopTest, LastTaskRunsBehindAllThatTheTurnMakesReady) {
    TestTask late, first, second;
    std::string order;
    late.what = [&] { order += 'l'; };
    first.what = [&] {
        order += '1';
        loop_->ready(second);
    };
    second.what = [&] { order += '2'; };
    loop_->last(late);
    loop_->ready(first);
    EXPECT_EQ(loop_->run_once(0), 3u);
    EXPECT_EQ(order, "12l");
    loop_->ready(late);  // the same one, as any other now
    loop_->ready(second);
    EXPECT_EQ(loop_->run_once(0), 2u);
    EXPECT_EQ(order, "12ll2");
}

TEST_P(LoopTest, LastTaskAloneIsWorkAndCanBeTakenBack) {
    TestTask late;
    loop_->last(late);
    EXPECT_EQ(loop_->run_once(kNsPerSec), 1u);
    EXPECT_EQ(late.calls, 1u);
    loop_->last(late);
    loop_->cancel(late);
    EXPECT_FALSE(late.linked());
    EXPECT_EQ(loop_->run_once(0), 0u);
    EXPECT_EQ(late.calls, 1u);
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

TEST_P(LoopTest, TaskMadeReadyWhileArmingRunsBeforeTheSleep) {
    TestPollable pollable;
    TestTask task;
    TestTimer far;
    pollable.on_arm = [&] {
        if (task.calls == 0) loop_->ready(task);
        return true;
    };
    loop_->add(pollable);
    const std::uint64_t before = loop_->now_ns();
    loop_->arm(far, before + kLong);
    EXPECT_EQ(loop_->run_once(kLong), 1u);
    EXPECT_EQ(task.calls, 1u);
    EXPECT_LT(loop_->now_ns(), before + kLong);
    loop_->remove(pollable);
}

TEST_P(LoopTest, RunOnceWaitsForWorkWithinItsTime) {
    TestTimer timer;
    loop_->arm(timer, loop_->now_ns() + 2 * kNsPerMs);
    EXPECT_EQ(loop_->run_once(kLong), 1u);
    EXPECT_EQ(timer.calls, 1u);
}

// ---- threads

class LoopThreadTest : public RealLoopTest {};
INSTANTIATE_TEST_SUITE_P(Backends, LoopThreadTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring), backend_name);

TEST_P(LoopThreadTest, PostedTaskWakesASleepingLoop) {
    // Where this thread is held up, the task is there before the loop could go to sleep.
    for (int tries = 0; tries < 200 && loop_->counters().sleeps == 0; ++tries) {
        TestTask task;
        std::thread poster([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            loop_->post(task);
        });
        EXPECT_TRUE(run_until([&] { return task.calls == 1; }));
        poster.join();
    }
    EXPECT_GE(loop_->counters().sleeps, 1u);
}

TEST_P(LoopThreadTest, PostsFromManyThreadsAllRunInTheirOrder) {
    constexpr std::size_t kThreads = 3;
    constexpr std::size_t kEach = 3000;  // together more than the bridge holds
    struct Numbered : TestTask {
        std::size_t number = 0;
    };
    std::vector<std::vector<Numbered>> tasks;
    std::size_t ran = 0;
    std::array<std::size_t, kThreads> next{};
    for (std::size_t t = 0; t < kThreads; ++t) {
        tasks.emplace_back(kEach);
        for (std::size_t i = 0; i < kEach; ++i) {
            tasks[t][i].what = [&, t, i] {
                EXPECT_EQ(next[t]++, i);
                ++ran;
            };
        }
    }
    std::vector<std::thread> posters;
    for (std::size_t t = 0; t < kThreads; ++t) {
        posters.emplace_back([&, t] {
            for (std::size_t i = 0; i < kEach; ++i) {
                loop_->post(tasks[t][i]);
                if (i % 500 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
            }
        });
    }
    EXPECT_TRUE(run_until([&] { return ran == kThreads * kEach; }));
    for (std::thread& poster : posters)
        poster.join();
}

TEST_P(LoopThreadTest, PostFromTheLoopItselfNeverWaits) {
    std::vector<TestTask> many(5000);
    std::size_t ran = 0;
    TestTask first;
    for (TestTask& task : many)
        task.what = [&] { ++ran; };
    first.what = [&] {
        for (TestTask& task : many)
            loop_->post(task);
    };
    loop_->post(first);
    EXPECT_TRUE(run_until([&] { return ran == many.size(); }));
}

TEST_P(LoopThreadTest, StopEndsRunFromAnotherThread) {
    std::thread runner([&] { loop_->run(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    loop_->stop();
    runner.join();
    loop_->stop();  // before the next run: ends that one
    loop_->run();
    loop_->stop();
    EXPECT_FALSE(run_until([] { return false; }));
}

TEST_P(LoopThreadTest, PingPongBetweenTwoLoops) {
    LoopOptions options;
    options.backend = GetParam();
    std::unique_ptr<Loop> other = *Loop::create(options);
    TestTask ping, pong;
    std::atomic<std::uint32_t> rounds{0};
    constexpr std::uint32_t kRounds = 2000;
    ping.what = [&] { loop_->post(pong); };
    pong.what = [&] {
        if (rounds.fetch_add(1) + 1 < kRounds) other->post(ping);
    };
    std::thread runner([&] { other->run(); });
    other->post(ping);
    EXPECT_TRUE(run_until([&] { return rounds.load() == kRounds; }));
    other->stop();
    runner.join();
}

// ---- spinning and sleeping

std::uint64_t thread_cpu_ns() {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<std::uint64_t>(used.tv_sec) * kNsPerSec +
           static_cast<std::uint64_t>(used.tv_nsec);
}

TEST_P(LoopThreadTest, IdleLoopSleeps) {
    TestPollable idle_device;
    loop_->add(idle_device);
    const std::uint64_t cpu_before = thread_cpu_ns();
    EXPECT_FALSE(until(
        *loop_, [] { return false; }, 300 * kNsPerMs));
    EXPECT_LT(thread_cpu_ns() - cpu_before, 30 * kNsPerMs);
    EXPECT_GE(loop_->counters().sleeps, 1u);
    EXPECT_LT(loop_->counters().iterations, 1000u);
    EXPECT_GE(idle_device.arms, 1u);
    loop_->remove(idle_device);
}

TEST_P(LoopThreadTest, TicksOfATimerAloneDoNotMakeItSpin) {
    TestPollable idle_device;
    TestTimer tick;
    tick.what = [&] { loop_->arm(tick, loop_->now_ns() + kNsPerMs); };
    loop_->add(idle_device);
    loop_->arm(tick, loop_->now_ns());
    EXPECT_TRUE(run_until([&] { return tick.calls >= 50; }));
    EXPECT_LT(idle_device.polls, 8 * tick.calls + 100);
    loop_->remove(idle_device);
}

TEST_P(LoopThreadTest, SpinsAfterActivityBeforeItSleeps) {
    TestPollable device;
    bool active = false;
    device.on_poll = [&] { return std::exchange(active, false) ? 1u : 0u; };
    loop_->add(device);
    // On a busy machine one try may be preempted, which rightly ends its spinning.
    std::uint32_t most_polls = 0;
    for (int i = 0; i < 200 && (i < 10 || most_polls < 4); ++i) {
        active = true;
        EXPECT_EQ(loop_->run_once(0), 1u);
        const std::uint32_t polls = device.polls;
        loop_->run_once(5 * kNsPerMs);
        most_polls = std::max(most_polls, device.polls - polls);
    }
    EXPECT_GE(most_polls, 4u) << "polled on after the work";
    EXPECT_GE(loop_->counters().sleeps, 5u);
    loop_->remove(device);
}

// A device whose arm() wants one look more, as a completion queue does, is no reason to spin on.
TEST_P(LoopThreadTest, SpinningInVainShrinksWhateverArmWants) {
    TestPollable device;
    bool active = false, look_again = false;
    device.on_poll = [&] { return std::exchange(active, false) ? 1u : 0u; };
    device.on_arm = [&] {
        look_again = !look_again;
        return !look_again;
    };
    loop_->add(device);
    std::uint32_t most = 0;
    std::vector<std::uint32_t> polls;
    const auto usual = [&] {  // of the last rounds
        std::vector<std::uint32_t> last(polls.end() - 21, polls.end());
        std::nth_element(last.begin(), last.begin() + 10, last.end());
        return last[10];
    };
    for (int i = 0; i < 3000 && (polls.size() < 21 || usual() >= most / 3); ++i) {
        active = true;
        EXPECT_EQ(loop_->run_once(0), 1u);
        const std::uint32_t before = device.polls;
        loop_->run_once(kNsPerMs);
        polls.push_back(device.polls - before);
        most = std::max(most, polls.back());
    }
    EXPECT_LT(usual(), most / 3);
    loop_->remove(device);
}

TEST(LoopCreate, AutomaticPicksOneOfTheTwo) {
    auto loop = Loop::create({});
    ASSERT_TRUE(loop);
    EXPECT_TRUE((*loop)->backend() == LoopBackend::io_uring ||
                (*loop)->backend() == LoopBackend::epoll);
}

}  // namespace
}  // namespace nfsrdma
