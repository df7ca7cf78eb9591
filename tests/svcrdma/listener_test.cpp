#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(Listener, AnswersPrivateDataWithoutFlags) {
    SvcWorld w;
    auto conn = w.connect(plain(true));
    EXPECT_FALSE(conn->peers.remote_invalidation);
    EXPECT_EQ(conn->peers.send_size, 4096u);
    EXPECT_EQ(conn->peers.recv_size, 4096u);
}

TEST(Listener, RejectsWithPrivateDataBeyondConnectionsMax) {
    SvcWorld w;
    std::vector<std::unique_ptr<RawConn>> conns;
    for (int i = 0; i < 4; ++i)
        conns.push_back(w.connect());
    auto fifth = w.connect();
    EXPECT_TRUE(fifth->ended);
    EXPECT_EQ(fifth->end, verbs::CmEventType::rejected);
    EXPECT_EQ(w.counters().rejected, 1u);
    for (auto& conn : conns)
        w.expect_alive(*conn);
    conns.pop_back();
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 3; }));
    auto sixth = w.connect();
    w.expect_alive(*sixth);
}

TEST(Listener, RejectsAPeerThatServesNoReads) {
    SvcWorld w;
    test::RawOptions raw = plain();
    raw.read_depth = 0;
    auto conn = w.connect(raw);
    EXPECT_EQ(conn->end, verbs::CmEventType::rejected);
}

TEST(Listener, PeerWithoutPrivateDataGets1024BytesInline) {
    SvcWorld w;
    test::RawOptions raw = plain();
    raw.private_data = false;
    auto conn = w.connect(raw);
    EXPECT_EQ(w.call(*conn, {.xid = 1, .message = message(1, Op::big, 1024 - 28)}).body.size(),
              1024u - 28u);
    EXPECT_TRUE(w.call(*conn, {.xid = 2, .message = message(2, Op::big, 1024 - 27)})
                    .is_error(rpcrdma::ErrorCode::chunk));
}

TEST(Listener, SmallerOfBothInlineSizesHolds) {
    SvcWorld w;
    test::RawOptions raw = plain();
    raw.offer.recv_size = 2048;
    auto conn = w.connect(raw);
    EXPECT_EQ(w.call(*conn, {.xid = 1, .message = message(1, Op::big, 2048 - 28)}).body.size(),
              2048u - 28u);
    EXPECT_TRUE(w.call(*conn, {.xid = 2, .message = message(2, Op::big, 2048 - 27)})
                    .is_error(rpcrdma::ErrorCode::chunk));
}

TEST(Listener, ShutDownLetsCallsFinish) {
    SvcWorld w;
    auto busy = w.connect();
    auto idle = w.connect();
    busy->send(Call{.xid = 9, .message = message(9, Op::hold)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.service.held.size() == 1; }));
    w.listener->shut_down(10 * kNsPerSec);
    EXPECT_TRUE(w.world.run_until([&] { return idle->ended; }, kNsPerSec));
    EXPECT_FALSE(busy->ended);
    auto late = w.connect();
    EXPECT_FALSE(late->established);
    w.service.release_held();
    EXPECT_EQ(w.next(*busy).header.xid, 9u);
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->idle() && busy->ended; }, kNsPerSec));
}

TEST(Listener, ShutDownClosesWhatDoesNotFinishWhenTheGraceIsOver) {
    SvcWorld w;
    auto busy = w.connect();
    busy->send(Call{.xid = 9, .message = message(9, Op::hold)}.bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.service.held.size() == 1; }));
    w.listener->shut_down(kNsPerSec);
    EXPECT_TRUE(w.world.run_until([&] { return busy->ended; }, 2 * kNsPerSec));
    EXPECT_FALSE(w.listener->idle());
    w.service.release_held();
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->idle(); }));
}

TEST(Listener, IoCountersOutliveTheirConnections) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(5000));
    (void)w.call(*conn,
                 {.xid = 1, .write = {memory.split(1)}, .message = message(1, Op::read, 5000)});
    EXPECT_EQ(w.listener->io_counters().bytes_pushed, 5000u);
    conn->disconnect();
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 0; }));
    EXPECT_EQ(w.listener->io_counters().bytes_pushed, 5000u);
}

TEST(Listener, RefusesOptionsThatServeNobody) {
    test::LoopWorld world;
    TestService service;
    ServerOptions options = defaults();
    options.connections_max = 0;
    EXPECT_FALSE(
        Listener::create(*world.server, test::LoopWorld::server_address(), service, options));
    options = defaults();
    options.demand.credits = 0;
    EXPECT_FALSE(
        Listener::create(*world.server, test::LoopWorld::server_address(), service, options));
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
