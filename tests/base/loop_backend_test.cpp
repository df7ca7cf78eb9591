#include "base/loop_backend.hpp"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"
#include "tests/base/loop_fixture.hpp"

namespace nfsrdma {
namespace {

struct Pair {
    Pair() {
        std::array<int, 2> fds{-1, -1};
        const int rc = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds.data());
        EXPECT_EQ(rc, 0);
        here.reset(fds[0]);
        there.reset(fds[1]);
    }
    void send() const { EXPECT_EQ(::write(there.get(), "x", 1), 1); }
    void receive() const {
        std::array<char, 16> buffer{};
        EXPECT_GT(::read(here.get(), buffer.data(), buffer.size()), 0);
    }
    UniqueFd here, there;
};

class FdWatchTest : public RealLoopTest {
  protected:
    void watch(TestWatch& w, const UniqueFd& fd, std::uint32_t events) {
        w.fd = fd.get();
        w.events = events;
        auto watched = loop_->watch(w);
        ASSERT_TRUE(watched) << to_string(watched.error());
    }
    void run_for(std::uint64_t ns) {
        until(
            *loop_, [] { return false; }, ns);
    }
};
INSTANTIATE_TEST_SUITE_P(Backends, FdWatchTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring), backend_name);

TEST_P(FdWatchTest, IsLevelTriggered) {
    const Pair pair;
    TestWatch in;
    watch(in, pair.here, POLLIN);
    run_for(2 * kNsPerMs);
    EXPECT_EQ(in.calls, 0u);
    pair.send();
    ASSERT_TRUE(run_until([&] { return in.calls >= 3; })) << "readiness not taken is told again";
    EXPECT_EQ(in.got & POLLIN, std::uint32_t{POLLIN});
    pair.receive();
    run_for(2 * kNsPerMs);
    const std::uint32_t calls = in.calls;
    run_for(2 * kNsPerMs);
    EXPECT_EQ(in.calls, calls);
    in.what = [&] { pair.receive(); };
    pair.send();
    ASSERT_TRUE(run_until([&] { return in.calls == calls + 1; }));
    loop_->unwatch(in);
}

TEST_P(FdWatchTest, WakesASleepingLoop) {
    const Pair pair;
    TestWatch in;
    TestTimer timer;
    watch(in, pair.here, POLLIN);
    timer.what = [&] { pair.send(); };
    in.what = [&] { pair.receive(); };
    // Where this thread is held up, the timer is due before the loop could go to sleep.
    for (std::uint32_t tries = 1; tries <= 200 && loop_->counters().sleeps == 0; ++tries) {
        loop_->arm(timer, loop_->now_ns() + 2 * kNsPerMs);
        ASSERT_TRUE(run_until([&] { return in.calls == tries; }));
    }
    EXPECT_GE(loop_->counters().sleeps, 1u);
    loop_->unwatch(in);
}

TEST_P(FdWatchTest, IsSeenWhileAPollableKeepsTheLoopBusy) {
    const Pair pair;
    TestWatch in;
    TestPollable busy;
    busy.on_poll = [] { return 1u; };
    loop_->add(busy);
    watch(in, pair.here, POLLIN);
    pair.send();
    EXPECT_TRUE(run_until([&] { return in.calls > 0; }));
    loop_->remove(busy);
    loop_->unwatch(in);
}

TEST_P(FdWatchTest, WatchingAgainChangesTheEvents) {
    const Pair pair;
    TestWatch both;
    watch(both, pair.here, POLLIN);
    run_for(kNsPerMs);
    EXPECT_EQ(both.calls, 0u);
    watch(both, pair.here, POLLIN | POLLOUT);
    ASSERT_TRUE(run_until([&] { return both.calls > 0; }));
    EXPECT_EQ(both.got, std::uint32_t{POLLOUT});
    watch(both, pair.here, POLLIN);
    run_for(kNsPerMs);
    const std::uint32_t calls = both.calls;
    run_for(kNsPerMs);
    EXPECT_EQ(both.calls, calls);
    loop_->unwatch(both);
}

