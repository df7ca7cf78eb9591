#include "svcrdma/payload_runs.hpp"

#include <gtest/gtest.h>

#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(PayloadRuns, ArenaHoldsWhatIsCarved) {
    for (const std::uint32_t runs : {1u, 2u, 7u, 64u}) {
        for (const std::uint32_t payload : {1u, 4096u, 65536u, 1u << 20}) {
            ServerOptions options = defaults();
            options.payload_runs = runs;
            options.demand.max_payload = payload;
            SvcWorld w(options);
            EXPECT_NE(w.listener, nullptr);
        }
    }
}

TEST(PayloadRuns, HeaderRoomHoldsAnyInlineHeader) {
    pools::Demand demand;
    demand.inline_size = 5000;
    EXPECT_EQ(PayloadRuns::header_room(demand), 8192u);
}

TEST(PayloadRuns, LargestItemBehindTheLargestLongCall) {
    SvcWorld w;
    auto conn = w.connect();
    const Bytes long_call = plus(message(1, Op::record, 1 << 20), pattern((64 << 10) - 12, 1));
    Exposed call_memory(*conn, long_call), item_memory(*conn, pattern(1 << 20, 2));
    (void)w.call(*conn,
                 {.xid = 1, .proc = 1, .read = {{0, call_memory.all()}, {12, item_memory.all()}}});
    ASSERT_EQ(w.service.arguments.size(), 1u);
    EXPECT_EQ(w.service.arguments[0].payload, pattern(1 << 20, 2));
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
