// Nothing allocates in steady state: the loop's part of it, counted.
#include <array>
#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "base/unique_fd.hpp"
#include "tests/base/loop_fixture.hpp"
#include "tests/support/alloc_counter.hpp"

namespace nfsrdma {
namespace {

using test::AllocCounter;

class LoopSteadyTest : public RealLoopTest {
  protected:
    void SetUp() override {
        if (!test::kAllocCounterWorks) {
            std::cerr << "SKIPPED: a sanitizer's malloc is not counted\n";
            GTEST_SKIP() << "needs a build without sanitizers: a sanitizer's malloc is not counted";
        }
        RealLoopTest::SetUp();
    }
};
INSTANTIATE_TEST_SUITE_P(Backends, LoopSteadyTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring), backend_name);

TEST(AllocCounterTest, CountsEachKind) {
    if (!test::kAllocCounterWorks)
        GTEST_SKIP() << "needs a build without sanitizers: a sanitizer's malloc is not counted";
    const AllocCounter counter;
    const auto one = std::make_unique<std::uint64_t>(1);
    EXPECT_EQ(counter.count(), 1u);
    const std::unique_ptr<void, void (*)(void*)> two(std::aligned_alloc(64, 64), std::free);
    EXPECT_EQ(counter.count(), 2u);
}

TEST_P(LoopSteadyTest, TimersTasksPollablesAndWatches) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    const UniqueFd here(ends[0]), there(ends[1]);
    std::array<TestTimer, 64> timers;
    TestTask task;
    TestWatch watch;
    TestPollable pollable;
    watch.fd = here.get();
    watch.events = POLLIN;
    watch.what = [&] {
        char c = 0;
        EXPECT_EQ(::read(here.get(), &c, 1), 1);
    };
    ASSERT_TRUE(loop_->watch(watch));
    loop_->add(pollable);
    std::uint32_t rounds = 0;
    task.what = [&] {
        for (TestTimer& timer : timers)
            loop_->arm(timer, loop_->now_ns() + 50 * kNsPerUs);
        EXPECT_EQ(::write(there.get(), "x", 1), 1);
    };
    timers[0].what = [&] {
        ++rounds;
        loop_->ready(task);
    };
    std::function<bool()> warm = [&] { return rounds >= 20; };
    std::function<bool()> done = [&] { return rounds >= 200; };
    const auto check = [](void* f) { return (*static_cast<std::function<bool()>*>(f))(); };
    loop_->ready(task);
    ASSERT_TRUE(loop_->run_until(check, &warm, kLong));
    const AllocCounter counter;
    ASSERT_TRUE(loop_->run_until(check, &done, kLong));
    EXPECT_EQ(counter.count(), 0u);
    EXPECT_GE(watch.calls, 150u);
    for (TestTimer& timer : timers)
        loop_->disarm(timer);
    loop_->cancel(task);
    loop_->remove(pollable);
    loop_->unwatch(watch);
}

TEST_P(LoopSteadyTest, FileOperationsAndBlockingWork) {
    std::string name = testing::TempDir() + "/loop_steady_test.XXXXXX";
    const UniqueFd file(::mkstemp(name.data()));
    ASSERT_TRUE(file);
    ::unlink(name.c_str());
    std::array<std::byte, 4096> buffer{};
    TestOp write(FileOp::Kind::write), read(FileOp::Kind::read), sync(FileOp::Kind::data_sync);
    TestWork work;
    for (TestOp* op : {&write, &read, &sync}) {
        op->fd = file.get();
        op->buffer = buffer;
    }
    std::uint32_t rounds = 0;
    write.what = [&] { loop_->submit(read); };
    read.what = [&] { loop_->submit(sync); };
    sync.what = [&] { loop_->submit(work); };
    work.what = [&] {
        ++rounds;
        loop_->submit(write);
    };
    std::function<bool()> warm = [&] { return rounds >= 10; };
    std::function<bool()> done = [&] { return rounds >= 60; };
    const auto check = [](void* f) { return (*static_cast<std::function<bool()>*>(f))(); };
    loop_->submit(write);
    ASSERT_TRUE(loop_->run_until(check, &warm, kLong));
    const AllocCounter counter;
    ASSERT_TRUE(loop_->run_until(check, &done, kLong));
    EXPECT_EQ(counter.count(), 0u);
    work.what = [&] { ++rounds; };
    std::function<bool()> ended = [&, last = rounds] { return rounds > last; };
    ASSERT_TRUE(loop_->run_until(check, &ended, kLong));
}

TEST_P(LoopSteadyTest, PostsFromAnotherThread) {
    TestTask task;
    std::atomic<std::uint32_t> ran{0};
    task.what = [&] { ran.fetch_add(1); };
    std::atomic<bool> go{false};
    std::thread poster([&] {
        for (std::uint32_t i = 0; i < 500; ++i) {
            loop_->post(task);
            while (ran.load() <= i)
                std::this_thread::yield();
            if (i == 20) {
                while (!go.load())
                    std::this_thread::yield();
            }
        }
    });
    std::function<bool()> warm = [&] { return ran.load() >= 21; };
    std::function<bool()> done = [&] { return ran.load() >= 500; };
    const auto check = [](void* f) { return (*static_cast<std::function<bool()>*>(f))(); };
    EXPECT_TRUE(loop_->run_until(check, &warm, kLong));
    const AllocCounter counter;
    go.store(true);
    EXPECT_TRUE(loop_->run_until(check, &done, kLong));
    EXPECT_EQ(counter.count(), 0u);
    poster.join();
}

}  // namespace
}  // namespace nfsrdma
