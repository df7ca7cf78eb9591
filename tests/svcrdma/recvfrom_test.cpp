#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

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

struct Bad {
    const char* name;
    Bytes bytes;
    bool vers = false, chunk = false;  // neither: dropped
};

std::vector<Bad> bad_headers() {
    std::vector<Bad> all;
    const auto fixed = [](std::uint32_t vers, std::uint32_t proc) {
        return Words().u32(0xBAD).u32(vers).u32(8).u32(proc);
    };
    all.push_back({"version 2", fixed(2, 0).u32(0).u32(0).u32(0).take(), true});
    all.push_back({"version 0", fixed(0, 0).u32(0).u32(0).u32(0).take(), true});
    all.push_back({"proc 5", fixed(1, 5).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back({"MSGP", fixed(1, 2).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back({"DONE", fixed(1, 3).take()});
    all.push_back({"ERROR", fixed(1, 4).u32(2).take()});
    for (int list = 0; list < 3; ++list) {
        Words w = fixed(1, 0);
        for (int i = 0; i < 3; ++i)
            w.u32(i == list ? 2 : 0);
        all.push_back({"discriminator 2", w.take(), false, true});
    }
    for (std::size_t n = 0; n < 28; ++n) {
        Bytes cut = fixed(1, 0).u32(0).u32(0).u32(0).take();
        cut.resize(n);
        all.push_back({"truncated", cut, false, n >= 16});
    }
    // B13: lists that run off what was received, or have more entries than there can be.
    Words endless = fixed(1, 0);
    while (endless.take().size() < 4000)
        endless.u32(1).u32(4).segment({1, 0, 0});
    all.push_back({"endless read list", endless.take(), false, true});
    all.push_back({"counts", fixed(1, 0).u32(0).u32(1).u32(0xFFFFFFFF).take(), false, true});
    all.push_back(
        {"no segments", fixed(1, 0).u32(0).u32(1).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back(
        {"reply count", fixed(1, 0).u32(0).u32(0).u32(1).u32(0x10000000).take(), false, true});
    all.push_back({"length overflow",
                   fixed(1, 0)
                       .u32(1)
                       .u32(4)
                       .segment({1, 0xFFFFFFFF, 0})
                       .u32(1)
                       .u32(4)
                       .segment({1, 0xFFFFFFFF, 0})
                       .u32(0)
                       .u32(0)
                       .u32(0)
                       .u64(1)
                       .take(),
                   false, true});
    all.push_back(
        {"offset overflow",
         fixed(1, 0).u32(1).u32(4).segment({1, 2, ~0ull}).u32(0).u32(0).u32(0).u64(1).take(), false,
         true});
    all.push_back({"nomsg without call", fixed(1, 1).u32(0).u32(0).u32(0).take(), false, true});
    all.push_back(
        {"position beyond the call",
         fixed(1, 0).u32(1).u32(400).segment({1, 4, 0}).u32(0).u32(0).u32(0).u64(1).take(), false,
         true});
    all.push_back({"position unaligned",
                   fixed(1, 0).u32(1).u32(6).segment({1, 4, 0}).u32(0).u32(0).u32(0).u64(1).take(),
                   false, true});
    all.push_back(
        {"more than a run",
         fixed(1, 0).u32(1).u32(8).segment({1, 1u << 29, 0}).u32(0).u32(0).u32(0).u64(1).take(),
         false, true});
    return all;
}

TEST(B11, BadHeadersAreAnsweredAndTheConnectionIsKept) {
    SvcWorld w;
    auto conn = w.connect();
    for (const Bad& bad : bad_headers()) {
        SCOPED_TRACE(bad.name);
        conn->send(bad.bytes);
        if (bad.vers || bad.chunk) {
            const Reply reply = w.next(*conn);
            EXPECT_EQ(reply.header.xid, 0xBADu);
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
