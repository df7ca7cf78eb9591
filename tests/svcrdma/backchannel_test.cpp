#include "svcrdma/backchannel.hpp"

#include "sunrpc/clnt.hpp"
#include "tests/sunrpc/blob_program.hpp"
#include "tests/svcrdma/svc_world.hpp"
#include "xprtrdma/transport.hpp"

// Calls of the server by its clients' connections (RFC 8167).
namespace nfsrdma::svcrdma::testing {
namespace {

// Keeps what it needs to call each client: what an NFSv4.1 server would.
class CallingService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 0; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        last = rqst.xprt;
        if (hold) {
            held.push_back(&rqst);
            return;
        }
        answer(rqst);
    }
    static void answer(sunrpc::SvcRqst& rqst) noexcept {
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        store_be32(&rqst.res_room[8], 0);
        rqst.res = {rqst.res_room.first(12), {}, {}};
        rqst.xprt->reply(rqst);
    }
    void wake(sunrpc::SvcRqst&) noexcept override { FAIL(); }
    void on_end(sunrpc::SvcXprt& xprt) noexcept override {
        ++ended;
        if (last == &xprt) last = nullptr;
    }
    sunrpc::SvcXprt* last = nullptr;
    bool hold = false;
    std::deque<sunrpc::SvcRqst*> held;
    std::uint32_t ended = 0;
};

struct BackWorld {
    explicit BackWorld(std::uint32_t credits = 2, ServerOptions options = defaults()) {
        options.backward_credits = credits;
        auto made =
            Listener::create(*world.server, test::LoopWorld::server_address(), service, options);
        EXPECT_TRUE(made);
        listener = *std::move(made);
    }
    ~BackWorld() {
        while (!service.held.empty()) {
            CallingService::answer(*service.held.front());
            service.held.pop_front();
        }
        listener->shut_down(0);
        EXPECT_TRUE(world.run_until([&] { return listener->idle(); }));
    }
    // A raw client, whose first call tells the service of it.
    std::unique_ptr<RawConn> connect() {
        auto conn = RawConn::connect(*world.client, test::LoopWorld::server_address(), plain());
        EXPECT_TRUE(world.run_until([&] { return conn->established; }));
        conn->send(Call{.xid = 1, .message = message(1, Op::null)}.bytes());
        EXPECT_TRUE(world.run_until([&] { return !conn->inbox.empty(); }));
        conn->inbox.clear();
        EXPECT_NE(service.last, nullptr);
        return conn;
    }
    sunrpc::Xprt& back() { return *service.last->backward(); }
    RawMessage next(RawConn& conn) {
        EXPECT_TRUE(world.run_until([&] { return !conn.inbox.empty(); }, 5 * kNsPerSec));
        RawMessage got = conn.inbox.front();
        conn.inbox.pop_front();
        return got;
    }
    test::LoopWorld world;
    CallingService service;
    std::unique_ptr<Listener> listener;
};

struct BackCall {
    explicit BackCall(sunrpc::Xprt& x, std::uint32_t id, std::uint32_t bytes = 40) : xprt(x) {
        auto got = x.get_rqst(bytes);
        if (!got) {
            error = got.error().code;
            return;
        }
        rqst = *got;
        rqst->xid = id;
        std::fill_n(rqst->head_room.begin(), bytes, std::byte{0});
        store_be32(rqst->head_room.data(), id);
        rqst->call = {rqst->head_room.first(bytes), {}, {}};
        rqst->reply_max = 64;
        rqst->user = this;
        rqst->complete = [](sunrpc::Rqst& r, Result<void> how) noexcept {
            auto& self = *static_cast<BackCall*>(r.user);
            ++self.done;
            if (how) {
                self.reply.assign(r.reply.head.begin(), r.reply.head.end());
            } else {
                self.error = how.error().code;
            }
            self.xprt.put_rqst(*std::exchange(self.rqst, nullptr));
        };
        const Result<void> sent = x.send(*rqst);
        EXPECT_TRUE(sent) << (sent ? "" : to_string(sent.error()));
    }
    sunrpc::Xprt& xprt;
    sunrpc::Rqst* rqst = nullptr;
    std::uint32_t done = 0;
    std::optional<Errc> error;
    Bytes reply;
};

Bytes reply_to(std::uint32_t xid, std::uint32_t credits = 2) {
    return Words()
        .u32(xid)
        .u32(1)
        .u32(credits)
        .u32(0)
        .u32(0)
        .u32(0)
        .u32(0)  // header without lists
        .u32(xid)
        .u32(1)
        .u32(0)
        .u32(0)
        .u32(0)
        .u32(0)  // accepted, SUCCESS
        .take();
}

