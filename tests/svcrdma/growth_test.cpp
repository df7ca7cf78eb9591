#include "svcrdma/memory_budget.hpp"
#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

ServerOptions small(std::uint32_t first = 2, std::uint32_t credits = 16) {
    ServerOptions options = defaults();
    options.demand.credits = credits;
    options.first_credits = first;
    return options;
}

std::uint32_t granted_to(SvcWorld& w, RawConn& conn, std::uint32_t asked, std::uint32_t xid = 7) {
    const Reply reply =
        w.call(conn, {.xid = xid, .credits = asked, .message = message(xid, Op::null)});
    return reply.header.credits;
}

TEST(Growth, BeginsSmallAndGrowsWithUse) {
    SvcWorld w(small());
    auto conn = w.connect();
    EXPECT_EQ(granted_to(w, *conn, 64), 2u);
    std::uint32_t last = 2;
    for (int i = 0; i < 200; ++i) {
        const std::uint32_t now = granted_to(w, *conn, 64);
        EXPECT_GE(now, last);
        EXPECT_LE(now, 16u);
        last = now;
    }
    EXPECT_EQ(last, 16u);
    EXPECT_EQ(w.counters().grants_raised, 3u);  // 4, 8, 16
}

TEST(Growth, NoMoreThanThePeerAsksFor) {
    SvcWorld w(small());
    auto conn = w.connect();
    for (int i = 0; i < 200; ++i)
        EXPECT_LE(granted_to(w, *conn, 3), 3u);
    EXPECT_EQ(w.counters().grants_raised, 1u);
}

TEST(Growth, AllCreditsBusyGrowsAtOnce) {
    SvcWorld w(small(4, 16));
    auto conn = w.connect();
    EXPECT_EQ(granted_to(w, *conn, 16), 4u);
    for (std::uint32_t i = 0; i < 4; ++i)
        conn->send(Call{.xid = i, .credits = 16, .message = message(i, Op::hold)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.service.held.size() == 4; }));
    EXPECT_EQ(w.counters().grants_raised, 1u);
    w.service.release_held();
    for (int i = 0; i < 4; ++i)
        EXPECT_GE(w.next(*conn).header.credits, 5u);
}

// Every credit that was granted can be used at once, at every size that the connection has.
TEST(Growth, B01_WhatIsGrantedIsServed) {
    SvcWorld w(small(1, 32));
    auto conn = w.connect();
    std::uint32_t granted = granted_to(w, *conn, 32);
    for (int round = 0; round < 8; ++round) {
        for (std::uint32_t i = 0; i < granted; ++i)
            conn->send(Call{.xid = i, .credits = 32, .message = message(i, Op::hold)}.bytes());
        EXPECT_TRUE(w.world.run_until([&] { return w.service.held.size() == granted; }));
        w.service.release_held();
        const std::uint32_t sent = granted;
        for (std::uint32_t i = 0; i < sent; ++i)
            granted = w.next(*conn).header.credits;
    }
    EXPECT_EQ(granted, 32u);
    EXPECT_EQ(verbs::softroce::counters(*w.world.server).rnr_naks_sent, 0u);
}

// A long reply needs more transfers than a small connection has: they are made.
TEST(Growth, LongRepliesGetTheirTransfers) {
    SvcWorld w(small(1, 8));
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(1 << 20));
    for (std::uint32_t xid = 1; xid < 6; ++xid) {
        const Reply reply = w.call(
            *conn,
            {.xid = xid, .write = {memory.split(60)}, .message = message(xid, Op::read, 1 << 20)});
        EXPECT_EQ(reply.header.xid, xid);
        EXPECT_EQ(memory.content(), TestService::item(1 << 20));
    }
}

TEST(Growth, ScarcePayloadMemoryLowersTheGrant) {
    ServerOptions options = defaults();
    options.demand.credits = 16;
    options.payload_runs = 2;
    SvcWorld w(options);
    auto conn = w.connect();
    EXPECT_EQ(granted_to(w, *conn, 16), 16u);
    constexpr std::uint32_t kBytes = 1 << 20;
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*conn, Bytes(kBytes)));
        conn->send(Call{.xid = xid,
                        .credits = 16,
                        .write = {{memory.back()->all()}},
                        .message = message(xid, Op::read, kBytes)}
                       .bytes());
    }
    std::uint32_t least = 16;
    for (int i = 0; i < 16; ++i)
        least = std::min(least, w.next(*conn).header.credits);
    EXPECT_LT(least, 16u);
    EXPECT_GE(least, 1u);
    EXPECT_GT(w.counters().grants_lowered, 0u);
    std::uint32_t last = 0;
    for (int i = 0; i < 20; ++i)
        last = granted_to(w, *conn, 16);
    EXPECT_EQ(last, 16u);  // grown back
}

