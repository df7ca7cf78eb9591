#include "tirpc/driver.hpp"

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::tirpc {
namespace {

struct Flag {
    std::atomic<bool> set{false};
    static bool is_set(void* arg) { return static_cast<Flag*>(arg)->set.load(); }
};

// Sets its flag when it fires.
struct FlagTimer final : Timer {
    explicit FlagTimer(Flag& f) noexcept
        : Timer([](Timer& timer) noexcept { static_cast<FlagTimer&>(timer).flag.set.store(true); }),
          flag(f) {}
    Flag& flag;
};

std::unique_ptr<Driver> make_driver() {
    auto made = Driver::create();
    EXPECT_TRUE(static_cast<bool>(made));
    return *std::move(made);
}

TEST(Driver, WhoWaitsDrivesTheLoop) {
    auto driver = make_driver();
    Flag flag;
    FlagTimer timer(flag);
    Driver::Hold hold(*driver);
    driver->loop().arm(timer, driver->loop().now_ns() + kNsPerMs);
    EXPECT_TRUE(hold.wait_for(Flag::is_set, &flag, UINT64_MAX));
}

TEST(Driver, ADeadlineEndsTheWait) {
    auto driver = make_driver();
    Flag flag;
    Driver::Hold hold(*driver);
    const std::uint64_t deadline = driver->loop().now_ns() + 5 * kNsPerMs;
    EXPECT_FALSE(hold.wait_held(Flag::is_set, &flag, deadline));
    EXPECT_GE(driver->loop().now_ns(), deadline);
}

TEST(Driver, TheKeeperDrivesAnIdleLoop) {
    auto driver = make_driver();
    Flag flag;
    FlagTimer timer(flag);
    {
        const Driver::Hold hold(*driver);
        driver->loop().arm(timer, driver->loop().now_ns() + 3 * kNsPerMs);
    }
    while (!flag.set.load())
        std::this_thread::yield();
    EXPECT_GE(driver->takeovers(), 1u);
    const Driver::Hold hold(*driver);  // the timer's destructor is the loop's business
}

TEST(Driver, AnAskerGetsALoopInWhichAnotherSleeps) {
    auto driver = make_driver();
    Flag ended;
    std::thread sleeper([&] {
        Driver::Hold hold(*driver);
        EXPECT_TRUE(hold.wait_for(Flag::is_set, &ended, UINT64_MAX));
    });
    for (int i = 0; i < 100; ++i) {
        const Driver::Hold hold(*driver);
        static_cast<void>(driver->loop().next_timer_ns());
    }
    {
        const Driver::Hold hold(*driver);
        ended.set.store(true);  // without a turn: release tells those that follow
    }
    sleeper.join();
}

TEST(Driver, AFollowerOutOfTimeLeaves) {
    auto driver = make_driver();
    Flag never, ended;
    std::thread first([&] {
        Driver::Hold hold(*driver);
        EXPECT_TRUE(hold.wait_for(Flag::is_set, &ended, UINT64_MAX));
    });
    std::vector<std::thread> others;
    for (int i = 0; i < 4; ++i) {
        others.emplace_back([&] {
            Driver::Hold hold(*driver);
            EXPECT_FALSE(
                hold.wait_for(Flag::is_set, &never, driver->loop().now_ns() + 10 * kNsPerMs));
        });
    }
    for (std::thread& thread : others)
        thread.join();
    {
        const Driver::Hold hold(*driver);
        ended.set.store(true);
    }
    first.join();
}

// Threads that each wait for a timer of their own, over and over: every one is told of its own.
TEST(Driver, ManyThreadsWaitForEachTheirOwn) {
    auto driver = make_driver();
    std::array<std::thread, 8> threads;
    std::atomic<std::uint32_t> waits{0};
    for (std::thread& thread : threads) {
        thread = std::thread([&] {
            for (std::uint32_t i = 0; i < 200; ++i) {
                Flag flag;
                FlagTimer timer(flag);
                {
                    Driver::Hold hold(*driver);
                    driver->loop().arm(timer, driver->loop().now_ns() + (i % 7) * 10 * kNsPerUs);
                    EXPECT_TRUE(hold.wait_for(Flag::is_set, &flag, UINT64_MAX));
                }
                waits.fetch_add(1);
                const Driver::Hold hold(*driver);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(waits.load(), 1600u);
}

TEST(Driver, PollingEndsWhenSomebodyAsks) {
    auto driver = make_driver();
    Flag never;
    std::thread asker;
    {
        Driver::Hold hold(*driver);
        asker = std::thread([&] { const Driver::Hold other(*driver); });
        EXPECT_FALSE(hold.poll_for(Flag::is_set, &never, UINT64_MAX));
    }
    asker.join();
}

// While something happens it goes on, and ends soon after the last of it.
TEST(Driver, PollingGoesOnWhileTurnsDoSomething) {
    constexpr std::uint64_t kQuiet = 20 * kNsPerMs;
    auto driver = make_driver();
    struct Ticks : Timer {
        explicit Ticks(Loop& l)
            : Timer([](Timer& timer) noexcept { static_cast<Ticks&>(timer).tick(); }), loop(l) {}
        void tick() noexcept {
            if (++count < 20) loop.arm(*this, loop.now_ns() + kQuiet / 10);
        }
        Loop& loop;
        std::uint32_t count = 0;
    };
    Flag never;
    Driver::Hold hold(*driver);
    Ticks ticks(driver->loop());
    driver->loop().arm(ticks, driver->loop().now_ns());
    const std::uint64_t begun = driver->loop().now_ns();
    EXPECT_FALSE(hold.poll_for(Flag::is_set, &never, begun + 30 * kNsPerSec, kQuiet));
    const std::uint64_t took = driver->loop().now_ns() - begun;
    EXPECT_GE(took, kQuiet);
    EXPECT_LT(took, 30 * kNsPerSec);
    // No tick is missed but on a machine that stood still.
    EXPECT_GE(ticks.count, 1u);
}

// While one thread has the loop for long the keeper stops looking; when that leaves it looks again.
TEST(Driver, TheKeeperComesBackAfterALongWait) {
    auto driver = make_driver();
    Flag never, flag;
    FlagTimer timer(flag);
    {
        Driver::Hold hold(*driver);
        driver->loop().arm(timer, driver->loop().now_ns() + 120 * kNsPerMs);
        EXPECT_FALSE(hold.wait_for(Flag::is_set, &never, driver->loop().now_ns() + 60 * kNsPerMs));
    }
    while (!flag.set.load())
        std::this_thread::yield();
    EXPECT_GE(driver->takeovers(), 1u);
    const Driver::Hold hold(*driver);
}

// Others hold it all the while and drive it never: what is to happen by itself happens.
TEST(Driver, TheKeeperDrivesALoopThatIsHeldWithoutTurns) {
    auto driver = make_driver();
    Flag flag;
    FlagTimer timer(flag);
    {
        const Driver::Hold hold(*driver);
        driver->loop().arm(timer, driver->loop().now_ns() + 3 * kNsPerMs);
    }
    const std::uint64_t limit = driver->loop().now_ns() + 3 * kNsPerSec;
    while (!flag.set.load() && driver->loop().now_ns() < limit) {
        const Driver::Hold hold(*driver);
        static_cast<void>(driver->loop().next_timer_ns());
    }
    EXPECT_TRUE(flag.set.load());
    const Driver::Hold hold(*driver);
}

// Who leaves and expects nobody hands the loop to the keeper, each time.
TEST(Driver, WhoGoesIdleLeavesTheLoopToTheKeeper) {
    auto driver = make_driver();
    for (std::uint64_t i = 1; i <= 20; ++i) {
        {
            Driver::Hold hold(*driver);
            hold.going_idle();
        }
        while (driver->takeovers() < i)
            std::this_thread::yield();
    }
}

// The loop is asked for by many while one polls, one waits and nobody else drives: nobody starves.
TEST(Driver, AskersWaitersAndPollersShareTheLoop) {
    auto driver = make_driver();
    std::atomic<bool> over{false};
    std::atomic<std::uint32_t> polls{0};
    Flag never;
    std::thread poller([&] {
        while (!over.load()) {
            Driver::Hold hold(*driver);
            EXPECT_FALSE(
                hold.poll_for(Flag::is_set, &never, driver->loop().now_ns() + 20 * kNsPerUs));
            polls.fetch_add(1);
        }
    });
    std::array<std::thread, 3> threads;
    for (std::thread& thread : threads) {
        thread = std::thread([&] {
            for (std::uint32_t i = 0; i < 200; ++i) {
                Flag flag;
                FlagTimer timer(flag);
                {
                    Driver::Hold hold(*driver);
                    driver->loop().arm(timer, driver->loop().now_ns() + 20 * kNsPerUs);
                    EXPECT_TRUE(hold.wait_held(Flag::is_set, &flag, UINT64_MAX));
                }
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    over.store(true);
    poller.join();
    EXPECT_GE(polls.load(), 1u);
}

}  // namespace
}  // namespace nfsrdma::tirpc
