#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

bool run_until_alone(SvcWorld& w, std::uint32_t connections = 0) {
    return w.world.run_until([&] { return w.listener->connections() == connections; });
}

TEST(Transport, PeerDisconnects) {
    SvcWorld w;
    auto conn = w.connect();
    w.expect_alive(*conn);
    conn->disconnect();
    EXPECT_TRUE(run_until_alone(w));
    EXPECT_EQ(w.counters().closed, 1u);
}

TEST(Transport, CallsThatTheServiceHasOutliveTheConnection) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 5; ++i)
        conn->send(Call{.xid = i, .message = message(i, Op::hold)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.service.held.size() == 5; }));
    conn->disconnect();
    w.world.run_for(kNsPerSec);
    EXPECT_EQ(w.listener->connections(), 1u);  // they are still executing
    w.service.release_held();
    EXPECT_TRUE(run_until_alone(w));
    EXPECT_EQ(w.counters().replies, 0u);
}

TEST(Transport, DroppedCallIsReleased) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 50; ++i) {
        conn->send(Call{.xid = i, .message = message(i, Op::drop)}.bytes());
        w.world.run_for(kNsPerMs);
    }
    w.expect_alive(*conn);
    EXPECT_EQ(w.counters().dropped, 50u);
}

TEST(Transport, FrameBeforeTheConnectionIsEstablishedWaits) {
    // The client's RTU is lost; its first Send is what establishes.
    struct DropRtu final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
            const bool mad = frame.bytes.size() > 200 && frame.bytes[0] == std::byte{0x64};
            if (!mad ||
                frame.from != test::LoopWorld::client_address().with_port(frame.from.port()))
                return true;
            return ++mads != 2;
        }
        std::uint32_t mads = 0;
    } tap;
    SvcWorld w;
    w.world.net->set_tap(&tap);
    auto conn = w.connect();
    const std::uint64_t tasks = w.world.loop->counters().tasks_run;
    w.expect_alive(*conn);
    EXPECT_GE(tap.mads, 2u);
    // Meanwhile nothing is tried over and over.
    EXPECT_LT(w.world.loop->counters().tasks_run - tasks, 100u);
    w.world.net->set_tap(nullptr);
}

TEST(B27, ReplyThatWaitsForSendRoomWhenTheConnectionDies) {
    ServerOptions options = defaults();
    options.demand.credits = 16;
    options.payload_runs = 16;
    SvcWorld w(options);
    auto conn = w.connect();
    auto other = w.connect();
    const auto memory = w.send_reads(*conn, 16, 1 << 20, 60);
    EXPECT_TRUE(w.world.run_until([&] { return w.counters().waited_for_send_room > 0; }));
    conn->qp().set_error();  // killed
    conn->disconnect();
    EXPECT_TRUE(run_until_alone(w, 1));
    w.expect_alive(*other);
}

TEST(B27, ReplyThatWaitsForMemoryOrTransfersWhenTheConnectionDies) {
    ServerOptions options = defaults();
    options.demand.credits = 16;
    options.payload_runs = 2;
    SvcWorld w(options);
    for (std::uint32_t round = 0; round < 20; ++round) {
        auto conn = w.connect();
        std::vector<std::unique_ptr<Exposed>> memory;
        for (std::uint32_t xid = 1; xid <= 16; ++xid) {
            memory.push_back(std::make_unique<Exposed>(*conn, Bytes(300000)));
            Call call{.xid = xid, .credits = 16, .message = message(xid, Op::read, 300000)};
            if (xid % 2 == 0) {
                call.write = {memory.back()->split(40)};
            } else {
                call.read = {{12, memory.back()->all()}};
                call.message = message(xid, Op::record, 300000);
            }
            conn->send(call.bytes());
        }
        w.world.run_for(round * 50 * kNsPerUs);
        conn->qp().set_error();  // without a word
        memory.clear();
        conn.reset();
        auto next = w.connect();
        w.expect_alive(*next);
        next->disconnect();
        EXPECT_TRUE(run_until_alone(w)) << "round " << round;
    }
    EXPECT_GT(w.counters().waited_for_payload, 0u);
}

TEST(B27, PeerThatTakesNoRepliesIsGivenUpAndHoldsNothing) {
    ServerOptions options = defaults();
    options.stall_timeout_ns = 5 * kNsPerSec;
    options.payload_runs = 2;
    SvcWorld w(options);
    test::RawOptions raw = plain();
    raw.receives = 2;
    raw.repost = false;
    auto hostile = w.connect(raw);  // its device retries for ever where no Receive is posted
    auto other = w.connect();
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 8; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*hostile, Bytes(1 << 20)));
        hostile->send(Call{.xid = xid,
                           .write = {memory.back()->split(1)},
                           .message = message(xid, Op::read, 1 << 20)}
                          .bytes());
    }
    w.world.run_for(kNsPerSec);
    EXPECT_EQ(hostile->inbox.size(), 2u);
    EXPECT_FALSE(hostile->ended);
    // The other one's payload waits for what the hostile one holds, but not for ever.
    Exposed room(*other, Bytes(1 << 20));
    other->send(
        Call{.xid = 9, .write = {room.split(1)}, .message = message(9, Op::read, 1 << 20)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return !other->inbox.empty(); }, 10 * kNsPerSec));
    EXPECT_EQ(w.counters().stalled, 1u);
    EXPECT_EQ(w.listener->connections(), 1u);
    EXPECT_EQ(room.content(), TestService::item(1 << 20));
}

