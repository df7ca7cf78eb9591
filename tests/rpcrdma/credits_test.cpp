#include "rpcrdma/credits.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::rpcrdma {
namespace {

TEST(CreditWindow, OneCallUntilTheFirstGrant) {
    CreditWindow window(32);
    EXPECT_EQ(window.requested(), 32u);
    EXPECT_TRUE(window.take());
    EXPECT_FALSE(window.take());
    EXPECT_EQ(window.in_flight(), 1u);
}

TEST(CreditWindow, GrantOfZeroIsOne) {
    CreditWindow window(32);
    window.on_grant(0);
    EXPECT_EQ(window.granted(), 1u);
    EXPECT_TRUE(window.take());
}

TEST(CreditWindow, GrantAboveOurOwnMaximumIsTheMaximum) {
    CreditWindow window(4);
    window.on_grant(0xFFFFFFFFu);
    EXPECT_EQ(window.granted(), 4u);
    for (int i = 0; i < 4; ++i)
        EXPECT_TRUE(window.take());
    EXPECT_FALSE(window.take());
}

TEST(CreditWindow, ShrinkingBelowInFlightWaitsForReplies) {
    CreditWindow window(8);
    window.on_grant(4);
    for (int i = 0; i < 4; ++i)
        EXPECT_TRUE(window.take());
    window.on_grant(2);
    window.give_back();
    EXPECT_FALSE(window.take());
    window.give_back();
    EXPECT_FALSE(window.take());
    window.give_back();
    EXPECT_TRUE(window.take());
}

TEST(CreditWindow, ResetStartsAtOneAgain) {
    CreditWindow window(8);
    window.on_grant(8);
    EXPECT_TRUE(window.take());
    window.reset();
    EXPECT_EQ(window.granted(), 1u);
    EXPECT_EQ(window.in_flight(), 0u);
}

TEST(B01, GrantIsAtLeastOneAndNeverAboveWhatIsPosted) {
    EXPECT_EQ(credits_to_grant(32, 40, 64), 32u);
    EXPECT_EQ(credits_to_grant(32, 10, 64), 10u);
    EXPECT_EQ(credits_to_grant(128, 200, 64), 64u);
    EXPECT_EQ(credits_to_grant(0, 40, 64), 1u);
    EXPECT_EQ(credits_to_grant(32, 0, 64), 1u);
    static_assert(credits_to_grant(1, 1, 1) == 1);
}

}  // namespace
}  // namespace nfsrdma::rpcrdma
