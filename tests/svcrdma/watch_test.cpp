#include "tests/svcrdma/svc_world.hpp"

// Peers that want too much, send garbage or are gone.
namespace nfsrdma::svcrdma::testing {
namespace {

// One more machine beside the client of LoopWorld.
struct Machine {
    Machine(SvcWorld& w, std::uint32_t address) {
        verbs::softroce::SoftOptions soft;
        soft.seed = address;
        const SockAddr at = SockAddr::v4(address, verbs::softroce::kRoceV2Port);
        device = *verbs::softroce::create_device(*w.world.loop, w.world.net->add_host(at), soft);
    }
    std::unique_ptr<RawConn> connect(SvcWorld& w, const test::RawOptions& raw = plain()) {
        auto conn = RawConn::connect(*device, test::LoopWorld::server_address(), raw);
        EXPECT_TRUE(w.world.run_until([&] { return conn->established || conn->ended; }));
        return conn;
    }
    std::unique_ptr<verbs::Device> device;
};

// Cuts a machine off: nothing from or to it arrives any more.
struct Cut final : verbs::softroce::LoopTap {
    bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
        return !on || !(frame.from.same_address(test::LoopWorld::client_address()) ||
                        frame.to.same_address(test::LoopWorld::client_address()));
    }
    bool on = false;
};

struct LimitedWorld {
    explicit LimitedWorld(const PeerLimits& limits, ServerOptions options = defaults())
        : peers(limits), w(with(options)) {}
    ServerOptions with(ServerOptions options) {
        options.peers = &peers;
        options.connections_max = 16;
        return options;
    }
    bool run_until_alone(std::uint32_t connections = 0) {
        return w.world.run_until([&] { return w.listener->connections() == connections; });
    }
    PeerTable peers;
    SvcWorld w;
};

constexpr std::uint32_t kOtherHost = 0x7f000103;

TEST(PeerLimits, ConnectionsBeyondThoseOfAPeerAreRejectedAndOthersAreNot) {
    LimitedWorld l({.connections_max = 2});
    Machine other(l.w, kOtherHost);
    auto a = l.w.connect(), b = l.w.connect(), c = l.w.connect();
    EXPECT_EQ(c->end, verbs::CmEventType::rejected);
    EXPECT_EQ(l.w.counters().refused_per_peer, 1u);
    EXPECT_EQ(l.w.counters().rejected, 1u);
    auto theirs = other.connect(l.w);
    l.w.expect_alive(*theirs);
    a->disconnect();
    EXPECT_TRUE(l.run_until_alone(2));
    auto again = l.w.connect();
    l.w.expect_alive(*again);
}

TEST(PeerLimits, MemoryOfAPeerIsBounded) {
    ServerOptions options = defaults();
    LimitedWorld probe({});
    auto one = probe.w.connect();
    ConnectionStats stats[1];
    ASSERT_EQ(probe.w.listener->connection_stats(stats), 1u);
    LimitedWorld l({.memory_max = 2 * stats[0].memory_bytes + 1}, options);
    auto a = l.w.connect(), b = l.w.connect(), c = l.w.connect();
    EXPECT_EQ(c->end, verbs::CmEventType::rejected);
    EXPECT_EQ(l.w.counters().refused_per_peer, 1u);
    a.reset();
    EXPECT_TRUE(l.run_until_alone(1));
    auto d = l.w.connect();
    l.w.expect_alive(*d);
}

TEST(PeerLimits, RequestsInProgressOfAPeerAreBoundedOverItsConnections) {
    LimitedWorld l({.requests_max = 3});
    Machine other(l.w, kOtherHost);
    auto a = l.w.connect(), b = l.w.connect();
    auto theirs = other.connect(l.w);
    for (std::uint32_t xid = 1; xid <= 4; ++xid) {
        a->send(Call{.xid = xid, .message = message(xid, Op::hold)}.bytes());
        b->send(Call{.xid = xid, .message = message(xid, Op::hold)}.bytes());
    }
    l.w.world.run_for(50 * kNsPerMs);
    EXPECT_EQ(l.w.service.held.size(), 3u);
    EXPECT_GT(l.w.counters().waited_for_peer, 0u);
    l.w.expect_alive(*theirs);
    // Each that ends lets one more begin, until all were answered.
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(l.w.world.run_until([&] { return !l.w.service.held.empty(); }));
        EXPECT_LE(l.w.service.held.size(), 3u);
        l.w.service.release_held();
        l.w.world.run_for(kNsPerMs);
        if (a->inbox.size() + b->inbox.size() == 8) break;
    }
    EXPECT_TRUE(l.w.world.run_until([&] { return a->inbox.size() + b->inbox.size() == 8; }));
}

