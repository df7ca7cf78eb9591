#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

// {xid, record, length word} | item at 12 | {tail words}: as a client reduces it.
Bytes reduced(std::uint32_t xid, std::uint32_t item_bytes) {
    return plus(message(xid, Op::record, item_bytes), Words().u32(0x11).u32(0x22).take());
}

class ReadChunks : public ::testing::TestWithParam<pools::LocalStrategy> {
  protected:
    static ServerOptions options() {
        ServerOptions o = defaults();
        o.local = GetParam();
        return o;
    }
};

TEST_P(ReadChunks, ItemIsPulledToPayloadMemory) {
    SvcWorld w(options());
    auto conn = w.connect();
    std::uint32_t xid = 0;
    for (const std::uint32_t size :
         {1u, 2u, 3u, 4u, 5u, 1000u, 4095u, 4096u, 4097u, 65537u, 1u << 20}) {
        for (const std::uint32_t segments : {1u, 2u, 3u, 16u, 17u, 64u}) {
            if (segments > size) continue;
            SCOPED_TRACE(::testing::Message() << size << " bytes in " << segments << " segments");
            const Bytes item = pattern(size, size + segments);
            Exposed memory(*conn, item);
            Call call{.xid = ++xid, .message = reduced(xid, size)};
            for (const Segment& s : memory.split(segments))
                call.read.emplace_back(12, s);
            EXPECT_EQ(w.call(*conn, call).header.proc, rpcrdma::Proc::msg);
            ASSERT_EQ(w.service.arguments.size(), xid);
            const auto& arg = w.service.arguments.back();
            EXPECT_EQ(arg.position, 12u);
            EXPECT_EQ(arg.payload, item);
            EXPECT_EQ(arg.head.size(), 12u);
            EXPECT_EQ(arg.tail, Words().u32(0x11).u32(0x22).take());
        }
    }
    if (GetParam() == pools::LocalStrategy::key) {
        EXPECT_GT(w.listener->io_counters().keyed_pulls, 0u);
    }
    if (GetParam() == pools::LocalStrategy::scatter_gather) {
        EXPECT_EQ(w.listener->io_counters().keyed_pulls, 0u);
    }
}

TEST_P(ReadChunks, LongCallWithAndWithoutAnItem) {
    SvcWorld w(options());
    auto conn = w.connect();
    std::uint32_t xid = 0;
    for (const std::uint32_t size : {12u, 4000u, 60000u}) {
        for (const std::uint32_t segments : {1u, 5u}) {
            Bytes long_call = plus(message(++xid, Op::record, 777), pattern(size, 3));
            Exposed call_memory(*conn, long_call);
            Call call{.xid = xid, .proc = 1};
            for (const Segment& s : call_memory.split(segments))
                call.read.emplace_back(0, s);
            (void)w.call(*conn, call);
            ASSERT_EQ(w.service.arguments.size(), xid);
            EXPECT_EQ(w.service.arguments.back().head, long_call);

            const Bytes item = pattern(777, 5);
            Exposed item_memory(*conn, item);
            store_be32(&long_call[0], ++xid);
            Exposed again(*conn, long_call);
            Call both{.xid = xid, .proc = 1};
            for (const Segment& s : again.split(segments))
                both.read.emplace_back(0, s);
            for (const Segment& s : item_memory.split(3))
                both.read.emplace_back(12, s);
            (void)w.call(*conn, both);
            ASSERT_EQ(w.service.arguments.size(), xid);
            const auto& arg = w.service.arguments.back();
            EXPECT_EQ(arg.head.size(), 12u);
            EXPECT_EQ(arg.payload, item);
            EXPECT_EQ(plus(arg.head, arg.tail), long_call);
        }
    }
    EXPECT_EQ(w.counters().long_calls, xid);
}

TEST_P(ReadChunks, SeveralChunksAreMergedInOrder) {
    SvcWorld w(options());
    auto conn = w.connect();
    const Bytes a = pattern(7, 1), b = pattern(5000, 2), c = pattern(32, 3);
    Exposed ma(*conn, a), mb(*conn, b), mc(*conn, c);
    // 12 | a (7 + pad) | 4 | b | c | 4
    const Bytes rest = plus(message(1, Op::record, 7), Words().u32(0x33).u32(0x44).take());
    Bytes whole(rest.begin(), rest.begin() + 12);
    whole = plus(plus(whole, a), Bytes(1));
    whole = plus(whole, Words().u32(0x33).take());
    const std::uint32_t at_b = static_cast<std::uint32_t>(whole.size());
    whole = plus(plus(whole, b), c);
    whole = plus(whole, Words().u32(0x44).take());
    for (const bool inside_call : {false, true}) {
        Call call{.xid = inside_call ? 2u : 1u};
        Exposed base(*conn, rest);
        if (inside_call) {
            call.proc = 1;
            for (const Segment& s : base.split(4))
                call.read.emplace_back(0, s);
        } else {
            call.message = rest;
        }
        call.read.emplace_back(12, ma.all());
        for (const Segment& s : mb.split(20))
            call.read.emplace_back(at_b, s);
        call.read.emplace_back(at_b + 5000, mc.all());
        (void)w.call(*conn, call);
        ASSERT_EQ(w.service.arguments.size(), call.xid);
        EXPECT_EQ(w.service.arguments.back().head, whole);
        EXPECT_TRUE(w.service.arguments.back().payload.empty());
    }
}

std::string strategy_name(const ::testing::TestParamInfo<pools::LocalStrategy>& info) {
    switch (info.param) {
        case pools::LocalStrategy::automatic:
            return "automatic";
        case pools::LocalStrategy::scatter_gather:
            return "scatter_gather";
        case pools::LocalStrategy::key:
            return "key";
    }
    return "?";
}
INSTANTIATE_TEST_SUITE_P(Local, ReadChunks,
                         ::testing::Values(pools::LocalStrategy::automatic,
                                           pools::LocalStrategy::scatter_gather,
                                           pools::LocalStrategy::key),
                         strategy_name);

