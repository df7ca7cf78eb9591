#include "tests/support/alloc_counter.hpp"
#include "tests/svcrdma/svc_world.hpp"
#include "xprtrdma/transport.hpp"

// Both transports against each other: every way in which a call and its result may travel.
namespace nfsrdma::svcrdma::testing {
namespace {

struct Pair {
    explicit Pair(ServerOptions server = defaults(),
                  xprtrdma::TransportOptions client = client_defaults(),
                  test::LoopWorld::Options net = {})
        : w(server, net) {
        const auto connected = [](void* arg, Result<void> how) noexcept {
            auto& self = *static_cast<Pair*>(arg);
            self.outcome = how ? 1 : -1;
        };
        auto made = xprtrdma::Transport::create(*w.world.client, test::LoopWorld::server_address(),
                                                client, connected, this);
        EXPECT_TRUE(made);
        xprt = *std::move(made);
        EXPECT_TRUE(w.world.run_until([&] { return outcome != 0; }));
        EXPECT_EQ(outcome, 1);
    }
    ~Pair() {
        xprt->close();
        EXPECT_TRUE(w.world.run_until([&] { return xprt->idle(); }));
        xprt.reset();
    }
    static xprtrdma::TransportOptions client_defaults() {
        xprtrdma::TransportOptions o;
        o.demand.credits = 8;
        return o;
    }

    struct Shape {
        Op op = Op::null;
        std::uint32_t n = 0;
        std::uint32_t arg_bytes = 0;     // a DDP item of the call
        std::uint32_t extra_bytes = 0;   // behind it
        std::uint32_t result_bytes = 0;  // room for a DDP result
        std::uint32_t reply_max = 256;
    };
    // One call, whole; the reply's bytes are in `reply`, the result's in `result`.
    Result<void> call(const Shape& shape) {
        auto rqst = xprt->get_rqst(12 + shape.extra_bytes + 16);
        EXPECT_TRUE(rqst);
        sunrpc::Rqst& r = **rqst;
        r.xid = ++xid;
        const Bytes head =
            message(r.xid, shape.op, shape.arg_bytes > 0 ? shape.arg_bytes : shape.n);
        std::memcpy(r.head_room.data(), head.data(), head.size());
        const Bytes extra = pattern(shape.extra_bytes, 1);
        if (!extra.empty()) std::memcpy(&r.head_room[12], extra.data(), extra.size());
        r.call = {r.head_room.first(12), {}, r.head_room.subspan(12, extra.size())};
        sunrpc::Payload arg, room;
        if (shape.arg_bytes > 0) {
            arg = *xprt->get_payload(shape.arg_bytes);
            std::memcpy(arg.memory().data(), pattern(shape.arg_bytes, 2).data(), shape.arg_bytes);
            r.call.payload = arg.memory().first(shape.arg_bytes);
        }
        if (shape.result_bytes > 0) {
            room = *xprt->get_payload(shape.result_bytes);
            r.result_room = room.memory().first(shape.result_bytes);
        } else {
            r.result_room = {};
        }
        r.reply_max = shape.reply_max;
        struct State {
            bool done = false;
            Result<void> how;
        } state;
        r.user = &state;
        r.complete = [](sunrpc::Rqst& q, Result<void> how) noexcept {
            auto& s = *static_cast<State*>(q.user);
            s.done = true;
            s.how = how;
        };
        EXPECT_TRUE(xprt->send(r));
        EXPECT_TRUE(w.world.run_until([&] { return state.done; }));
        if (state.how) {
            reply.assign(r.reply.head.begin(), r.reply.head.end());
            result.assign(r.reply.payload.begin(), r.reply.payload.end());
        }
        xprt->put_rqst(r);
        return state.how;
    }