TEST(PeerLimits, ConnectionsOfAPeerTakeTurns) {
    LimitedWorld l({.requests_max = 1});
    auto greedy = l.w.connect(), modest = l.w.connect();
    std::uint32_t greedy_done = 0, next = 8;
    greedy->script = [&](RawConn& conn, RawMessage) {
        ++greedy_done;
        ++next;
        conn.send(Call{.xid = next, .message = message(next, Op::null)}.bytes());
    };
    for (std::uint32_t xid = 1; xid <= 8; ++xid)
        greedy->send(Call{.xid = xid, .message = message(xid, Op::null)}.bytes());
    for (std::uint32_t xid = 1; xid <= 20; ++xid) {
        const std::uint32_t before = greedy_done;
        l.w.expect_alive(*modest, xid);
        EXPECT_LE(greedy_done - before, 16u) << xid;  // not all that it has, again and again
    }
    greedy->script = [](RawConn&, RawMessage) {};
}

// As two loops do: each has its own queue of those that wait.
struct TwoListeners : LimitedWorld {
    explicit TwoListeners(const PeerLimits& limits) : LimitedWorld(limits) {
        second = *Listener::create(*w.world.server, second_address(), w.service, w.options);
    }
    ~TwoListeners() {
        w.service.release_held();
        second->shut_down(kNsPerSec);
        EXPECT_TRUE(w.world.run_until([&] { return second->idle(); }));
    }
    static SockAddr second_address() { return test::LoopWorld::server_address(20050); }
    std::unique_ptr<RawConn> connect_second() {
        auto conn = RawConn::connect(*w.world.client, second_address(), plain());
        EXPECT_TRUE(w.world.run_until([&] { return conn->established; }));
        return conn;
    }
    std::unique_ptr<Listener> second;
};

TEST(PeerLimits, ThoseThatWaitGetThePlaceOfAnotherLoopsCall) {
    TwoListeners l({.requests_max = 1});
    auto a = l.w.connect();
    auto b = l.connect_second(), c = l.connect_second();
    a->send(Call{.xid = 1, .message = message(1, Op::hold)}.bytes());
    ASSERT_TRUE(l.w.world.run_until([&] { return l.w.service.held.size() == 1; }));
    b->send(Call{.xid = 2, .message = message(2, Op::null)}.bytes());
    c->send(Call{.xid = 3, .message = message(3, Op::null)}.bytes());
    l.w.world.run_for(50 * kNsPerMs);
    EXPECT_EQ(l.second->counters().waited_for_peer, 2u);
    l.w.service.release_held();
    EXPECT_TRUE(l.w.world.run_until([&] { return !b->inbox.empty() && !c->inbox.empty(); },
                                    100 * kNsPerMs));
    EXPECT_EQ(l.second->counters().waited_for_peer, 2u);
}

TEST(PeerLimits, LoopThatAlwaysHasCallsLeavesPlacesToOthers) {
    TwoListeners l({.requests_max = 2});
    std::vector<std::unique_ptr<RawConn>> greedy;
    std::uint32_t next = 100, done = 0;
    const auto go_on = [&](RawConn& conn, RawMessage) {
        ++done;
        ++next;
        conn.send(Call{.xid = next, .message = message(next, Op::null)}.bytes());
    };
    for (int i = 0; i < 3; ++i) {
        greedy.push_back(l.w.connect());
        greedy.back()->script = go_on;
        for (std::uint32_t xid = 1; xid <= 8; ++xid)
            greedy.back()->send(Call{.xid = xid, .message = message(xid, Op::null)}.bytes());
    }
    auto modest = l.connect_second(), too = l.connect_second();
    for (std::uint32_t xid = 1; xid <= 20; ++xid) {
        for (RawConn* const conn : {modest.get(), too.get()})
            conn->send(Call{.xid = xid, .message = message(xid, Op::null)}.bytes());
        ASSERT_TRUE(l.w.world.run_until(
            [&] { return modest->inbox.size() == xid && too->inbox.size() == xid; }, 50 * kNsPerMs))
            << xid;
    }
    EXPECT_GT(done, 100u);
    for (const auto& conn : greedy)
        conn->script = [](RawConn&, RawMessage) {};
}

