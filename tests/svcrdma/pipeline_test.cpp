#include "svcrdma/ctxt.hpp"
#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(Stage, EveryStageHasAName) {
    for (int i = 0; i <= static_cast<int>(Stage::done); ++i)
        EXPECT_STRNE(to_string(static_cast<Stage>(i)), "?");
}

TEST(Stage, TraceTellsTheWholeWalk) {
    TraceRing trace(64);
    ServerOptions options = defaults();
    options.trace = &trace;
    SvcWorld w(options);
    auto conn = w.connect();
    Exposed from(*conn, pattern(100, 1)), to(*conn, Bytes(100));
    (void)w.call(*conn, {.xid = 0x77,
                         .read = {{12, from.all()}},
                         .write = {to.split(1)},
                         .message = message(0x77, Op::echo_item, 100)});
    w.world.run_for(kNsPerMs);
    const std::string dump = trace.dump();
    std::size_t at = 0;
    for (const char* stage : {"pulling", "ready", "placing", "sending", "done"}) {
        at = dump.find(stage, at);
        EXPECT_NE(at, std::string::npos) << stage << " in\n" << dump;
    }
}

TEST(Stage, ReceivedToReceivedNoMessageRun) {
    ServerOptions options = defaults();
    options.demand.credits = 24;
    options.payload_runs = 1;
    options.connections_max = 4;
    SvcWorld w(options);  // 2 x 24 + 4 message runs
    std::vector<std::unique_ptr<RawConn>> conns;
    for (int c = 0; c < 4; ++c) {
        conns.push_back(w.connect());
        for (std::uint32_t i = 0; i < 24; ++i)
            conns.back()->send(
                Call{.xid = i, .credits = 24, .message = message(i, Op::hold)}.bytes());
    }
    w.world.run_for(100 * kNsPerMs);
    EXPECT_EQ(w.service.held.size(), 52u);
    EXPECT_GT(w.counters().waited_for_message_run, 0u);
    std::uint32_t answered = 0;
    for (auto& conn : conns)
        conn->script = [&](RawConn&, RawMessage) { ++answered; };
    EXPECT_TRUE(w.world.run_until([&] {
        w.service.release_held();
        return answered == 96;
    }));
}

TEST(Stage, ReceivedWaitsForAContext) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 16; ++i)
        conn->send(Call{.xid = i, .message = message(i, Op::hold)}.bytes());
    w.world.run_for(100 * kNsPerMs);
    EXPECT_LE(w.service.held.size(), 12u);
    std::uint32_t answered = 0;
    conn->script = [&](RawConn&, RawMessage) { ++answered; };
    EXPECT_TRUE(w.world.run_until([&] {
        w.service.release_held();
        return answered == 16;
    }));
}

TEST(Stage, SlowCallsDoNotHoldUpOthers) {
    SvcWorld w;
    auto conn = w.connect();
    for (std::uint32_t i = 0; i < 7; ++i)
        conn->send(Call{.xid = i, .message = message(i, Op::hold)}.bytes());
    for (std::uint32_t i = 0; i < 30; ++i)
        w.expect_alive(*conn, 100 + i);
    EXPECT_EQ(w.service.held.size(), 7u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
