#include <poll.h>

#include "tests/base/loop_fixture.hpp"

namespace nfsrdma {
namespace {

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

}  // namespace
}  // namespace nfsrdma
