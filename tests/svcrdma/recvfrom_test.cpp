#include "tests/support/bad_headers.hpp"
#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

using test::bad_headers;
using test::BadHeader;

TEST(Recvfrom, InlineCallIsAnswered) {
    SvcWorld w;
    auto conn = w.connect();
    const Reply reply = w.call(*conn, {.xid = 5, .message = message(5, Op::null)});
    EXPECT_EQ(reply.header.xid, 5u);
    EXPECT_EQ(reply.header.size, 28u);
    EXPECT_EQ(w.counters().inline_calls, 1u);
}

TEST(B01, CreditsAreNeverZeroAndNeverAboveTheReceives) {
    SvcWorld w;
    auto conn = w.connect();
    for (const std::uint32_t asked : {0u, 1u, 3u, 8u, 32u, 0xFFFFFFFFu}) {
        const Reply reply = w.call(
            *conn, {.xid = asked + 1, .credits = asked, .message = message(asked + 1, Op::null)});
        EXPECT_EQ(reply.header.credits, std::clamp(asked, 1u, 8u));
    }
}

TEST(B01, CallsInFlightReachTheGrant) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 8; ++i)
        conn->send(
            Call{.xid = 100 + i, .credits = 32, .message = message(100 + i, Op::hold)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.service.held.size() == 8; }));
    EXPECT_EQ(w.counters().in_flight_max, 8u);
    w.service.release_held();
    for (std::uint32_t i = 0; i < 8; ++i)
        EXPECT_EQ(w.next(*conn).header.credits, 8u);
}

TEST(Recvfrom, EachAnswerLeavesAReceiveForTheNextCall) {
    SvcWorld w;
    auto conn = w.connect();
    // Two hundred calls, always as many under way as granted: none may meet a queue without a
    // Receive.
    std::uint32_t sent = 0, answered = 0;
    for (; sent < 8; ++sent)
        conn->send(Call{.xid = sent, .message = message(sent, Op::null)}.bytes());
    conn->script = [&](RawConn& c, RawMessage) {
        ++answered;
        if (sent < 200) {
            c.send(Call{.xid = sent, .message = message(sent, Op::null)}.bytes());
            ++sent;
        }
    };
    EXPECT_TRUE(w.world.run_until([&] { return answered == 200; }));
    EXPECT_EQ(verbs::softroce::counters(*w.world.server).rnr_naks_sent, 0u);
}

TEST(Recvfrom, PeerThatOverrunsItsCreditsIsServedAllTheSame) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 60; ++i)
        conn->send(Call{.xid = i, .message = message(i, Op::hold)}.bytes());
    w.world.run_for(100 * kNsPerMs);
    EXPECT_LE(w.service.held.size(), 12u);
    conn->script = [&](RawConn&, RawMessage) { w.service.release_held(); };
    w.service.release_held();
    EXPECT_TRUE(w.world.run_until([&] {
        w.service.release_held();
        return w.service.dispatched == 60;
    }));
}

TEST(B03, UnneededReplyChunkMovesTheBodyAndIsAnsweredInline) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t segments = 1; segments <= 3; ++segments) {
        Exposed memory(*conn, Bytes(3000));
        const Reply reply = w.call(*conn, {.xid = segments,
                                           .reply = memory.split(segments),
                                           .message = message(segments, Op::null)});
        EXPECT_EQ(reply.header.proc, rpcrdma::Proc::msg);
        EXPECT_EQ(reply.body.size(), 12u);
        EXPECT_EQ(reply.header.size, 28u + 4u + 16u * segments);
        ASSERT_EQ(reply.header.reply.count, 1u);
        EXPECT_EQ(reply.header.chunks_of(reply.header.reply)[0].length, 0u);
    }
}

TEST(B11, BadHeadersAreAnsweredAndTheConnectionIsKept) {
    SvcWorld w;
    auto conn = w.connect();
    for (const BadHeader& bad : bad_headers()) {
        SCOPED_TRACE(bad.name);
        conn->send(bad.bytes);
        if (bad.vers || bad.chunk) {
            const Reply reply = w.next(*conn);
            EXPECT_EQ(reply.header.xid, test::kBadXid);
            EXPECT_TRUE(
                reply.is_error(bad.vers ? rpcrdma::ErrorCode::vers : rpcrdma::ErrorCode::chunk));
            EXPECT_GE(reply.header.credits, 1u);
            if (bad.vers) {
                EXPECT_EQ(reply.header.vers_low, 1u);
                EXPECT_EQ(reply.header.vers_high, 1u);
            }
        }
        w.expect_alive(*conn);
        EXPECT_TRUE(conn->inbox.empty());
    }
    EXPECT_FALSE(conn->ended);
    EXPECT_GT(w.counters().bad_headers, 30u);
    EXPECT_EQ(w.counters().err_vers, 2u);
}

TEST(B13, FloodOfHostileHeadersLeavesOthersAlone) {
    SvcWorld w;
    auto hostile = w.connect();
    auto honest = w.connect();
    const auto bad = bad_headers();
    std::uint32_t sent = 0;
    hostile->script = [](RawConn&, RawMessage) {};
    for (std::uint32_t round = 0; round < 30; ++round) {
        for (std::uint32_t i = 0; i < 8; ++i)
            hostile->send(bad[sent++ % bad.size()].bytes);
        w.expect_alive(*honest, 1000 + round);
        w.world.run_for(kNsPerMs);
    }
    EXPECT_FALSE(hostile->ended);
    EXPECT_FALSE(honest->ended);
}

TEST(B29, StrayRepliesAndErrorsAreNoReasonToClose) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 50; ++i) {
        conn->send(Words().u32(i).u32(1).u32(8).u32(4).u32(1).u32(1).u32(1).take());  // RDMA_ERROR
        if (i % 8 == 7) w.expect_alive(*conn);
    }
}

TEST(Recvfrom, InvalidationOfAKeyThatWeNeverGaveEndsTheConnection) {
    SvcWorld w;
    auto conn = w.connect();
    auto other = w.connect();
    conn->send_with_inv(Call{.message = message(1, Op::null)}.bytes(), 0x12345678);
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 1; }));
    w.expect_alive(*other);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
