#include "svcrdma/payload_runs.hpp"

#include <gtest/gtest.h>

#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(PayloadRuns, ArenaHoldsWhatIsCarved) {
    for (const std::uint32_t runs : {1u, 2u, 7u, 64u}) {
        for (const std::uint32_t payload : {1u, 4096u, 65536u, 1u << 20}) {
            ServerOptions options = defaults();
            options.payload_runs = runs;
            options.demand.max_payload = payload;
            SvcWorld w(options);
            EXPECT_NE(w.listener, nullptr);
        }
    }
}

TEST(PayloadRuns, HeaderRoomHoldsAnyInlineHeader) {
    pools::Demand demand;
    demand.inline_size = 5000;
    EXPECT_EQ(PayloadRuns::header_room(demand), 8192u);
}

TEST(PayloadRuns, LargestItemBehindTheLargestLongCall) {
    SvcWorld w;
    auto conn = w.connect();
    const Bytes long_call = plus(message(1, Op::record, 1 << 20), pattern((64 << 10) - 12, 1));
    Exposed call_memory(*conn, long_call), item_memory(*conn, pattern(1 << 20, 2));
    (void)w.call(*conn,
                 {.xid = 1, .proc = 1, .read = {{0, call_memory.all()}, {12, item_memory.all()}}});
    ASSERT_EQ(w.service.arguments.size(), 1u);
    EXPECT_EQ(w.service.arguments[0].payload, pattern(1 << 20, 2));
}

// Keeps `calls` of them under way: each reply is followed by one more.
struct Busy {
    Busy(SvcWorld& world, RawConn& c, std::uint32_t calls, bool write)
        : w(world), conn(c), is_write(write) {
        for (std::uint32_t i = 0; i < calls; ++i)
            memory.push_back(std::make_unique<Exposed>(conn, Bytes(kBytes)));
        conn.script = [this](RawConn&, RawMessage m) {
            ++done;
            if (going) send(parse(m).header.xid);
        };
        for (std::uint32_t i = 0; i < calls; ++i)
            send(i);
    }
    void send(std::uint32_t xid) {
        Call call{.xid = xid, .credits = 64};
        if (is_write) {
            call.read = {{12, memory[xid]->all()}};
            call.message = message(xid, Op::record, kBytes);
        } else {
            call.write = {memory[xid]->split(1)};
            call.message = message(xid, Op::read, kBytes);
        }
        conn.send(call.bytes());
    }
    static constexpr std::uint32_t kBytes = 400'000;
    SvcWorld& w;
    RawConn& conn;
    const bool is_write;
    bool going = true;
    std::uint32_t done = 0;
    std::vector<std::unique_ptr<Exposed>> memory;
};

void expect_turns(bool write) {
    ServerOptions options = defaults();
    options.demand.credits = 64;
    options.payload_runs = 4;
    SvcWorld w(options);
    auto greedy_conn = w.connect(), modest_conn = w.connect();
    Busy greedy(w, *greedy_conn, 64, write);
    ASSERT_TRUE(w.world.run_until([&] { return greedy.done >= 100; }));
    Busy modest(w, *modest_conn, 1, write);
    const std::uint32_t before = greedy.done;
    ASSERT_TRUE(w.world.run_until([&] { return modest.done >= 20; }));
    // In one queue each of its calls would stand behind all that the greedy one has: 60.
    EXPECT_LT(greedy.done - before, 20u * 12);
    EXPECT_GT(w.counters().waited_for_payload, 100u);
    greedy.going = modest.going = false;
    w.service.arguments.clear();
    EXPECT_TRUE(w.world.run_until(
        [&] { return w.counters().replies == greedy.done + std::uint64_t{modest.done}; }));
    w.world.run_for(kNsPerSec);
}

TEST(Fairness, OneResultIsNotHeldUpBySixtyFourOfAnother) {
    expect_turns(false);
}

TEST(Fairness, OneArgumentIsNotHeldUpBySixtyFourOfAnother) {
    expect_turns(true);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