TEST(PeerLimits, AConnectionThatWaitsForItsPeerMayDie) {
    LimitedWorld l({.requests_max = 1});
    auto a = l.w.connect(), b = l.w.connect();
    a->send(Call{.xid = 1, .message = message(1, Op::hold)}.bytes());
    ASSERT_TRUE(l.w.world.run_until([&] { return l.w.service.held.size() == 1; }));
    b->send(Call{.xid = 2, .message = message(2, Op::hold)}.bytes());
    ASSERT_TRUE(l.w.world.run_until([&] { return l.w.counters().waited_for_peer > 0; }));
    b->disconnect();
    EXPECT_TRUE(l.run_until_alone(1));
    l.w.service.release_held();
    EXPECT_EQ(l.w.next(*a).header.xid, 1u);
    l.w.expect_alive(*a);
}

TEST(B64, ConnectionWhoseCallsWaitForItsPeerIsNotIdle) {
    ServerOptions options = defaults();
    options.idle_timeout_ns = 10 * kNsPerMs;
    LimitedWorld l({.requests_max = 1}, options);
    auto a = l.w.connect();
    a->send(Call{.xid = 1, .message = message(1, Op::hold)}.bytes());
    ASSERT_TRUE(l.w.world.run_until([&] { return l.w.service.held.size() == 1; }));
    auto b = l.w.connect();
    b->send(Call{.xid = 2, .message = message(2, Op::null)}.bytes());
    l.w.world.run_for(100 * kNsPerMs);
    EXPECT_FALSE(b->ended);
    l.w.service.release_held();
    EXPECT_EQ(l.w.next(*b).header.xid, 2u);
}

TEST(AcceptThrottle, ConnectsBeyondTheRateAreRejectedForAWhile) {
    LimitedWorld l({.connects_per_sec = 100});
    Machine other(l.w, kOtherHost);
    std::uint32_t rejected = 0;
    for (int i = 0; i < 300; ++i) {
        auto conn = l.w.connect();
        rejected += conn->established ? 0 : 1;
        conn.reset();
        EXPECT_TRUE(l.run_until_alone());
    }
    EXPECT_GT(rejected, 0u);
    EXPECT_EQ(l.w.counters().refused_too_fast, rejected);
    auto theirs = other.connect(l.w);
    l.w.expect_alive(*theirs);
    l.w.world.run_for(kNsPerSec);
    auto later = l.w.connect();
    l.w.expect_alive(*later);
}

TEST(AcceptThrottle, HandshakesThatNobodyEndsAreBounded) {
    ServerOptions options = defaults();
    options.handshakes_max = 3;
    options.connections_max = 16;
    SvcWorld w(options);
    // Whoever asks gets no further: nothing comes back to it.
    struct NoAnswer final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
            return !frame.to.same_address(test::LoopWorld::client_address());
        }
    } tap;
    Machine other(w, kOtherHost);
    w.world.net->set_tap(&tap);
    std::vector<std::unique_ptr<RawConn>> conns;
    for (int i = 0; i < 8; ++i)
        conns.push_back(
            RawConn::connect(*w.world.client, test::LoopWorld::server_address(), plain()));
    w.world.run_for(10 * kNsPerMs);
    EXPECT_EQ(w.listener->connections(), 3u);
    EXPECT_EQ(w.counters().refused_handshakes, 5u);
    conns.clear();
    // They give up, and then others come.
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 0; }));
    w.world.net->set_tap(nullptr);
    auto theirs = other.connect(w);
    w.expect_alive(*theirs);
}

TEST(AcceptThrottle, HandshakesOfOnePeerLeaveThoseOfOthers) {
    ServerOptions options = defaults();
    options.handshakes_max = 6;
    LimitedWorld l({.handshakes_max = 3}, options);
    // Nothing comes back to the one.
    struct NoAnswer final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
            return !frame.to.same_address(test::LoopWorld::client_address());
        }
    } tap;
    Machine other(l.w, kOtherHost);
    l.w.world.net->set_tap(&tap);
    std::vector<std::unique_ptr<RawConn>> conns;
    for (int i = 0; i < 8; ++i)
        conns.push_back(
            RawConn::connect(*l.w.world.client, test::LoopWorld::server_address(), plain()));
    l.w.world.run_for(10 * kNsPerMs);
    EXPECT_EQ(l.w.listener->connections(), 3u);
    EXPECT_EQ(l.w.counters().refused_handshakes, 5u);
    auto theirs = other.connect(l.w);
    l.w.expect_alive(*theirs);
    conns.clear();
    EXPECT_TRUE(l.run_until_alone(1));
    l.w.world.net->set_tap(nullptr);
    std::vector<std::unique_ptr<RawConn>> again;
    for (int i = 0; i < 5; ++i) {
        again.push_back(l.w.connect());  // one after the other, each is established
        l.w.expect_alive(*again.back());
    }
}