TEST(Backchannel, CallIsInlineAndItsReplyIsFoundByItsXid) {
    BackWorld b;
    auto conn = b.connect();
    BackCall call(b.back(), 0x77);
    const RawMessage seen = b.next(*conn);
    const Reply header = parse(seen);
    EXPECT_EQ(header.header.xid, 0x77u);
    EXPECT_EQ(header.header.proc, rpcrdma::Proc::msg);
    EXPECT_EQ(header.header.credits, 2u);
    EXPECT_EQ(header.header.segment_count, 0u);
    EXPECT_EQ(header.body.size(), 40u);
    conn->send(reply_to(0x77));
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
    EXPECT_FALSE(call.error);
    EXPECT_EQ(call.reply.size(), 24u);
}

TEST(Backchannel, ForwardAndBackwardXidsDoNotMeet) {
    BackWorld b;
    auto conn = b.connect();
    BackCall call(b.back(), 5);
    b.next(*conn);
    conn->send(Call{.xid = 5, .message = message(5, Op::null)}.bytes());
    EXPECT_EQ(parse(b.next(*conn)).header.xid, 5u);
    EXPECT_EQ(call.done, 0u);
    conn->send(reply_to(5));
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
}

TEST(Backchannel, OneCreditUntilTheFirstReplyThenWhatTheClientGrants) {
    BackWorld b(4);
    auto conn = b.connect();
    std::vector<std::unique_ptr<BackCall>> calls;
    for (std::uint32_t i = 1; i <= 4; ++i)
        calls.push_back(std::make_unique<BackCall>(b.back(), i));
    b.world.run_for(10 * kNsPerMs);
    EXPECT_EQ(conn->inbox.size(), 1u);
    conn->send(reply_to(1, 2));
    EXPECT_TRUE(b.world.run_until([&] { return conn->inbox.size() == 3; }));
    b.world.run_for(10 * kNsPerMs);
    EXPECT_EQ(conn->inbox.size(), 3u);
    conn->send(reply_to(3, 1000));  // more than there are is as many as there are
    EXPECT_TRUE(b.world.run_until([&] { return conn->inbox.size() == 4; }));
    conn->send(reply_to(2, 0));  // none is one
    conn->send(reply_to(4, 1));
    EXPECT_TRUE(b.world.run_until([&] {
        return std::all_of(calls.begin(), calls.end(), [](const auto& c) { return c->done == 1; });
    }));
}

TEST(Backchannel, ReplyIsTakenWhileEveryForwardCallIsHeld) {
    BackWorld b;
    auto conn = b.connect();
    sunrpc::Xprt& back = b.back();
    b.service.hold = true;
    for (std::uint32_t xid = 10; xid < 18; ++xid)
        conn->send(Call{.xid = xid, .message = message(xid, Op::null)}.bytes());
    EXPECT_TRUE(b.world.run_until([&] { return b.service.held.size() == 8; }));
    BackCall call(back, 1);
    b.next(*conn);
    conn->send(reply_to(1));
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
}

TEST(Backchannel, SlotsRunOutAndWhoWaitsIsWoken) {
    BackWorld b(1);
    auto conn = b.connect();
    BackCall first(b.back(), 1);
    BackCall none(b.back(), 2);
    EXPECT_EQ(none.error, Errc::again);
    std::uint32_t woken = 0;
    b.back().on_slot([](void* arg) noexcept { ++*static_cast<std::uint32_t*>(arg); }, &woken);
    b.next(*conn);
    conn->send(reply_to(1));
    EXPECT_TRUE(b.world.run_until([&] { return woken == 1; }));
    EXPECT_EQ(first.done, 1u);
}

TEST(Backchannel, CallsThatDoNotFitInlineAreRefused) {
    BackWorld b;
    auto conn = b.connect();
    EXPECT_EQ(b.back().limits().max_message, 4096u - 28u);
    EXPECT_EQ(BackCall(b.back(), 1, 4096 - 27).error, Errc::too_big);
    BackCall call(b.back(), 2, 4096 - 28);
    EXPECT_EQ(b.next(*conn).bytes.size(), 4096u);
    conn->send(reply_to(2));
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
    EXPECT_EQ(b.back().get_payload(1).error().code, Errc::too_big);
}

TEST(Backchannel, WhatAnswersNoCallIsDroppedAndAnErrorEndsItsCallAlone) {
    BackWorld b;
    auto conn = b.connect();
    conn->send(reply_to(99));
    conn->send(Words().u32(98).u32(1).u32(1).u32(4).u32(2).take());
    BackCall call(b.back(), 7);
    b.next(*conn);
    conn->send(Words().u32(7).u32(1).u32(1).u32(4).u32(2).take());  // ERR_CHUNK
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
    EXPECT_EQ(call.error, Errc::bad_message);
    conn->send(reply_to(7));  // too late
    BackCall after(b.back(), 8);
    b.next(*conn);
    conn->send(reply_to(8));
    EXPECT_TRUE(b.world.run_until([&] { return after.done == 1; }));
    EXPECT_FALSE(conn->ended);
}