    SvcWorld w;
    std::unique_ptr<xprtrdma::Transport> xprt;
    int outcome = 0;
    std::uint32_t xid = 0;
    Bytes reply, result;
};

TEST(WithClient, ResultsOfEverySizeArriveExactly) {
    Pair p;
    for (const std::uint32_t size :
         {0u, 1u, 3u, 100u, 2047u, 2048u, 4096u, 65537u, (1u << 20) - 3, 1u << 20}) {
        ASSERT_TRUE(p.call({.op = Op::read, .n = size, .result_bytes = 1 << 20}));
        EXPECT_EQ(p.result, TestService::item(size));
    }
    EXPECT_EQ(p.xprt->counters().local_invalidations, 0u);
    EXPECT_EQ(p.xprt->counters().keys_bound, p.xprt->counters().remote_invalidations);
}

TEST(WithClient, ArgumentsOfEverySizeArriveExactly) {
    Pair p;
    for (const std::uint32_t size :
         {1u, 3u, 100u, 2047u, 2048u, 4096u, 65537u, (1u << 20) - 3, 1u << 20}) {
        p.w.service.arguments.clear();
        ASSERT_TRUE(p.call({.op = Op::record, .arg_bytes = size, .extra_bytes = 8}));
        Bytes expected = plus(message(p.xid, Op::record, size), pattern(size, 2));
        expected.resize(align_up(expected.size(), std::size_t{4}));
        EXPECT_EQ(p.w.service.arguments.at(0).whole(), plus(expected, pattern(8, 1)));
    }
    EXPECT_EQ(p.xprt->counters().local_invalidations, 0u);
}

TEST(WithClient, LongCallsAndLongReplies) {
    Pair p;
    for (const std::uint32_t size : {2000u, 5000u, 60000u}) {
        p.w.service.arguments.clear();
        ASSERT_TRUE(p.call({.op = Op::record, .extra_bytes = size}));
        EXPECT_EQ(p.w.service.arguments.at(0).whole(),
                  plus(message(p.xid, Op::record, 0), pattern(size, 1)));
        ASSERT_TRUE(p.call({.op = Op::big, .n = size, .reply_max = size}));
        EXPECT_EQ(p.reply.size(), size);
        // A long call with an item in it.
        p.w.service.arguments.clear();
        ASSERT_TRUE(p.call({.op = Op::record, .arg_bytes = 30001, .extra_bytes = size}));
        EXPECT_EQ(p.w.service.arguments.at(0).payload, pattern(30001, 2));
    }
}

TEST(WithClient, ArgumentsAndResultsBothByRdma) {
    Pair p;
    ASSERT_TRUE(p.call({.op = Op::echo_item, .arg_bytes = 200001, .result_bytes = 1 << 20}));
    EXPECT_EQ(p.result, pattern(200001, 2));
}

TEST(B10, ClientIsToldThatItsReplyChunkWasTooSmallAndOffersALargerOne) {
    Pair p;
    EXPECT_TRUE(p.call({.op = Op::big, .n = 50000, .reply_max = 6000}));
    EXPECT_EQ(p.reply.size(), 50000u);
    EXPECT_EQ(p.w.counters().err_chunk, 1u);
}

TEST(B10, ClientIsToldThatItsWriteChunkWasTooSmall) {
    Pair p;
    const Result<void> result = p.call({.op = Op::read, .n = 50000, .result_bytes = 6000});
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::bad_message);
    EXPECT_TRUE(p.call({.op = Op::null}));
    EXPECT_EQ(p.xprt->counters().disconnects, 0u);
}

TEST(WithClient, StaticKeysAreNeverInvalidated) {
    xprtrdma::TransportOptions client = Pair::client_defaults();
    client.registration = pools::Registration::fixed;
    Pair p(defaults(), client);
    ASSERT_TRUE(p.call({.op = Op::read, .n = 100000, .result_bytes = 1 << 20}));
    ASSERT_TRUE(p.call({.op = Op::record, .arg_bytes = 100000}));
    EXPECT_EQ(p.w.counters().sends_with_inv, 0u);
}

TEST(WithClient, BothStrategiesOverABadNetwork) {
    for (const auto local : {pools::LocalStrategy::scatter_gather, pools::LocalStrategy::key}) {
        ServerOptions server = defaults();
        server.local = local;
        test::LoopWorld::Options net;
        net.seed = 11;
        net.faults.loss_ppm = 5000;
        net.faults.reorder_ppm = 5000;
        net.faults.dup_ppm = 5000;
        Pair p(server, Pair::client_defaults(), net);
        for (std::uint32_t i = 0; i < 10; ++i) {
            ASSERT_TRUE(
                p.call({.op = Op::echo_item, .arg_bytes = 100001 + i, .result_bytes = 1 << 20}));
            EXPECT_EQ(p.result, pattern(100001 + i, 2));
        }
    }
}

// Answers without touching the heap: as many bytes as the client has room for.
class QuietService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 0; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        ++calls;
        pulled += rqst.arg.payload.size();
        auto memory = rqst.xprt->get_result_payload(rqst, rqst.result_room);
        ASSERT_TRUE(memory);
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        rqst.res = {rqst.res_room.first(8), *memory, {}};
        rqst.result_is_ddp = true;
        rqst.xprt->reply(rqst);
    }
    void wake(sunrpc::SvcRqst&) noexcept override { FAIL(); }
    std::uint64_t calls = 0, pulled = 0;
};