// A header that no list can be made of: answered by ERR_CHUNK.
Bytes garbage(std::uint32_t xid) {
    return Words().u32(xid).u32(1).u32(8).u32(0).u32(1).u32(3).u32(0).u32(0).u64(0).u32(0).take();
}

TEST(Quarantine, BeginsWithGarbageAndExpires) {
    LimitedWorld l({.faults_max = 5, .quarantine_ns = 20 * kNsPerSec});
    Machine other(l.w, kOtherHost);
    auto conn = l.w.connect();
    for (std::uint32_t i = 1; i <= 4; ++i) {
        conn->send(garbage(i));
        EXPECT_TRUE(l.w.next(*conn).is_error(rpcrdma::ErrorCode::chunk));
    }
    l.w.expect_alive(*conn);
    conn->send(garbage(5));
    EXPECT_TRUE(l.w.world.run_until([&] { return conn->ended; }));
    EXPECT_TRUE(l.run_until_alone());
    EXPECT_EQ(l.w.counters().quarantines, 1u);
    EXPECT_EQ(l.w.counters().peer_faults, 5u);
    auto refused = l.w.connect();
    EXPECT_EQ(refused->end, verbs::CmEventType::rejected);
    EXPECT_EQ(l.w.counters().refused_quarantined, 1u);
    auto theirs = other.connect(l.w);
    l.w.expect_alive(*theirs);
    l.w.world.run_for(21 * kNsPerSec);
    auto again = l.w.connect();
    l.w.expect_alive(*again);
}

