#include "base/log.hpp"

#include <algorithm>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/log_target.hpp"

namespace nfsrdma {
namespace {

class LogTest : public testing::Test {
  protected:
    void SetUp() override { log::set_level(log::Level::warn); }
    void TearDown() override { log::set_level(log::Level::warn); }
    template <class F>
    static std::string captured(F&& f) {
        testing::internal::CaptureStderr();
        f();
        return testing::internal::GetCapturedStderr();
    }
};

TEST_F(LogTest, DefaultIsWarn) {
    EXPECT_EQ(log::level(), log::Level::warn);
    const std::string out = captured([] {
        log::error("an error {}", 1);
        log::warn("a warning {}", 2);
        log::info("a note {}", 3);
        log::debug("a detail {}", 4);
    });
    EXPECT_NE(out.find("error"), std::string::npos);
    EXPECT_NE(out.find("an error 1"), std::string::npos);
    EXPECT_NE(out.find("a warning 2"), std::string::npos);
    EXPECT_EQ(out.find("a note"), std::string::npos);
    EXPECT_EQ(out.find("a detail"), std::string::npos);
}

TEST_F(LogTest, LevelIsSetByName) {
    for (const char* name : {"error", "warn", "info", "debug"}) {
        auto level = log::parse_level(name);
        ASSERT_TRUE(level);
        EXPECT_STREQ(log::to_string(*level), name);
        log::set_level(*level);
        EXPECT_EQ(log::level(), *level);
    }
    for (const char* name : {"", "WARN", "warning", "trace"}) {
        auto level = log::parse_level(name);
        ASSERT_FALSE(level);
        EXPECT_EQ(level.error().code, Errc::invalid_argument);
    }
}

TEST_F(LogTest, OneEventIsOneLineWhateverThePeerCallsIt) {
    const std::string out =
        captured([] { log::warn("file {}", std::string("a\nfake line\x1b[31m\t\x7f")); });
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
    EXPECT_NE(out.find("a\\x0afake line\\x1b[31m\\x09\\x7f"), std::string::npos);
}

TEST_F(LogTest, LongLinesAreCut) {
    const std::string out = captured([] { log::warn("{}", std::string(100'000, 'x')); });
    EXPECT_LT(out.size(), 2200u);
    EXPECT_NE(out.find("xxx..."), std::string::npos);
}

TEST_F(LogTest, OnceIsOnceForItsOwner) {
    log::Once told, other;
    EXPECT_TRUE(told.first());
    EXPECT_FALSE(told.first());
    EXPECT_TRUE(other.first());
}

TEST_F(LogTest, OnceAtAPlaceInTheCode) {
    static int runs = 0;  // the place stays silent when the test is repeated in one process
    const std::string out = captured([] {
        for (int i = 0; i < 5; ++i)
            NR_LOG_ONCE(warn, "said {}", i);
    });
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), runs++ == 0 ? 1 : 0);
    EXPECT_EQ(out.find("said 1"), std::string::npos);
}

TEST_F(LogTest, RateLimitPassesOneAnIntervalAndCountsTheRest) {
    log::RateLimit limit(100);
    EXPECT_TRUE(limit.pass(1000));
    EXPECT_FALSE(limit.pass(1001));
    EXPECT_FALSE(limit.pass(1099));
    EXPECT_TRUE(limit.pass(1100));
    EXPECT_EQ(limit.held_back(), 2u);
    EXPECT_EQ(limit.held_back(), 0u);
}

TEST_F(LogTest, ThreadsDoNotMixTheirLines) {
    constexpr int kThreads = 4;
    constexpr int kEach = 200;
    const std::string out = captured([] {
        std::vector<std::thread> threads;
        for (int t = 0; t < kThreads; ++t) {
            threads.emplace_back([t] {
                for (int i = 0; i < kEach; ++i)
                    log::warn("<{}-{}>", t, i);
            });
        }
        for (std::thread& thread : threads)
            thread.join();
    });
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), kThreads * kEach);
    EXPECT_EQ(std::count(out.begin(), out.end(), '<'), kThreads * kEach);
    std::size_t at = 0;
    while ((at = out.find('<', at)) != std::string::npos) {
        const std::size_t end = out.find('\n', at);
        ASSERT_EQ(out[end - 1], '>');
        at = end;
    }
}

// In a process of its own, whose log does not come back.
TEST_F(LogTest, SyslogTakesItAwayFromStderr) {
    const std::string out = captured([] {
        const pid_t child = ::fork();
        if (child == 0) {
            log::error("before");
            log::to_syslog("nfsrdma-test");
            log::warn("a test's line in the system log");
            ::_exit(0);
        }
        int how = -1;
        EXPECT_EQ(::waitpid(child, &how, 0), child);
        EXPECT_EQ(how, 0);
    });
    EXPECT_NE(out.find("before"), std::string::npos);
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1) << out;
}

}  // namespace
}  // namespace nfsrdma