TEST_P(FdWatchTest, IsSeenByTurnsThatNeverWait) {
    const Pair pair;
    TestWatch in;
    watch(in, pair.here, POLLIN);
    pair.send();
    const std::uint64_t limit = loop_->now_ns() + kLong;
    while (in.calls == 0 && loop_->now_ns() < limit)
        loop_->run_once(0);
    EXPECT_GT(in.calls, 0u);
    EXPECT_EQ(loop_->counters().sleeps, 0u);
    loop_->unwatch(in);
}

TEST_P(FdWatchTest, HangUpIsTold) {
    Pair pair;
    TestWatch in;
    watch(in, pair.here, POLLIN);
    pair.there.reset();
    ASSERT_TRUE(run_until([&] { return in.calls > 0; }));
    EXPECT_NE(in.got & POLLHUP, 0u);
    loop_->unwatch(in);
}

TEST_P(FdWatchTest, MayUnwatchItselfAndOthersFromInside) {
    std::vector<Pair> pairs(8);
    std::vector<std::unique_ptr<TestWatch>> watches;
    std::uint32_t calls = 0;
    for (Pair& pair : pairs) {
        pair.send();
        watches.push_back(std::make_unique<TestWatch>());
        watch(*watches.back(), pair.here, POLLIN);
        watches.back()->what = [&] {
            ++calls;
            for (auto& other : watches) {
                if (other->linked()) loop_->unwatch(*other);
            }
        };
    }
    ASSERT_TRUE(run_until([&] { return calls > 0; }));
    run_for(kNsPerMs);
    EXPECT_EQ(calls, 1u);
}

TEST_P(FdWatchTest, UnwatchedSocketLeavesItsPortWhenClosed) {
    UniqueFd first(::socket(AF_INET, SOCK_DGRAM, 0));
    SockAddr address = SockAddr::v4(INADDR_LOOPBACK, 0);
    ASSERT_EQ(::bind(first.get(), address.sa(), address.sa_len()), 0);
    sockaddr_in bound{};
    socklen_t len = sizeof bound;
    void* const raw = &bound;
    ASSERT_EQ(::getsockname(first.get(), static_cast<sockaddr*>(raw), &len), 0);
    address = address.with_port(ntohs(bound.sin_port));
    TestWatch in;
    watch(in, first, POLLIN);
    run_for(kNsPerMs);
    loop_->unwatch(in);
    first.reset();
    const UniqueFd second(::socket(AF_INET, SOCK_DGRAM, 0));
    EXPECT_EQ(::bind(second.get(), address.sa(), address.sa_len()), 0) << errno;
}

TEST_P(FdWatchTest, BadFdIsAnErrorAtOnce) {
    TestWatch bad;
    bad.fd = -1;
    bad.events = POLLIN;
    auto watched = loop_->watch(bad);
    ASSERT_FALSE(watched);
    EXPECT_EQ(watched.error().code, Errc::system);
    EXPECT_EQ(watched.error().sys, EBADF);
    const UniqueFd file(::open("/proc/self/exe", O_RDONLY));
    bad.fd = file.get();
    watched = loop_->watch(bad);
    ASSERT_FALSE(watched);
    EXPECT_EQ(watched.error().sys, EPERM);
    loop_->unwatch(bad);
}

TEST_P(FdWatchTest, SlotsAreUsedAgain) {
    const Pair pair;
    pair.send();
    for (int i = 0; i < 2000; ++i) {
        TestWatch in;
        watch(in, pair.here, POLLIN);
        if (i % 3 == 0) loop_->run_once(0);
        if (i % 100 == 0) {
            ASSERT_TRUE(run_until([&] { return in.calls > 0; }));
        }
        loop_->unwatch(in);
    }
}

TEST_P(FdWatchTest, WatchOutlivesItsLoop) {
    const Pair pair;
    TestWatch in;
    watch(in, pair.here, POLLIN);
    loop_->run_once(0);
    loop_.reset();
    EXPECT_FALSE(in.linked());
}

}  // namespace
}  // namespace nfsrdma