TEST(B15, DifferentPositionsAreNeverJoined) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, pattern(64 << 10, 9));
    Call call{.xid = 3, .message = reduced(3, 64 << 10)};
    call.read = {{12, memory.part(0, 32 << 10)}, {16, memory.part(32 << 10, 32 << 10)}};
    EXPECT_TRUE(w.call(*conn, call).is_error(rpcrdma::ErrorCode::chunk));
    EXPECT_TRUE(w.service.arguments.empty());
    w.expect_alive(*conn);
}

TEST(B16, CallLargerThanTheInlineLimit) {
    SvcWorld w;
    test::RawOptions raw = plain();
    raw.private_data = false;  // 1024 B each way
    auto conn = w.connect(raw);
    const Bytes long_call = plus(message(4, Op::record, 4000), pattern(4000, 4));
    Exposed memory(*conn, long_call);
    (void)w.call(*conn, {.xid = 4, .proc = 1, .read = {{0, memory.all()}}});
    ASSERT_EQ(w.service.arguments.size(), 1u);
    EXPECT_EQ(w.service.arguments[0].whole(), long_call);
}

TEST(B18, PadInTheChunkOrNotIsTheSameItem) {
    SvcWorld w;
    auto conn = w.connect();
    std::uint32_t xid = 0;
    for (const std::uint32_t size : {1u, 2u, 3u, 5u, 6u, 7u, 65537u}) {
        for (const bool padded : {false, true}) {
            const Bytes item = pattern(size, size);
            Bytes chunk = item;
            if (padded) chunk.resize(align_up(size, 4u), std::byte{0xEE});
            Exposed memory(*conn, chunk);
            ++xid;
            (void)w.call(*conn,
                         {.xid = xid, .read = {{12, memory.all()}}, .message = reduced(xid, size)});
            ASSERT_EQ(w.service.arguments.size(), xid);
            EXPECT_EQ(w.service.arguments.back().payload, item);
            EXPECT_EQ(w.service.arguments.back().tail.size(), 8u);
        }
    }
}

TEST(B35, FourHundredBytesInlineAndMoreByChunk) {
    SvcWorld w;
    auto conn = w.connect();
    std::uint32_t xid = 0;
    for (const std::uint32_t size : {400u, 1024u, 1025u, 4096u, 1u << 20}) {
        const Bytes item = pattern(size, size);
        ++xid;
        if (size == 400) {
            (void)w.call(*conn,
                         {.xid = xid, .message = plus(message(xid, Op::record, size), item)});
            EXPECT_EQ(w.service.arguments.back().head.size(), 412u);
            continue;
        }
        Exposed memory(*conn, item);
        (void)w.call(*conn,
                     {.xid = xid, .read = {{12, memory.all()}}, .message = reduced(xid, size)});
        EXPECT_EQ(w.service.arguments.back().payload, item);
    }
}

TEST(ReadChunk, EmptyChunkIsAnEmptyItem) {
    SvcWorld w;
    auto conn = w.connect();
    (void)w.call(*conn, {.xid = 1, .read = {{12, {1, 0, 0}}}, .message = reduced(1, 0)});
    ASSERT_EQ(w.service.arguments.size(), 1u);
    EXPECT_EQ(w.service.arguments[0].whole(), reduced(1, 0));
}

TEST(ReadChunk, KeyThatIsNotTheirsEndsTheConnection) {
    SvcWorld w;
    auto conn = w.connect();
    auto other = w.connect();
    conn->send(
        Call{.xid = 1, .read = {{12, {0xDEADBEEF, 4096, 0x1000}}}, .message = reduced(1, 4096)}
            .bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 1; }));
    EXPECT_TRUE(w.service.arguments.empty());
    w.expect_alive(*other);
}

TEST(ReadChunk, ReadsStayWithinTheDepthThatThePeerAllows) {
    test::RawOptions raw = plain();
    raw.read_depth = 2;
    SvcWorld w;
    auto conn = w.connect(raw);
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 8; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*conn, pattern(100000, xid)));
        Call call{.xid = xid, .message = reduced(xid, 100000)};
        for (const Segment& s : memory.back()->split(5))
            call.read.emplace_back(12, s);
        conn->send(call.bytes());
    }
    for (std::uint32_t i = 0; i < 8; ++i)
        EXPECT_EQ(w.next(*conn).header.proc, rpcrdma::Proc::msg);
    ASSERT_EQ(w.service.arguments.size(), 8u);
    for (const auto& arg : w.service.arguments)
        EXPECT_EQ(arg.payload, pattern(100000, arg.xid));
    EXPECT_GT(w.listener->io_counters().waited_for_read_depth, 0u);
}

TEST(ReadChunk, PullsWaitForPayloadMemoryInOrder) {
    ServerOptions options = defaults();
    options.payload_runs = 2;  // one of which arguments leave to results
    options.demand.credits = 16;
    SvcWorld w(options);
    auto conn = w.connect();
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*conn, pattern(200000, xid)));
        conn->send(Call{.xid = xid,
                        .credits = 16,
                        .read = {{12, memory.back()->all()}},
                        .message = reduced(xid, 200000)}
                       .bytes());
    }
    for (std::uint32_t i = 1; i <= 16; ++i)
        EXPECT_EQ(w.next(*conn).header.xid, i);
    EXPECT_GT(w.counters().waited_for_payload, 0u);
    EXPECT_EQ(w.service.arguments.size(), 16u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
