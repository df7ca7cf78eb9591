#include <cerrno>
#include <memory>
#include <string>
#include <sys/syscall.h>
#include <vector>

#include <gtest/gtest.h>

#include "tests/base/deny_syscall.hpp"
#include "tests/base/loop_fixture.hpp"

namespace nfsrdma {
namespace {

TEST(UringBackend, RefusedMeansEpollWhenAutomaticAndAClearErrorWhenAskedFor) {
    for (const int refusal : {EPERM, ENOSYS}) {
        const bool filtered = without_syscall(SYS_io_uring_setup, refusal, [&] {
            auto loop = Loop::create({});
            ASSERT_TRUE(loop);
            EXPECT_EQ((*loop)->backend(), LoopBackend::epoll);
            LoopOptions options;
            options.backend = LoopBackend::io_uring;
            auto asked_for = Loop::create(options);
            ASSERT_FALSE(asked_for);
            EXPECT_EQ(asked_for.error().code, Errc::unsupported);
            EXPECT_EQ(asked_for.error().sys, refusal);
            EXPECT_NE(to_string(asked_for.error()).find("io_uring"), std::string::npos);
        });
        if (!filtered) {
            std::cerr << "SKIPPED: seccomp filters are not allowed here\n";
            GTEST_SKIP() << "needs seccomp filters";
        }
    }
}

TEST(UringBackend, ManyLoopsMayLiveAtOnce) {
    LoopOptions options;
    options.backend = LoopBackend::io_uring;
    std::vector<std::unique_ptr<Loop>> loops;
    for (int i = 0; i < 8; ++i) {
        auto made = Loop::create(options);
        if (!made) {
            std::cerr << "SKIPPED: " << to_string(made.error()) << "\n";
            GTEST_SKIP() << "needs io_uring: " << to_string(made.error());
        }
        loops.push_back(*std::move(made));
    }
    TestTimer timer;
    for (auto& loop : loops) {
        loop->arm(timer, loop->now_ns() + 100 * kNsPerUs);
        EXPECT_EQ(loop->run_once(kLong), 1u);
    }
    EXPECT_EQ(timer.calls, loops.size());
}

}  // namespace
}  // namespace nfsrdma
