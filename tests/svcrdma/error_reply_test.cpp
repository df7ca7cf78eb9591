#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(ErrorReply, ExactBytes) {
    SvcWorld w;
    auto conn = w.connect();
    conn->send(Words().u32(0xABCD).u32(7).u32(3).u32(0).u32(0).u32(0).u32(0).take());
    EXPECT_TRUE(w.world.run_until([&] { return !conn->inbox.empty(); }));
    EXPECT_EQ(conn->inbox.front().bytes,
              Words().u32(0xABCD).u32(1).u32(3).u32(4).u32(1).u32(1).u32(1).take());
    conn->inbox.pop_front();
    conn->send(Words().u32(0xABCE).u32(1).u32(100).u32(9).take());
    EXPECT_TRUE(w.world.run_until([&] { return !conn->inbox.empty(); }));
    EXPECT_EQ(conn->inbox.front().bytes, Words().u32(0xABCE).u32(1).u32(8).u32(4).u32(2).take());
}

TEST(ErrorReply, NeedsNoContextOfTheServiceAndLeaksNone) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t xid = 0; xid < 300; ++xid) {
        const Reply reply = w.call(*conn, {.xid = xid, .proc = 7});
        EXPECT_TRUE(reply.is_error(rpcrdma::ErrorCode::chunk));
        EXPECT_EQ(reply.header.xid, xid);
    }
    EXPECT_EQ(w.service.dispatched, 0u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