TEST(Backchannel, RepliesToNoCallAreFaultsAndASecondReplyIsNone) {
    PeerTable peers({.faults_max = 3});
    ServerOptions options = defaults();
    options.peers = &peers;
    BackWorld b(2, options);
    auto conn = b.connect();
    BackCall call(b.back(), 7);
    b.next(*conn);
    conn->send(reply_to(7));
    conn->send(reply_to(7));
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
    b.world.run_for(10 * kNsPerMs);
    EXPECT_EQ(b.listener->counters().peer_faults, 0u);
    conn->send(reply_to(7));
    conn->send(Words().u32(98).u32(1).u32(1).u32(4).u32(2).take());
    b.world.run_for(10 * kNsPerMs);
    EXPECT_EQ(b.listener->counters().peer_faults, 2u);
    EXPECT_FALSE(conn->ended);
    conn->send(reply_to(99));
    EXPECT_TRUE(b.world.run_until([&] { return conn->ended; }));
    EXPECT_TRUE(b.world.run_until([&] { return b.listener->connections() == 0; }));
}

TEST(B64, ConnectionThatOwesABackwardReplyIsNotIdle) {
    ServerOptions options = defaults();
    options.idle_timeout_ns = 10 * kNsPerMs;
    BackWorld b(2, options);
    auto conn = b.connect();
    BackCall call(b.back(), 7);
    b.world.run_for(100 * kNsPerMs);
    EXPECT_FALSE(conn->ended);
    conn->send(reply_to(7));
    EXPECT_TRUE(b.world.run_until([&] { return call.done == 1; }));
    EXPECT_FALSE(call.error);
    EXPECT_TRUE(b.world.run_until([&] { return conn->ended; }));
}

TEST(Backchannel, EndOfTheConnectionFailsEveryCallThenTellsTheService) {
    BackWorld b(4);
    auto conn = b.connect();
    std::vector<std::unique_ptr<BackCall>> calls;
    for (std::uint32_t i = 1; i <= 4; ++i)
        calls.push_back(std::make_unique<BackCall>(b.back(), i));
    b.next(*conn);
    conn->disconnect();
    EXPECT_TRUE(b.world.run_until([&] { return b.service.ended == 1; }));
    for (const auto& call : calls)
        EXPECT_EQ(call->error, Errc::reconnect);
    EXPECT_EQ(b.service.last, nullptr);
}

TEST(Backchannel, AbandonedCallGivesItsSlotBackWithItsReply) {
    BackWorld b(1);
    auto conn = b.connect();
    auto rqst = *b.back().get_rqst(16);
    rqst->xid = 3;
    std::fill_n(rqst->head_room.begin(), 16, std::byte{0});
    rqst->call = {rqst->head_room.first(16), {}, {}};
    ASSERT_TRUE(b.back().send(*rqst));
    b.next(*conn);
    b.back().put_rqst(*rqst);
    EXPECT_EQ(BackCall(b.back(), 4).error, Errc::again);
    conn->send(reply_to(3));
    b.world.run_for(10 * kNsPerMs);
    BackCall next(b.back(), 4);
    b.next(*conn);
    conn->send(reply_to(4));
    EXPECT_TRUE(b.world.run_until([&] { return next.done == 1; }));
}

// A client that loses replies must not cost its server the channel for good.
TEST(Backchannel, AbandonedCallWithoutAReplyEndsTheConnection) {
    ServerOptions options = defaults();
    options.stall_timeout_ns = 5 * kNsPerSec;
    BackWorld w(1, options);
    auto conn = w.connect();
    BackCall call(w.back(), 0x80000001);
    w.next(*conn);
    // Who still waits for it may do so for as long as he likes.
    w.world.run_for(20 * kNsPerSec);
    EXPECT_FALSE(conn->ended);
    w.back().put_rqst(*std::exchange(call.rqst, nullptr));
    w.world.run_for(4 * kNsPerSec);
    EXPECT_FALSE(conn->ended);
    EXPECT_TRUE(w.world.run_until([&] { return conn->ended; }, 2 * kNsPerSec));
    EXPECT_EQ(w.listener->counters().stalled, 1u);
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 0; }));
    EXPECT_EQ(call.done, 0u);
}

// A client without Receives for calls of the server.
TEST(Backchannel, CallThatTheClientDoesNotTakeEndsTheConnection) {
    ServerOptions options = defaults();
    options.stall_timeout_ns = 5 * kNsPerSec;
    BackWorld w(1, options);
    test::RawOptions raw = plain();
    raw.receives = 1;
    raw.repost = false;
    auto conn = RawConn::connect(*w.world.client, test::LoopWorld::server_address(), raw);
    EXPECT_TRUE(w.world.run_until([&] { return conn->established; }));
    conn->send(Call{.xid = 1, .message = message(1, Op::null)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return !conn->inbox.empty(); }));
    BackCall call(w.back(), 0x80000001);
    EXPECT_TRUE(w.world.run_until([&] { return conn->ended; }, 10 * kNsPerSec));
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 0; }));
    EXPECT_EQ(call.done, 1u);
    EXPECT_EQ(call.error, Errc::reconnect);
    EXPECT_EQ(w.listener->counters().stalled, 1u);
}

