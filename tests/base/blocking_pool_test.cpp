#include "base/blocking_pool.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/base/loop_fixture.hpp"

namespace nfsrdma {
namespace {

class BlockingPoolTest : public LoopTest {};
INSTANTIATE_TEST_SUITE_P(Backends, BlockingPoolTest,
                         testing::Values(LoopBackend::epoll, LoopBackend::io_uring,
                                         LoopBackend::simulated),
                         backend_name);

TEST_P(BlockingPoolTest, BlockingWorkRunsElsewhereAndIsDoneHere) {
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

TEST_P(BlockingPoolTest, LoopDiesWithBlockingWorkQueued) {
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

}  // namespace
}  // namespace nfsrdma
