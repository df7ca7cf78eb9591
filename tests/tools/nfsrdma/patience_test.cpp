#include "tools/nfsrdma/patience.hpp"

#include <CLI/CLI.hpp>

#include <gtest/gtest.h>

namespace nfsrdma::tool {
namespace {

Options parsed(std::vector<std::string> words, bool good = true) {
    Options options;
    CLI::App app;
    add_patience_options(app, options.patience);
    app.add_option("--timeout", options.timeout_s);
    std::reverse(words.begin(), words.end());
    bool threw = false;
    try {
        app.parse(words);
    } catch (const CLI::ParseError&) {
        threw = true;
    }
    EXPECT_EQ(threw, !good);
    return options;
}

TEST(Patience, SoftIsTheDefaultForAsLongAsAnAnswerMayTake) {
    const Options options = parsed({"--timeout", "7"});
    EXPECT_TRUE(recovery_of(options).on);
    EXPECT_FALSE(recovery_of(options).first_too);
    EXPECT_EQ(recovery_of(options).give_up_ns, 7 * kNsPerSec);
    EXPECT_EQ(call_time_ns(options), 14 * kNsPerSec);
}

TEST(Patience, SoftSecondsComeOnTopOfTheTimeOfTheAnswer) {
    const Options options = parsed({"--timeout", "7", "--soft=90"});
    EXPECT_EQ(recovery_of(options).give_up_ns, 90 * kNsPerSec);
    EXPECT_EQ(call_time_ns(options), 97 * kNsPerSec);
    EXPECT_EQ(call_time_ns(parsed({"--timeout", "7", "--soft=3"})), 10 * kNsPerSec);
}

TEST(Patience, HardWaitsForEverAndForTheFirstConnectionToo) {
    const Options options = parsed({"--hard"});
    EXPECT_TRUE(recovery_of(options).on);
    EXPECT_TRUE(recovery_of(options).first_too);
    EXPECT_EQ(recovery_of(options).give_up_ns, 0u);
    EXPECT_EQ(recovery_of(options).tries_max, 0u);
    EXPECT_GT(call_time_ns(options), 100ull * 365 * 86400 * kNsPerSec);
}

TEST(Patience, FailFastDoesNotRecover) {
    const Options options = parsed({"--fail-fast", "--timeout", "5"});
    EXPECT_FALSE(recovery_of(options).on);
    EXPECT_EQ(call_time_ns(options), 5 * kNsPerSec);
}

TEST(Patience, OneOfThemOnly) {
    parsed({"--hard", "--soft=3"}, false);
    parsed({"--hard", "--fail-fast"}, false);
    parsed({"--soft=3", "--fail-fast"}, false);
    parsed({"--soft=0"}, false);
}

}  // namespace
}  // namespace nfsrdma::tool
