#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(Sendto, OneDoorbellAReply) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(1 << 20));
    for (std::uint32_t xid = 1; xid <= 20; ++xid)
        (void)w.call(
            *conn,
            {.xid = xid, .write = {memory.split(4)}, .message = message(xid, Op::read, 1 << 20)});
    EXPECT_EQ(w.listener->io_counters().doorbells, 20u);
}

TEST(Sendto, PayloadThatIsInlineIsGathered) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t size = 0; size < 40; ++size) {
        for (const Op op : {Op::read, Op::read_inline}) {
            const Reply reply = w.call(*conn, {.xid = size, .message = message(size, op, size)});
            Bytes expected =
                plus(Words().u32(size).u32(1).u32(size).take(), TestService::item(size));
            expected.resize(align_up(expected.size(), std::size_t{4}));
            EXPECT_EQ(reply.body, plus(expected, Words().u32(kTail).take()));
        }
    }
    EXPECT_EQ(w.counters().payload_copied_bytes, 0u);
}

TEST(Sendto, PayloadOutsideOfTheArenaIsCopiedAndCounted) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(8192, std::byte{0xCC}));
    const Reply reply = w.call(
        *conn,
        {.xid = 1, .write = {memory.split(2)}, .message = message(1, Op::read_foreign, 5000)});
    EXPECT_EQ(reply.written(), 5000u);
    Bytes expected = TestService::item(5000);
    expected.resize(8192, std::byte{0xCC});
    EXPECT_EQ(memory.content(), expected);
    EXPECT_EQ(w.counters().payload_copied_bytes, 5000u);
    // More than there is room for behind the message.
    Exposed large(*conn, Bytes(100000));
    EXPECT_TRUE(w.call(*conn, {.xid = 2,
                               .write = {large.split(1)},
                               .message = message(2, Op::read_foreign, 100000)})
                    .is_error(rpcrdma::ErrorCode::chunk));
    w.expect_alive(*conn);
}

TEST(Sendto, ItemThatWasPulledMayBeTheResult) {
    SvcWorld w;
    auto conn = w.connect();
    const Bytes item = pattern(300000, 6);
    Exposed from(*conn, item), to(*conn, Bytes(300000));
    const Reply reply = w.call(*conn, {.xid = 1,
                                       .read = {{12, from.all()}},
                                       .write = {to.split(3)},
                                       .message = message(1, Op::echo_item, 300000)});
    EXPECT_EQ(reply.written(), 300000u);
    EXPECT_EQ(to.content(), item);
}

TEST(SendWithInv, TheOneKeyOfTheCall) {
    SvcWorld w;
    auto conn = w.connect(plain(true));
    std::uint32_t xid = 0;
    for (const std::uint32_t segments : {1u, 3u}) {
        Exposed write(*conn, Bytes(8192), true, 100);
        Reply reply = w.call(*conn, {.xid = ++xid,
                                     .write = {write.split(segments)},
                                     .message = message(xid, Op::read, 8192)});
        EXPECT_TRUE(reply.with_invalidate);
        EXPECT_EQ(reply.invalidated, write.key());
        EXPECT_EQ(write.content(), TestService::item(8192));
        Exposed both(*conn, Bytes(8192), true);
        reply = w.call(*conn, {.xid = ++xid,
                               .write = {{both.part(0, 4096)}},
                               .reply = {both.part(4096, 4096)},
                               .message = message(xid, Op::read, 4096)});
        EXPECT_TRUE(reply.with_invalidate);
        Exposed read(*conn, pattern(8192, 1), true);
        reply = w.call(
            *conn,
            {.xid = ++xid, .read = {{12, read.all()}}, .message = message(xid, Op::record, 8192)});
        EXPECT_TRUE(reply.with_invalidate);
        EXPECT_EQ(reply.invalidated, read.key());
    }
    EXPECT_EQ(w.counters().sends_with_inv, xid);
}

TEST(SendWithInv, NotWithTwoKeys) {
    SvcWorld w;
    auto conn = w.connect(plain(true));
    Exposed a(*conn, Bytes(4096), true), b(*conn, Bytes(4096), true);
    const Reply reply = w.call(*conn, {.xid = 1,
                                       .write = {{a.all()}},
                                       .reply = {b.all()},
                                       .message = message(1, Op::read, 4096)});
    EXPECT_FALSE(reply.with_invalidate);
    EXPECT_EQ(reply.written(), 4096u);
}

TEST(SendWithInv, NotWithoutChunks) {
    SvcWorld w;
    auto conn = w.connect(plain(true));
    EXPECT_FALSE(w.call(*conn, {.xid = 1, .message = message(1, Op::null)}).with_invalidate);
}

TEST(SendWithInv, OnlyForAClientThatAllowsIt) {
    SvcWorld w;
    auto conn = w.connect(plain(false));
    Exposed memory(*conn, Bytes(4096), true);
    EXPECT_FALSE(
        w.call(*conn, {.xid = 1, .write = {{memory.all()}}, .message = message(1, Op::read, 4096)})
            .with_invalidate);
    test::RawOptions silent = plain(true);
    silent.private_data = false;
    auto second = w.connect(silent);
    Exposed other(*second, Bytes(4096), true);
    EXPECT_FALSE(
        w.call(*second, {.xid = 1, .write = {{other.all()}}, .message = message(1, Op::read, 4096)})
            .with_invalidate);
}

TEST(SendWithInv, NeverByAnError) {
    SvcWorld w;
    auto conn = w.connect(plain(true));
    Exposed memory(*conn, Bytes(1000), true);
    const Reply reply =
        w.call(*conn, {.xid = 1, .write = {{memory.all()}}, .message = message(1, Op::read, 4096)});
    EXPECT_TRUE(reply.is_error(rpcrdma::ErrorCode::chunk));
    EXPECT_FALSE(reply.with_invalidate);
}

TEST(Sendto, SendQueueRoomIsGivenInOrder) {
    ServerOptions options = defaults();
    options.demand.credits = 16;
    options.payload_runs = 16;
    SvcWorld w(options);
    test::RawOptions raw = plain();
    auto conn = w.connect(raw);
    const auto memory = w.send_reads(*conn, 16, 4096, 100);
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        const Reply reply = w.next(*conn);
        EXPECT_EQ(reply.header.xid, xid);
        EXPECT_EQ(reply.written(), 4096u);
    }
    EXPECT_GT(w.counters().waited_for_send_room, 0u);
    EXPECT_GT(w.counters().waited_for_transfer, 0u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