TEST(Backchannel, WithoutCreditsThereIsNone) {
    SvcWorld w;
    auto conn = w.connect();
    conn->send(reply_to(1));  // for the service, which answers anything
    w.next(*conn);
    w.expect_alive(*conn);
}

// ---- both roles against each other

struct Both {
    explicit Both(bool serves) : b(4) {
        dispatcher.add(nfsrdma::testing::blob::program(table, state));
        xprtrdma::TransportOptions options;
        options.demand.credits = 8;
        if (serves) options.backward.service = &dispatcher;
        auto made = xprtrdma::Transport::create(
            *b.world.client, test::LoopWorld::server_address(), options,
            [](void* arg, Result<void> how) noexcept { *static_cast<int*>(arg) = how ? 1 : -1; },
            &outcome);
        EXPECT_TRUE(made);
        xprt = *std::move(made);
        EXPECT_TRUE(b.world.run_until([&] { return outcome == 1; }));
        forward();
    }
    ~Both() {
        xprt->close();
        EXPECT_TRUE(b.world.run_until([&] { return xprt->idle(); }));
        xprt.reset();
    }
    // One call of the client, by which the service knows it.
    void forward() {
        sunrpc::Rqst& r = **xprt->get_rqst(12);
        r.xid = ++xid;
        const Bytes head = message(r.xid, Op::null);
        std::memcpy(r.head_room.data(), head.data(), head.size());
        r.call = {r.head_room.first(12), {}, {}};
        r.reply_max = 64;
        done = false;
        r.user = this;
        r.complete = [](sunrpc::Rqst& q, Result<void> how) noexcept {
            EXPECT_TRUE(how);
            auto& self = *static_cast<Both*>(q.user);
            self.done = true;
            self.xprt->put_rqst(q);
        };
        EXPECT_TRUE(xprt->send(r));
        EXPECT_TRUE(b.world.run_until([&] { return done; }));
    }
    BackWorld b;
    std::array<sunrpc::SvcProcedure, nfsrdma::testing::blob::Proc::count> table =
        nfsrdma::testing::blob::procedures();
    nfsrdma::testing::blob::State state;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<xprtrdma::Transport> xprt;
    int outcome = 0;
    bool done = false;
    std::uint32_t xid = 0;
};

TEST(Backchannel, AProgramOfTheClientIsCalledByTheServer) {
    Both both(true);
    ASSERT_NE(both.b.service.last, nullptr);
    sunrpc::Clnt clnt(both.b.back(), nfsrdma::testing::blob::kProg, nfsrdma::testing::blob::kVers,
                      nullptr);
    std::uint32_t answered = 0;
    std::vector<std::unique_ptr<sunrpc::Call>> calls;
    for (std::uint32_t i = 0; i < 50; ++i) {
        calls.push_back(std::make_unique<sunrpc::Call>());
        sunrpc::Call& call = *calls.back();
        call.proc = &both.table[nfsrdma::testing::blob::null].info;
        call.proc_number = nfsrdma::testing::blob::null;
        call.user = &answered;
        call.done = [](sunrpc::Call& c, Result<void> how) noexcept {
            EXPECT_TRUE(how) << (how ? "" : to_string(how.error()));
            ++*static_cast<std::uint32_t*>(c.user);
        };
        EXPECT_TRUE(clnt.call(call));
        if (i % 10 == 0) both.forward();  // both directions at once
    }
    EXPECT_TRUE(both.b.world.run_until([&] { return answered == 50; }));
    EXPECT_EQ(both.xprt->counters().backward_calls, 50u);
    EXPECT_EQ(both.xprt->counters().backward_overruns, 0u);
    EXPECT_EQ(both.xprt->counters().bad_xids, 0u);
}

TEST(Backchannel, AClientWithoutAServiceDropsTheCallAndGoesOn) {
    Both both(false);
    BackCall call(both.b.back(), 1);
    both.b.world.run_for(100 * kNsPerMs);
    EXPECT_EQ(call.done, 0u);
    EXPECT_EQ(both.xprt->counters().bad_xids, 1u);
    both.forward();
    EXPECT_EQ(both.xprt->counters().disconnects, 0u);
    both.xprt->close();
    EXPECT_TRUE(both.b.world.run_until([&] { return call.done == 1; }));
    EXPECT_EQ(call.error, Errc::reconnect);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
