#include "svcrdma/registered.hpp"

#include <gtest/gtest.h>

#include "svcrdma/memory_budget.hpp"
#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(Registered, IsWhatTheListenerTakes) {
    for (const std::uint32_t first : {0u, 4u}) {
        ServerOptions options = defaults();
        options.demand.credits = 64;
        options.first_credits = first;
        options.backward_credits = first;
        MemoryBudget budget(std::uint64_t{1} << 40);
        options.memory = &budget;
        SvcWorld w(options);
        EXPECT_EQ(budget.used(), shared_bytes(options));
        auto provision = pools::Provision::for_server(options.demand, w.world.server->caps());
        ASSERT_TRUE(provision);
        auto bytes = registered_bytes(options, w.world.server->caps());
        ASSERT_TRUE(bytes);
        const std::uint64_t each = slabs_bytes(options, *provision) + backward_bytes(options);
        EXPECT_EQ(*bytes, shared_bytes(options) + options.connections_max * each);
        EXPECT_EQ(backward_bytes(options) != 0, first != 0);
    }
}

// Each time the credits double, the Receives for the rest come as a slab of their own.
TEST(Registered, GrowthCostsAPageASlabAtMost) {
    ServerOptions at_once = defaults(), growing = defaults();
    at_once.demand.credits = growing.demand.credits = 64;
    at_once.first_credits = 0;
    growing.first_credits = 4;
    pools::Provision provision;
    provision.credits = 64;
    const std::size_t whole = slabs_bytes(at_once, provision);
    EXPECT_GE(whole, std::size_t{64} * at_once.demand.inline_size);
    EXPECT_GE(slabs_bytes(growing, provision), whole);
    EXPECT_LE(slabs_bytes(growing, provision), whole + 5 * pools::kPageSize);
}

TEST(Registered, ADeviceThatHoldsNothingIsAnError) {
    EXPECT_FALSE(registered_bytes(defaults(), verbs::DeviceCaps{}));
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
