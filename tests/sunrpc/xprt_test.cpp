#include "sunrpc/xprt.hpp"

#include <gtest/gtest.h>

#include "sunrpc/svc.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

struct CountingWaiter final : SlotWaiter {
    CountingWaiter() {
        wake = [](SlotWaiter& waiter) noexcept {
            auto& self = static_cast<CountingWaiter&>(waiter);
            ++self.woken;
            if (self.again != nullptr) self.again->wait_for_slot(self);
        };
    }
    int woken = 0;
    Xprt* again = nullptr;
};

TEST(XprtWaiters, AllAreWokenOnceInOrder) {
    testing::DirectWorld world;
    SvcDispatcher service;
    testing::DirectOptions options;
    options.slots = 1;
    testing::DirectXprt xprt(*world.loop, service, options);
    Result<Rqst*> rqst = xprt.get_rqst(100);
    ASSERT_TRUE(rqst);
    CountingWaiter first, second, third;
    second.again = &xprt;
    ASSERT_FALSE(xprt.get_rqst(100));
    xprt.wait_for_slot(first);
    xprt.wait_for_slot(first);  // once is enough
    xprt.wait_for_slot(second);
    xprt.wait_for_slot(third);
    xprt.stop_waiting(third);
    xprt.put_rqst(**rqst);
    EXPECT_EQ(first.woken, 1);
    EXPECT_EQ(second.woken, 1);  // though it waits again
    EXPECT_EQ(third.woken, 0);
    xprt.stop_waiting(second);
}

TEST(Payload, MovesAndComesBackOnce) {
    testing::DirectWorld world;
    SvcDispatcher service;
    testing::DirectXprt xprt(*world.loop, service, testing::DirectOptions{});
    Result<Payload> got = xprt.get_payload(5000);
    ASSERT_TRUE(got);
    EXPECT_EQ(got->memory().size(), 5000u);
    EXPECT_EQ(xprt.payloads_in_use(), 1u);
    Payload moved = *std::move(got);
    Payload other = std::move(moved);
    EXPECT_FALSE(
        moved);  // NOLINT(bugprone-use-after-move): what a move leaves is part of the contract
    EXPECT_TRUE(other);
    EXPECT_EQ(xprt.payloads_in_use(), 1u);
    other.reset();
    other.reset();
    EXPECT_EQ(xprt.payloads_in_use(), 0u);
    Result<Payload> big = xprt.get_payload((1 << 20) + 1);
    ASSERT_FALSE(big);
    EXPECT_EQ(big.error().code, Errc::too_big);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