TEST(MemoryBudget, TakesWhatIsThereAndNoMore) {
    MemoryBudget budget(100);
    EXPECT_TRUE(budget.take(60));
    EXPECT_FALSE(budget.take(41));
    EXPECT_TRUE(budget.take(40));
    EXPECT_FALSE(budget.take(UINT64_MAX));
    budget.give_back(60);
    EXPECT_EQ(budget.used(), 40u);
    EXPECT_EQ(budget.limit(), 100u);
}

// As much as the listener and `connections` at first need.
std::uint64_t budget_for(const ServerOptions& options, std::uint32_t connections) {
    MemoryBudget all(1ull << 40);
    ServerOptions measured = options;
    measured.memory = &all;
    SvcWorld w(measured);
    std::vector<std::unique_ptr<RawConn>> conns;
    for (std::uint32_t i = 0; i < connections; ++i)
        conns.push_back(w.connect());
    const std::uint64_t used = all.used();
    conns.clear();
    w.finish();
    EXPECT_EQ(all.used(), 0u);  // everything is given back
    return used;
}

TEST(MemoryBudget, ConnectionsBeyondItAreRefused) {
    ServerOptions options = small();
    MemoryBudget budget(budget_for(options, 2));
    options.memory = &budget;
    SvcWorld w(options);
    auto first = w.connect();
    auto second = w.connect();
    w.expect_alive(*first);
    w.expect_alive(*second);
    auto third = w.connect();
    EXPECT_FALSE(third->established);
    EXPECT_EQ(w.counters().refused_for_memory, 1u);
    EXPECT_EQ(w.counters().rejected, 1u);
    w.expect_alive(*first);
    first.reset();
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 1; }));
    auto fourth = w.connect();
    EXPECT_TRUE(fourth->established);
    w.expect_alive(*fourth);
    fourth.reset();
    second.reset();
    third.reset();
    w.finish();
}

TEST(MemoryBudget, WithoutRoomToGrowAllCallsAreServedAllTheSame) {
    ServerOptions options = small(1, 16);
    MemoryBudget budget(budget_for(options, 3));
    options.memory = &budget;
    SvcWorld w(options);
    std::vector<std::unique_ptr<RawConn>> conns;
    for (int i = 0; i < 3; ++i)
        conns.push_back(w.connect());
    for (std::uint32_t xid = 0; xid < 200; ++xid) {
        for (auto& conn : conns)
            EXPECT_EQ(granted_to(w, *conn, 16, xid), 1u);
    }
    EXPECT_GT(w.counters().raises_refused, 0u);
    EXPECT_LE(budget.used(), budget.limit());
    conns.clear();
    w.finish();
}

TEST(MemoryBudget, TooSmallForAListenerIsAnError) {
    test::LoopWorld world;
    TestService service;
    ServerOptions options = defaults();
    MemoryBudget budget(1 << 20);
    options.memory = &budget;
    auto made =
        Listener::create(*world.server, test::LoopWorld::server_address(), service, options);
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Errc::too_big);
    EXPECT_EQ(budget.used(), 0u);
}

TEST(MemoryBudget, PayloadRunsFitIn) {
    ServerOptions options;
    EXPECT_EQ(payload_runs_within(options, 1ull << 40), options.payload_runs);
    EXPECT_EQ(payload_runs_within(options, 1 << 20), 0u);
    std::uint32_t last = 0;
    for (std::uint64_t bytes = 8 << 20; bytes < 128 << 20; bytes += 4 << 20) {
        const std::uint32_t runs = payload_runs_within(options, bytes);
        EXPECT_GE(runs, last);
        last = runs;
    }
    EXPECT_GT(last, 8u);
}

TEST(ConnectionStats, TellOfEachThatLives) {
    SvcWorld w(small());
    auto first = w.connect();
    auto second = w.connect();
    w.expect_alive(*first);
    w.expect_alive(*first);
    std::array<ConnectionStats, 4> stats;
    ASSERT_EQ(w.listener->connection_stats(stats), 2u);
    const bool order = stats[0].calls == 2;
    EXPECT_EQ(stats[order ? 0 : 1].calls, 2u);
    EXPECT_EQ(stats[order ? 1 : 0].calls, 0u);
    EXPECT_GT(stats[0].memory_bytes, 10000u);
    EXPECT_GT(stats[0].receives_posted, 0u);
    EXPECT_EQ(w.listener->connection_stats(std::span(stats).first(1)), 1u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
