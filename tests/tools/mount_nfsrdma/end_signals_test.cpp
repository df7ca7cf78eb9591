#include "tools/mount_nfsrdma/end_signals.hpp"

#include <csignal>
#include <future>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

// In a process of its own: signals and what is blocked are of all of it.
template <class Body>
int status_of(Body body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(30);
        ::_exit(body());
    }
    int how = 0;
    EXPECT_EQ(::waitpid(child, &how, 0), child);
    return WIFEXITED(how) ? WEXITSTATUS(how) : 1000 + WTERMSIG(how);
}

int first_signal(bool hangup_ends, int number) {
    return status_of([&] {
        std::promise<int> got;
        const EndSignals signals(hangup_ends, [&](int signal) { got.set_value(signal); });
        (void)::kill(::getpid(), number);
        return got.get_future().get();
    });
}

TEST(EndSignals, FirstOneIsTold) {
    EXPECT_EQ(first_signal(true, SIGTERM), SIGTERM);
    EXPECT_EQ(first_signal(true, SIGINT), SIGINT);
    EXPECT_EQ(first_signal(true, SIGHUP), SIGHUP);
    EXPECT_EQ(first_signal(false, SIGTERM), SIGTERM);
}

TEST(EndSignals, HangupIsNothingInTheBackground) {
    EXPECT_EQ(status_of([] {
                  std::promise<int> got;
                  const EndSignals signals(false, [&](int signal) { got.set_value(signal); });
                  (void)::kill(::getpid(), SIGHUP);
                  (void)::kill(::getpid(), SIGPIPE);
                  (void)::kill(::getpid(), SIGINT);
                  return got.get_future().get();
              }),
              SIGINT);
}

TEST(EndSignals, SecondOneEndsTheProcess) {
    EXPECT_EQ(status_of([] {
                  std::promise<void> got;
                  const EndSignals signals(false, [&](int) { got.set_value(); });
                  (void)::kill(::getpid(), SIGTERM);
                  got.get_future().wait();
                  (void)::kill(::getpid(), SIGTERM);
                  for (;;)
                      ::pause();
                  return 0;
              }),
              128 + SIGTERM);
}

TEST(EndSignals, EndsWithoutASignal) {
    EXPECT_EQ(status_of([] {
                  {
                      const EndSignals signals(false, [](int) { ::_exit(1); });
                  }
                  return 5;
              }),
              5);
}

}  // namespace
}  // namespace nfsrdma::mount
