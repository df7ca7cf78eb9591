#include "tools/mount_nfsrdma/launch.hpp"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

// Runs `child` as the process that serves; it never returns. The parent's outcome is returned.
template <class Child>
int launch(Child child) {
    Launch launch;
    int status = -1;
    if (launch.to_child(status)) {
        child(launch);
        ::_exit(99);
    }
    return status;
}

TEST(Launch, ParentEndsWhenTheMountStands) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    // The child closes what it has inherited, but not the standard files: it speaks by one of them.
    const int kept = ::dup(STDIN_FILENO);
    ASSERT_EQ(::dup2(ready[1], STDIN_FILENO), STDIN_FILENO);
    const int status = launch([](Launch& launch) {
        const int mine = ::dup(STDIN_FILENO);
        launch.detach();
        char cwd[16] = "";
        const bool at_root = ::getcwd(cwd, sizeof cwd) != nullptr && std::string(cwd) == "/";
        const bool own_session = ::getsid(0) == ::getpid();
        char byte = 0;
        const bool no_input = ::read(STDIN_FILENO, &byte, 1) == 0;
        // Later than the parent's end: nobody waits for this process.
        (void)::poll(nullptr, 0, 50);
        const char said = static_cast<char>('0' + at_root + 2 * own_session + 4 * no_input);
        (void)!::write(mine, &said, 1);
        ::_exit(7);
    });
    ASSERT_EQ(::dup2(kept, STDIN_FILENO), STDIN_FILENO);
    ::close(kept);
    ::close(ready[1]);
    EXPECT_EQ(status, kExitOk);
    pollfd one{ready[0], POLLIN, 0};
    ASSERT_EQ(::poll(&one, 1, 20000), 1);
    char said = 0;
    ASSERT_EQ(::read(ready[0], &said, 1), 1);
    EXPECT_EQ(said, '7');
    ::close(ready[0]);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
}

TEST(Launch, FailureIsTheParentsStatus) {
    EXPECT_EQ(launch([](Launch& launch) {
                  launch.tell_failed(kExitFailed);
                  launch.tell_failed(kExitUsage);  // once is enough
                  ::_exit(0);
              }),
              kExitFailed);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
}

TEST(Launch, ChildThatDiesIsToldByTheParent) {
    testing::internal::CaptureStderr();
    const int status = launch([](Launch&) {
        (void)::signal(SIGKILL, SIG_DFL);
        (void)::raise(SIGKILL);
    });
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(status, kExitBug);
    EXPECT_NE(said.find("ended by signal 9"), std::string::npos) << said;
}

TEST(Launch, ChildThatEndsWithoutAWordIsNoSuccess) {
    EXPECT_EQ(launch([](Launch&) { ::_exit(0); }), kExitSystem);
    EXPECT_EQ(launch([](Launch&) { ::_exit(5); }), 5);
}

TEST(Launch, ForeignFilesAreClosed) {
    int foreign[2];
    ASSERT_EQ(::pipe(foreign), 0);  // not close-on-exec, as of a shell
    const int status = launch([&](Launch& launch) {
        launch.tell_failed(::fcntl(foreign[1], F_GETFD) < 0 ? 40 : 41);
        ::_exit(0);
    });
    EXPECT_EQ(status, 40);
    ::close(foreign[0]);
    ::close(foreign[1]);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
}

TEST(Launch, ForegroundTellsNobody) {
    Launch launch;
    EXPECT_FALSE(launch.in_background());
    launch.tell_failed(kExitFailed);
    EXPECT_TRUE(launch.told());
}

// Attempts.

MountOptions patient(double minutes) {
    MountOptions out;
    out.server = "s";
    out.export_path = "/x";
    out.retry_minutes = minutes;
    return out;
}

TEST(KeepTrying, SuccessNeedsOneAttempt) {
    Launch launch;
    int attempts = 0;
    const Attempt last = keep_trying(patient(2), launch, [&] {
        ++attempts;
        Attempt out;
        out.ok = true;
        return out;
    });
    EXPECT_TRUE(last.ok);
    EXPECT_EQ(attempts, 1);
}

TEST(KeepTrying, WhatCannotGoWellIsNotTriedAgain) {
    Launch launch;
    int attempts = 0;
    testing::internal::CaptureStderr();
    const Attempt last = keep_trying(patient(2), launch, [&] {
        ++attempts;
        Attempt out;
        out.why = "no such export";
        return out;
    });
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "mount.nfsrdma: no such export\n");
    EXPECT_FALSE(last.ok);
    EXPECT_EQ(last.status, kExitFailed);
    EXPECT_EQ(attempts, 1);
}

TEST(KeepTrying, ServerThatComesLaterIsWaitedFor) {
    Launch launch;
    int attempts = 0;
    testing::internal::CaptureStderr();
    const Attempt last = keep_trying(
        patient(2), launch,
        [&] {
            Attempt out;
            out.ok = ++attempts == 4;
            out.again = true;
            out.why = "nobody listens";
            return out;
        },
        0.001);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(last.ok);
    EXPECT_EQ(attempts, 4);
    EXPECT_EQ(said,
              "mount.nfsrdma: nobody listens; trying on until it goes well, for 2 min\n"
              "mount.nfsrdma: s:/x: the server is there\n");
}

TEST(KeepTrying, EndsAfterRetry) {
    Launch launch;
    int attempts = 0;
    const auto fails = [&] {
        ++attempts;
        Attempt out;
        out.again = true;
        out.why = "nobody listens";
        return out;
    };
    testing::internal::CaptureStderr();
    EXPECT_FALSE(keep_trying(patient(0), launch, fails).ok);
    EXPECT_EQ(attempts, 1) << "retry=0 is one attempt";
    attempts = 0;
    EXPECT_FALSE(keep_trying(patient(0.1 / 60), launch, fails, 0.01).ok);
    (void)testing::internal::GetCapturedStderr();
    EXPECT_GE(attempts, 2);
}

TEST(KeepTrying, BackgroundIsGoneToAfterTheFirstFailure) {
    const int status = launch([](Launch& launch) {
        MountOptions options = patient(1);
        options.background = true;
        int attempts = 0;
        (void)keep_trying(
            options, launch,
            [&] {
                Attempt out;
                // From the second attempt on the parent has been told.
                if (++attempts > 1) ::_exit(launch.told() ? 0 : 1);
                out.again = true;
                out.why = "nobody listens";
                return out;
            },
            0.001);
    });
    EXPECT_EQ(status, kExitOk);
    int how = -1;
    EXPECT_GT(::waitpid(-1, &how, 0), 0);
    EXPECT_TRUE(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

TEST(KeepTrying, BackgroundIsNotGoneToForWhatCannotGoWell) {
    EXPECT_EQ(launch([](Launch& launch) {
                  MountOptions options = patient(1);
                  options.background = true;
                  const Attempt last = keep_trying(options, launch, [] {
                      Attempt out;
                      out.why = "no such export";
                      return out;
                  });
                  launch.tell_failed(last.status);
                  ::_exit(0);
              }),
              kExitFailed);
    while (::waitpid(-1, nullptr, 0) > 0) {
    }
}

}  // namespace
}  // namespace nfsrdma::mount