TEST(Quarantine, AnotherVersionAndACallThatIsTooLargeAreNoFaults) {
    LimitedWorld l({.faults_max = 1});
    auto conn = l.w.connect();
    const Reply old = l.w.call(*conn, {.xid = 1, .vers = 2, .message = message(1, Op::null)});
    EXPECT_TRUE(old.is_error(rpcrdma::ErrorCode::vers));
    const Segment large{0x1234'5600, 64 << 20, 4096};
    const Reply too_large =
        l.w.call(*conn, {.xid = 2, .read = {{12, large}}, .message = message(2, Op::record)});
    EXPECT_TRUE(too_large.is_error(rpcrdma::ErrorCode::chunk));
    EXPECT_EQ(l.w.counters().bad_headers, 2u);
    EXPECT_EQ(l.w.counters().peer_faults, 0u);
    l.w.expect_alive(*conn);
}

TEST(Quarantine, AccessesWithoutARightAreFaults) {
    LimitedWorld l({.faults_max = 3});
    for (std::uint32_t i = 0; i < 3; ++i) {
        auto conn = l.w.connect();
        ASSERT_TRUE(conn->established);
        conn->write({0x1234'5600 + i, 16, 4096}, Bytes(16));
        EXPECT_TRUE(l.run_until_alone());
    }
    EXPECT_EQ(l.w.counters().peer_faults, 3u);
    EXPECT_EQ(l.w.connect()->end, verbs::CmEventType::rejected);
}

TEST(Quarantine, MessagesTooLongForAReceiveAreFaults) {
    LimitedWorld l({.faults_max = 2});
    for (std::uint32_t i = 0; i < 2; ++i) {
        auto conn = l.w.connect();
        conn->send(Bytes(5000));
        EXPECT_TRUE(l.run_until_alone());
    }
    EXPECT_EQ(l.w.connect()->end, verbs::CmEventType::rejected);
}

TEST(Quarantine, AKillIsNoFault) {
    LimitedWorld l({.faults_max = 1});
    for (std::uint32_t i = 0; i < 20; ++i) {
        auto conn = l.w.connect();
        ASSERT_TRUE(conn->established);
        conn->send(Call{.xid = i, .message = message(i, Op::null)}.bytes());
        conn.reset();
        EXPECT_TRUE(l.run_until_alone());
    }
    EXPECT_EQ(l.w.counters().peer_faults, 0u);
}

// What a client does that interrupts a call: the key is gone before or while the server READs.
TEST(Quarantine, AKeyThatIsGoneWhileTheServerReadsIsNoFault) {
    LimitedWorld l({.faults_max = 1});
    std::uint64_t refused = 0;
    for (std::uint32_t i = 0; i < 20; ++i) {
        auto conn = l.w.connect();
        ASSERT_TRUE(conn->established);
        auto memory = std::make_unique<Exposed>(*conn, Bytes(1 << 20));
        conn->send(Call{.xid = i, .read = {{12, memory->all()}}, .message = message(i, Op::record)}
                       .bytes());
        l.w.world.run_for(i * 5 * kNsPerUs);
        memory.reset();
        if (i % 2 == 0) {
            conn.reset();
        } else {
            EXPECT_TRUE(l.w.world.run_until([&] { return conn->ended || !conn->inbox.empty(); }));
            refused += conn->qp().counters().peer_faults;  // READs, by the client's device
            conn.reset();
        }
        EXPECT_TRUE(l.run_until_alone());
    }
    EXPECT_EQ(l.w.counters().peer_faults, 0u);
    EXPECT_EQ(l.w.counters().refused_quarantined, 0u);
    EXPECT_GT(refused, 0u);
}

TEST(Keepalive, ALivingPeerIsLeftAloneHoweverQuiet) {
    ServerOptions options = defaults();
    options.keepalive_ns = kNsPerSec;
    SvcWorld w(options);
    test::RawOptions raw = plain();
    raw.receives = 1;
    raw.repost = false;  // not even a Receive is needed
    auto conn = w.connect(raw);
    w.world.run_for(60 * kNsPerSec);
    EXPECT_FALSE(conn->ended);
    EXPECT_GE(w.counters().keepalives, 25u);
    EXPECT_EQ(w.counters().peers_lost, 0u);
    w.expect_alive(*conn);
    EXPECT_EQ(conn->qp().counters().peer_faults, 0u);
}

TEST(B23, IdlePeerThatIsGoneIsMissedInSeconds) {
    ServerOptions options = defaults();
    options.keepalive_ns = 3 * kNsPerSec;
    SvcWorld w(options);
    Cut cut;
    Machine other(w, kOtherHost);
    auto theirs = other.connect(w);
    auto conn = w.connect();
    w.expect_alive(*conn);
    w.world.net->set_tap(&cut);
    cut.on = true;
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 1; }, 10 * kNsPerSec));
    EXPECT_EQ(w.counters().peers_lost, 1u);
    w.expect_alive(*theirs);
    w.world.net->set_tap(nullptr);
}

TEST(B23, PeerThatIsGoneWithRepliesOwedHoldsUpNobody) {
    ServerOptions options = defaults();
    options.payload_runs = 2;
    SvcWorld w(options);
    Cut cut;
    Machine other(w, kOtherHost);
    auto theirs = other.connect(w);
    auto conn = w.connect();
    w.world.net->set_tap(&cut);
    const auto memory = w.send_reads(*conn, 8, 1 << 20, 1);  // all of its credits
    ASSERT_TRUE(w.world.run_until([&] { return w.counters().calls >= 8; }));
    cut.on = true;
    Exposed room(*theirs, Bytes(1 << 20));
    theirs->send(
        Call{.xid = 9, .write = {room.split(1)}, .message = message(9, Op::read, 1 << 20)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return !theirs->inbox.empty(); }, 10 * kNsPerSec));
    EXPECT_EQ(room.content(), TestService::item(1 << 20));
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 1; }, 10 * kNsPerSec));
    w.world.net->set_tap(nullptr);
}

TEST(Keepalive, ManyIdleClientsThatWereKilledAreAllMissed) {
    ServerOptions options = defaults();
    options.keepalive_ns = 2 * kNsPerSec;
    options.connections_max = 64;
    SvcWorld w(options);
    Cut cut;
    w.world.net->set_tap(&cut);
    for (int round = 0; round < 3; ++round) {
        std::vector<std::unique_ptr<RawConn>> conns;
        for (int i = 0; i < 60; ++i)
            conns.push_back(w.connect());
        cut.on = true;
        conns.clear();
        EXPECT_TRUE(
            w.world.run_until([&] { return w.listener->connections() == 0; }, 15 * kNsPerSec));
        cut.on = false;
    }
    EXPECT_EQ(w.counters().accepted, 180u);
    w.world.net->set_tap(nullptr);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
