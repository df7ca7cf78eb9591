#include "svcrdma/reply_batch.hpp"

#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

// `calls` READs of `bytes` each, in flight at once and answered; doorbells that their replies took.
std::uint64_t doorbells_for(std::uint32_t calls, std::uint32_t bytes) {
    ServerOptions options = defaults();
    options.demand.credits = 64;
    options.payload_runs = 64;
    SvcWorld w(options);
    auto conn = w.connect();
    const auto memory = w.send_reads(*conn, calls, bytes, 1);
    for (std::uint32_t xid = 1; xid <= calls; ++xid) {
        const Reply reply = w.next(*conn);
        EXPECT_EQ(reply.written(), bytes);
        // Its data is there before it is.
        EXPECT_EQ(memory.at(reply.header.xid - 1)->content(), TestService::item(bytes));
    }
    return w.listener->io_counters().doorbells;
}

TEST(ReplyBatch, SmallRepliesOfOneTurnTakeOneDoorbell) {
    EXPECT_EQ(doorbells_for(1, 4096), 1u);
    EXPECT_LE(doorbells_for(12, 4096), 4u);
    EXPECT_LE(doorbells_for(48, 512), 12u);
}

TEST(ReplyBatch, LargeRepliesGoAlone) {
    EXPECT_EQ(doorbells_for(6, ReplyBatch::kPushedBytesMax + 4), 6u);
}

TEST(ReplyBatch, IsPostedWhenWhatItPushesIsMuch) {
    EXPECT_GE(doorbells_for(12, ReplyBatch::kPushedBytesMax / 2), 6u);
}

// Where every reply takes half the send queue, a batch of two waits, and what comes meanwhile waits
// behind it: all are answered once, in order.
TEST(ReplyBatch, OneThatWaitsForSendRoomKeepsItsPlace) {
    ServerOptions options = defaults();
    options.demand.credits = 16;
    options.payload_runs = 16;
    SvcWorld w(options);
    auto conn = w.connect();
    const auto memory = w.send_reads(*conn, 16, 4096, 30);
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        EXPECT_EQ(w.next(*conn).header.xid, xid);
        EXPECT_EQ(memory.at(xid - 1)->content(), TestService::item(4096));
    }
    EXPECT_GT(w.counters().waited_for_send_room, 0u);
    EXPECT_LT(w.listener->io_counters().doorbells, 16u);
}

// A reply that stands in the batch when its connection dies is given up like any other.
TEST(ReplyBatch, DiesWithItsConnection) {
    ServerOptions options = defaults();
    options.demand.credits = 16;
    SvcWorld w(options);
    for (std::uint32_t round = 0; round < 30; ++round) {
        auto conn = w.connect();
        Exposed memory(*conn, Bytes(4096));
        for (std::uint32_t xid = 1; xid <= 8; ++xid)
            conn->send(Call{.xid = xid,
                            .credits = 16,
                            .write = {memory.split(1)},
                            .message = message(xid, Op::read, 4096)}
                           .bytes());
        w.world.run_for(round * 2 * kNsPerUs);
        conn->qp().set_error();
        conn->disconnect();
        EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 0; }));
    }
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
