#include "sunrpc/svc_stats.hpp"

#include <gtest/gtest.h>

#include "tests/sunrpc/blob_program.hpp"
#include "tests/support/direct_xprt.hpp"

namespace nfsrdma::sunrpc {
namespace {

namespace blob = testing::blob;

TEST(LatencyHistogram, BoundsBelongToTheirBucket) {
    EXPECT_EQ(LatencyHistogram::bucket_of(0), 0u);
    for (std::uint32_t i = 0; i + 1 < LatencyHistogram::kBuckets; ++i) {
        EXPECT_EQ(LatencyHistogram::bucket_of(LatencyHistogram::bound_ns(i)), i);
        EXPECT_EQ(LatencyHistogram::bucket_of(LatencyHistogram::bound_ns(i) + 1), i + 1);
    }
    EXPECT_EQ(LatencyHistogram::bucket_of(UINT64_MAX), LatencyHistogram::kBuckets - 1);
    EXPECT_EQ(LatencyHistogram::kLongestNs,
              LatencyHistogram::bound_ns(LatencyHistogram::kBuckets - 2));
}

TEST(LatencyHistogram, SumsAreOfBoth) {
    LatencyHistogram a, b;
    a.add(500);
    b.add(700);
    b.add(5000);
    a.add(b);
    EXPECT_EQ(a.counts[0], 2u);
    EXPECT_EQ(a.counts[3], 1u);
    EXPECT_EQ(a.sum_ns, 6200u);
}

TEST(ProcStats, DispatcherCountsCallsErrorsAndBytes) {
    auto table = blob::procedures();
    table.at(blob::read).has_status = true;
    blob::State state;
    testing::DirectWorld world;
    SvcDispatcher dispatcher;
    dispatcher.add(blob::program(table, state));
    testing::DirectXprt xprt(*world.loop, dispatcher, testing::DirectOptions{});
    const auto call = [&](std::uint32_t proc, std::initializer_list<std::uint32_t> args) {
        std::vector<std::byte> out;
        const auto put = [&out](std::uint32_t word) {
            out.resize(out.size() + 4);
            store_be32(out.data() + out.size() - 4, word);
        };
        for (const std::uint32_t word :
             {7u, 0u, 2u, blob::kProg, blob::kVers, proc, 0u, 0u, 0u, 0u})
            put(word);
        for (const std::uint32_t word : args)
            put(word);
        return xprt.server().raw_call(out);
    };
    call(blob::read, {8, 8});
    call(blob::read, {8, 9});  // status 5
    call(blob::refuse, {});    // SYSTEM_ERR
    call(blob::missing, {});   // no procedure: not counted here
    call(blob::hold, {});
    ASSERT_EQ(state.held.size(), 1u);
    world.clock.advance_to(world.clock.now_ns() + 3000);
    state.held.front()->reply();
    ASSERT_EQ(dispatcher.programs().size(), 1u);
    const auto stats = dispatcher.stats(0);
    EXPECT_EQ(stats[blob::read].calls, 2u);
    EXPECT_EQ(stats[blob::read].errors, 1u);
    EXPECT_EQ(stats[blob::read].bytes_in, 2 * 48u);
    EXPECT_EQ(stats[blob::read].bytes_out, (24u + 4 + 4 + 4 + 8 + 4) + (24u + 4));
    EXPECT_EQ(stats[blob::refuse].calls, 1u);
    EXPECT_EQ(stats[blob::refuse].errors, 1u);
    EXPECT_EQ(stats[blob::hold].latency.counts[2], 1u);  // 3 us: up to 4
    EXPECT_EQ(stats[blob::null].calls, 0u);
}

}  // namespace
}  // namespace nfsrdma::sunrpc