TEST(B28, IdleConnectionIsClosedOnceAndItsObjectLivesUntilTheEventCame) {
    ServerOptions options = defaults();
    options.idle_timeout_ns = 10 * kNsPerMs;
    SvcWorld w(options);
    for (std::uint32_t i = 0; i < 200; ++i) {
        auto conn = w.connect();
        if (i % 2 == 0) w.expect_alive(*conn);
        EXPECT_TRUE(w.world.run_until([&] { return conn->ended; }));
        EXPECT_EQ(conn->end, verbs::CmEventType::disconnected);
        EXPECT_TRUE(run_until_alone(w));
    }
    EXPECT_EQ(w.counters().closed, 200u);
}

TEST(B64, IdleConnectionsMakeRoomForOthers) {
    ServerOptions options = defaults();
    options.idle_timeout_ns = 50 * kNsPerMs;
    SvcWorld w(options);
    std::vector<std::unique_ptr<RawConn>> idle;
    for (int i = 0; i < 4; ++i)
        idle.push_back(w.connect());
    auto refused = w.connect();
    EXPECT_EQ(refused->end, verbs::CmEventType::rejected);
    EXPECT_TRUE(run_until_alone(w));
    auto real = w.connect();
    w.expect_alive(*real);
}

TEST(B64, ConnectionWithACallInProgressIsNotIdle) {
    ServerOptions options = defaults();
    options.idle_timeout_ns = 10 * kNsPerMs;
    SvcWorld w(options);
    auto conn = w.connect();
    conn->send(Call{.xid = 1, .message = message(1, Op::hold)}.bytes());
    w.world.run_for(100 * kNsPerMs);
    EXPECT_FALSE(conn->ended);
    w.service.release_held();
    EXPECT_EQ(w.next(*conn).header.xid, 1u);
    EXPECT_TRUE(run_until_alone(w));
}

TEST(B34, ThousandConnectionsLeaveNothingBehind) {
    SvcWorld w;
    Prng prng(34);
    for (std::uint32_t i = 0; i < 1000; ++i) {
        auto conn = w.connect();
        ASSERT_TRUE(conn->established) << i;
        const std::uint64_t calls = prng.below(6);
        for (std::uint32_t k = 0; k < calls; ++k)
            conn->send(Call{.xid = k, .message = message(k, Op::null)}.bytes());
        if (prng.below(2) == 0) {
            EXPECT_TRUE(w.world.run_until([&] { return conn->inbox.size() == calls; }));
            conn->disconnect();
        } else {
            w.world.run_for(prng.below(30) * kNsPerUs);
        }
        conn.reset();
        EXPECT_TRUE(run_until_alone(w)) << i;
    }
    EXPECT_EQ(w.counters().accepted, 1000u);
}

TEST(B34, ConnectionsThatComeAndGoAtOnce) {
    SvcWorld w;
    Prng prng(35);
    for (std::uint32_t round = 0; round < 50; ++round) {
        std::vector<std::unique_ptr<RawConn>> conns;
        for (int i = 0; i < 4; ++i)
            conns.push_back(
                RawConn::connect(*w.world.client, test::LoopWorld::server_address(), plain()));
        w.world.run_for(prng.below(40) * kNsPerUs);
        while (!conns.empty())
            conns.erase(conns.begin() + static_cast<std::ptrdiff_t>(prng.below(conns.size())));
        EXPECT_TRUE(run_until_alone(w));
    }
    auto conn = w.connect();
    w.expect_alive(*conn);
}

TEST(Transport, LossyNetworkAnswersEveryCallOnce) {
    test::LoopWorld::Options net;
    net.seed = 7;
    net.faults.loss_ppm = 20000;
    net.faults.dup_ppm = 10000;
    net.faults.reorder_ppm = 10000;
    SvcWorld w(defaults(), net);
    auto conn = w.connect();
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 60; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*conn, Bytes(30000)));
        Call call{.xid = xid, .message = message(xid, Op::read, 30000)};
        call.write = {memory.back()->split(1 + xid % 5)};
        const Reply reply = w.call(*conn, call);
        ASSERT_EQ(reply.header.xid, xid);
        EXPECT_EQ(memory.back()->content(), TestService::item(30000));
    }
    EXPECT_TRUE(conn->inbox.empty());
}

TEST(Transport, ResultsWaitForMemoryAndTheServiceIsWoken) {
    ServerOptions options = defaults();
    options.payload_runs = 2;
    options.demand.credits = 16;
    SvcWorld w(options);
    auto a = w.connect();
    auto b = w.connect();
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        for (RawConn* conn : {a.get(), b.get()}) {
            memory.push_back(std::make_unique<Exposed>(*conn, Bytes(400000)));
            conn->send(Call{.xid = xid,
                            .credits = 16,
                            .write = {memory.back()->split(1)},
                            .message = message(xid, Op::read, 400000)}
                           .bytes());
        }
    }
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        EXPECT_EQ(w.next(*a).header.xid, xid);
        EXPECT_EQ(w.next(*b).header.xid, xid);
    }
    EXPECT_GT(w.service.again, 0u);
    EXPECT_EQ(w.service.again, w.service.woken);
}

TEST(Transport, ArgumentsNeverTakeWhatResultsNeed) {
    // Every call pulls and returns an item, more of them than there are runs: no cycle of waiting.
    ServerOptions options = defaults();
    options.payload_runs = 2;
    options.demand.credits = 16;
    SvcWorld w(options);
    auto conn = w.connect();
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*conn, Bytes(200000)));
        Exposed& from = *memory.back();
        memory.push_back(std::make_unique<Exposed>(*conn, Bytes(200000)));
        conn->send(Call{.xid = xid,
                        .credits = 16,
                        .read = {{12, from.all()}},
                        .write = {memory.back()->split(1)},
                        .message = message(xid, Op::read, 200000)}
                       .bytes());
    }
    for (std::uint32_t xid = 1; xid <= 16; ++xid)
        EXPECT_EQ(w.next(*conn).written(), 200000u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
