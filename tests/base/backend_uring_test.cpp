#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/unique_fd.hpp"
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

// A write to a program by who is not root takes its set-id bits away; one by root does not.
TEST(UringBackend, FileOpIsDoneAsItsPersonality) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: acting as another user";
    LoopOptions options;
    options.backend = LoopBackend::io_uring;
    auto made = Loop::create(options);
    if (!made) GTEST_SKIP() << "needs io_uring: " << to_string(made.error());
    Loop& loop = **made;
    std::uint16_t other = 0;
    std::thread([&] {  // ids are a thread's own; the ring is the process's
        ::syscall(SYS_setfsuid, 12345);
        other = loop.add_personality();
    })
        .join();
    ASSERT_NE(other, 0);
    std::string name = testing::TempDir() + "/personality.XXXXXX";
    const UniqueFd file(::mkstemp(name.data()));
    ASSERT_TRUE(file);
    ::unlink(name.c_str());
    std::array<std::byte, 16> data{};
    for (const std::uint16_t personality : {std::uint16_t{0}, other}) {
        ASSERT_EQ(::fchmod(file.get(), 04755), 0);
        TestOp write(FileOp::Kind::write);
        write.fd = file.get();
        write.buffer = data;
        write.personality = personality;
        loop.submit(write);
        ASSERT_TRUE(loop.run_until([](void* op) { return static_cast<TestOp*>(op)->calls == 1; },
                                   &write, 10 * kNsPerSec));
        EXPECT_EQ(write.moved, 16);
        struct stat status {};
        ASSERT_EQ(::fstat(file.get(), &status), 0);
        EXPECT_EQ(status.st_mode & 07777u, personality == 0 ? 04755u : 0755u);
    }
    options.backend = LoopBackend::epoll;
    EXPECT_EQ((*Loop::create(options))->add_personality(), 0);
}

}  // namespace
}  // namespace nfsrdma
