#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
#include "tests/base/deny_syscall.hpp"
#include "tests/base/loop_fixture.hpp"

namespace nfsrdma {
namespace {

std::unique_ptr<Loop> epoll_loop() {
    LoopOptions options;
    options.backend = LoopBackend::epoll;
    return *Loop::create(options);
}

TEST(EpollBackend, OldKernelsSleepInMillisecondsAndNeverTooShort) {
    const bool filtered = without_syscall(SYS_epoll_pwait2, ENOSYS, [] {
        const auto loop = epoll_loop();
        TestTimer timer;
        const std::uint64_t deadline = loop->now_ns() + 1'500 * kNsPerUs;
        loop->arm(timer, deadline);
        EXPECT_TRUE(until(*loop, [&] { return timer.calls == 1; }));
        EXPECT_GE(loop->now_ns(), deadline);
        EXPECT_LE(loop->counters().sleeps, 3u) << "no busy waiting for the last part";
    });
    if (!filtered) {
        std::cerr << "SKIPPED: seccomp filters are not allowed here\n";
        GTEST_SKIP() << "needs seccomp filters";
    }
}

TEST(EpollBackend, OneFdIsWatchedByOneWatch) {
    std::array<int, 2> ends{-1, -1};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const UniqueFd out(ends[0]), in(ends[1]);
    const auto loop = epoll_loop();
    TestWatch one, two;
    one.fd = two.fd = out.get();
    one.events = two.events = POLLIN;
    ASSERT_TRUE(loop->watch(one));
    auto second = loop->watch(two);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().sys, EEXIST);
    loop->unwatch(one);
    EXPECT_TRUE(loop->watch(two));
    loop->unwatch(two);
}

}  // namespace
}  // namespace nfsrdma