// One call at a time, each sent from the completion of the last.
struct Chain {
    xprtrdma::Transport* xprt = nullptr;
    sunrpc::Payload memory;
    std::uint32_t item = 0, room = 0, done = 0, failed = 0, until = 0;

    void next() noexcept {
        auto rqst = xprt->get_rqst(64);
        if (!rqst) return static_cast<void>(++failed);
        sunrpc::Rqst& r = **rqst;
        r.xid = 1000 + done;
        std::fill_n(r.head_room.begin(), 64, std::byte{0});
        store_be32(r.head_room.data(), r.xid);
        store_be32(&r.head_room[8], item);
        r.call = {r.head_room.first(12), memory.memory().first(item), r.head_room.subspan(12, 8)};
        r.result_room = memory.memory().first(room);
        r.reply_max = 64;
        r.user = this;
        r.complete = [](sunrpc::Rqst& q, Result<void> how) noexcept {
            auto& self = *static_cast<Chain*>(q.user);
            if (!how) ++self.failed;
            ++self.done;
            self.xprt->put_rqst(q);
            self.next();
        };
        if (!xprt->send(r)) ++failed;
    }
};

TEST(WithClient, SteadyStateCostsNoAllocationAndOneKeyAndDoorbellACall) {
    for (const auto local : {pools::LocalStrategy::automatic, pools::LocalStrategy::key}) {
        for (const std::uint32_t item : {0u, 4096u, 1u << 20}) {
            test::LoopWorld world;
            QuietService service;
            ServerOptions options = defaults();
            options.local = local;
            auto listener = *Listener::create(*world.server, test::LoopWorld::server_address(),
                                              service, options);
            int outcome = 0;
            auto xprt = *xprtrdma::Transport::create(
                *world.client, test::LoopWorld::server_address(), Pair::client_defaults(),
                [](void* arg, Result<void> how) noexcept {
                    *static_cast<int*>(arg) = how ? 1 : -1;
                },
                &outcome);
            ASSERT_TRUE(world.run_until([&] { return outcome != 0; }));
            Chain chain;
            chain.xprt = xprt.get();
            chain.memory = *xprt->get_payload(1 << 20);
            chain.item = item;
            chain.room = item == 0 ? (1 << 20) - 3 : 0;
            chain.next();
            ASSERT_TRUE(world.run_until([&] { return chain.done >= 50; }));
            const std::uint64_t bells = listener->io_counters().doorbells, calls = service.calls;
            const std::uint64_t keys = xprt->counters().keys_bound;
            test::AllocCounter heap;
            chain.until = chain.done + 100;
            EXPECT_TRUE(world.loop->run_until(
                [](void* arg) {
                    const auto& c = *static_cast<Chain*>(arg);
                    return c.done >= c.until || c.failed > 0;
                },
                &chain, 10 * kNsPerSec));
            const std::uint64_t allocations = heap.count();
            EXPECT_EQ(allocations, 0u) << item;
            EXPECT_EQ(chain.failed, 0u);
            const std::uint64_t answered = service.calls - calls;
            // A READ chain and a SEND, or WRITEs and SEND together.
            EXPECT_LE(listener->io_counters().doorbells - bells, answered * (item == 0 ? 1 : 2));
            EXPECT_EQ(xprt->counters().local_invalidations, 0u);
            EXPECT_LE(xprt->counters().keys_bound - keys, answered + 1);
            EXPECT_EQ(listener->counters().payload_copied_bytes, 0u);
            xprt->close();
            chain.memory.reset();
            listener->shut_down(0);
            EXPECT_TRUE(world.run_until([&] { return xprt->idle() && listener->idle(); }));
            xprt.reset();
        }
    }
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
