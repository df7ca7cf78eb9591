#include "tests/svcrdma/svc_world.hpp"

// Peers that send whatever comes to their minds: the server answers, drops or closes, and never
// ends.
namespace nfsrdma::svcrdma::testing {
namespace {

// Does one of four things, by the XID, with whatever it is given.
class AnyService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 32; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        ++dispatched;
        if (rqst.xid % 8 == 7) rqst.xprt->note_garbage();
        switch (rqst.xid % 4) {
            case 0:
                return answer(rqst, {});
            case 1:
                return with_payload(rqst);
            case 2:
                return rqst.xprt->drop(rqst);
            default:
                held.push_back(&rqst);
                if (held.size() > 8) release();
        }
    }
    void wake(sunrpc::SvcRqst& rqst) noexcept override { with_payload(rqst); }
    void release() {
        std::deque<sunrpc::SvcRqst*> now;
        now.swap(held);
        for (sunrpc::SvcRqst* const rqst : now)
            answer(*rqst, {});
    }
    std::deque<sunrpc::SvcRqst*> held;
    std::uint32_t dispatched = 0;

  private:
    static void answer(sunrpc::SvcRqst& rqst, std::span<std::byte> item) noexcept {
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        const std::size_t size = rqst.xid % 3 == 0 ? 6000 : 12;  // some do not fit inline
        rqst.res = {rqst.res_room.first(size), item, rqst.res_room.subspan(size, 8)};
        rqst.result_is_ddp = !item.empty();
        rqst.xprt->reply(rqst);
    }
    static void with_payload(sunrpc::SvcRqst& rqst) noexcept {
        const std::uint32_t bytes = std::min(rqst.result_room + rqst.xid % 5, 300'000u);
        auto memory = rqst.xprt->get_result_payload(rqst, bytes);
        if (memory) answer(rqst, *memory);
    }
};

Call any_call(Prng& prng, Exposed& memory) {
    const auto xid = static_cast<std::uint32_t>(prng.below(1000));
    Call call{.xid = xid, .credits = static_cast<std::uint32_t>(prng.below(40))};
    const auto segments = static_cast<std::uint32_t>(1 + prng.below(20));
    if (prng.below(3) == 0) call.write = {memory.split(segments)};
    if (prng.below(4) == 0) call.write.push_back(memory.split(1));
    if (prng.below(3) == 0) call.reply = memory.split(segments);
    const bool is_long = prng.below(8) == 0;
    if (is_long) call.read.emplace_back(0, memory.part(4096, 2000));
    if (prng.below(3) == 0) call.read.emplace_back(12, memory.part(0, 4000));
    if (is_long) {
        call.proc = 1;
    } else {
        call.message = plus(message(xid, Op::null), Bytes(4 * prng.below(20)));
    }
    return call;
}

// A few words of it become others: large, small, or a little more or less.
Bytes spoil(Prng& prng, Bytes frame) {
    for (std::uint64_t n = prng.below(4); n > 0 && frame.size() >= 4; --n) {
        std::byte* const at = &frame[4 * prng.below(frame.size() / 4)];
        const std::uint32_t before = load_be32(at);
        const std::uint32_t words[] = {
            0,           1,          static_cast<std::uint32_t>(prng.next()),
            0xFFFF'FFFF, before + 1, before - 4,
            0x8000'0000, 177};
        store_be32(at, words[prng.below(std::size(words))]);
    }
    if (prng.below(10) == 0) frame.resize(prng.below(frame.size() + 1));
    if (prng.below(20) == 0) frame.resize(prng.below(4097));
    if (frame.empty()) frame.resize(1);
    return frame;
}

void misbehave(Prng& prng, RawConn& conn, Exposed& memory) {
    switch (prng.below(24)) {
        case 0:
            return conn.write({static_cast<std::uint32_t>(prng.next()), 8, 4096}, Bytes(8));
        case 1:
            return conn.send_with_inv(any_call(prng, memory).bytes(), memory.key() + 1);
        case 2:
            return conn.send(Bytes(4097 + prng.below(4000)));
        case 3:
            return conn.disconnect();
        case 4:  // what only a reply to a backward call may be
            return conn.send(spoil(
                prng,
                Words().u32(3).u32(1).u32(9).u32(0).u32(0).u32(0).u32(0).u32(3).u32(1).take()));
        case 5:
            return conn.send(Words().u32(3).u32(1).u32(9).u32(4).u32(2).take());
        default:
            return conn.send(spoil(prng, any_call(prng, memory).bytes()));
    }
}

void expect_survival(std::uint64_t seed, pools::LocalStrategy local) {
    Prng prng(seed);
    test::LoopWorld::Options net;
    net.seed = seed;
    test::LoopWorld world(net);
    AnyService service;
    // Half of the runs go in and out of quarantine.
    const bool strict = seed % 2 == 1;
    PeerTable peers({.requests_max = 6,
                     .faults_max = strict ? 5u : 1'000'000u,
                     .quarantine_ns = 100 * kNsPerUs});
    ServerOptions options = defaults();
    options.local = local;
    options.payload_runs = 2;
    options.first_credits = seed % 2 == 0 ? 2 : 0;
    options.backward_credits = 2;
    options.peers = &peers;
    auto listener =
        *Listener::create(*world.server, test::LoopWorld::server_address(), service, options);
    for (int round = 0; round < 60; ++round) {
        std::vector<std::unique_ptr<RawConn>> conns;
        std::vector<std::unique_ptr<Exposed>> memory;
        for (int i = 0; i < 3; ++i) {
            conns.push_back(
                RawConn::connect(*world.client, test::LoopWorld::server_address(), plain()));
            memory.push_back(std::make_unique<Exposed>(*conns.back(), Bytes(100'000)));
        }
        ASSERT_TRUE(world.run_until([&] {
            return std::all_of(conns.begin(), conns.end(),
                               [](const auto& c) { return c->established || c->ended; });
        }));
        for (int step = 0; step < 12; ++step) {
            const auto i = prng.below(conns.size());
            misbehave(prng, *conns[i], *memory[i]);
            world.run_for(prng.below(50) * kNsPerUs);
        }
        memory.clear();
        conns.clear();
        service.release();
        ASSERT_TRUE(world.run_until([&] {
            service.release();
            return listener->connections() == 0;
        })) << "seed "
            << seed << " round " << round;
    }
    EXPECT_GT(service.dispatched, 50u);
    EXPECT_GT(listener->counters().bad_headers, 50u);
    EXPECT_EQ(peers.counters(0).quarantines > 5, strict);
    EXPECT_EQ(listener->counters().refused_quarantined > 0, strict);
    listener->shut_down(0);
    ASSERT_TRUE(world.run_until([&] { return listener->idle(); }));
    listener.reset();  // asserts that all pools are full
    EXPECT_GT(peers.counters(0).faults, 50u);
}

TEST(Hostile, WhateverIsSentTheServerSurvivesAndNothingIsLost) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed)
        expect_survival(seed, pools::LocalStrategy::automatic);
}

TEST(Hostile, AlsoWhereEveryTransferTakesAKey) {
    for (std::uint64_t seed = 11; seed <= 14; ++seed)
        expect_survival(seed, pools::LocalStrategy::key);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
