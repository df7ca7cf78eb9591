#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

class WriteChunks : public ::testing::TestWithParam<pools::LocalStrategy> {
  protected:
    static ServerOptions options() {
        ServerOptions o = defaults();
        o.local = GetParam();
        return o;
    }
};

// The chunk holds the item, and 0xCC behind it.
void expect_placed(const Exposed& memory, std::uint32_t size) {
    Bytes expected = TestService::item(size);
    const Bytes content = memory.content();
    expected.resize(content.size(), std::byte{0xCC});
    EXPECT_EQ(content, expected);
}

TEST_P(WriteChunks, ItemIsPushedExactly) {
    SvcWorld w(options());
    auto conn = w.connect();
    std::uint32_t xid = 0;
    for (const std::uint32_t size : {1u, 2u, 3u, 4u, 1023u, 4096u, 4097u, 100001u, 1u << 20}) {
        for (const std::uint32_t segments : {1u, 2u, 16u, 17u, 40u}) {
            SCOPED_TRACE(::testing::Message() << size << " bytes into " << segments << " segments");
            Exposed memory(*conn, Bytes(size + 100, std::byte{0xCC}));
            ++xid;
            const Reply reply = w.call(*conn, {.xid = xid,
                                               .write = {memory.split(segments)},
                                               .message = message(xid, Op::read, size)});
            ASSERT_EQ(reply.header.proc, rpcrdma::Proc::msg);
            ASSERT_EQ(reply.header.write.count, 1u);
            EXPECT_EQ(reply.written(), size);
            EXPECT_EQ(reply.header.chunks_of(reply.header.write)[0].count, segments);
            EXPECT_EQ(reply.body, Words().u32(xid).u32(1).u32(size).u32(kTail).take());
            expect_placed(memory, size);
        }
    }
    EXPECT_EQ(w.counters().write_chunk_replies, xid);
    EXPECT_EQ(w.counters().payload_copied_bytes, 0u);
    if (GetParam() == pools::LocalStrategy::key) {
        EXPECT_GE(w.listener->io_counters().keyed_pushes, xid);
    }
}

TEST_P(WriteChunks, LongReply) {
    SvcWorld w(options());
    auto conn = w.connect();
    std::uint32_t xid = 0;
    for (const std::uint32_t size : {5000u, 4097u, 65536u}) {
        for (const std::uint32_t segments : {1u, 3u, 30u}) {
            Exposed memory(*conn, Bytes(70000, std::byte{0xCC}));
            ++xid;
            const Reply reply = w.call(*conn, {.xid = xid,
                                               .reply = memory.split(segments),
                                               .message = message(xid, Op::big, size)});
            ASSERT_EQ(reply.header.proc, rpcrdma::Proc::nomsg);
            EXPECT_EQ(reply.header.chunks_of(reply.header.reply)[0].length, size);
            EXPECT_TRUE(reply.body.empty());
            Bytes expected = TestService::item(size);
            store_be32(&expected[0], xid);
            store_be32(&expected[4], 1);
            expected.resize(70000, std::byte{0xCC});
            EXPECT_EQ(memory.content(), expected);
        }
    }
    EXPECT_EQ(w.counters().long_replies, xid);
}

TEST_P(WriteChunks, ItemWithinALongReply) {
    SvcWorld w(options());
    auto conn = w.connect();
    for (const std::uint32_t size : {5001u, 100003u}) {
        Exposed memory(*conn, Bytes(120000, std::byte{0xCC}));
        const Reply reply = w.call(*conn, {.xid = size,
                                           .reply = memory.split(7),
                                           .message = message(size, Op::read_inline, size)});
        ASSERT_EQ(reply.header.proc, rpcrdma::Proc::nomsg);
        Bytes expected = plus(Words().u32(size).u32(1).u32(size).take(), TestService::item(size));
        expected.resize(align_up(expected.size(), std::size_t{4}));
        expected = plus(expected, Words().u32(kTail).take());
        EXPECT_EQ(reply.header.chunks_of(reply.header.reply)[0].length, expected.size());
        expected.resize(120000, std::byte{0xCC});
        EXPECT_EQ(memory.content(), expected);
    }
}

TEST_P(WriteChunks, WriteAndReplyChunkTogether) {
    SvcWorld w(options());
    test::RawOptions raw = plain();
    raw.private_data = false;
    auto conn = w.connect(raw);
    Exposed memory(*conn, Bytes(10000, std::byte{0xCC}));
    // A header of 60 segments leaves the reply no room inline.
    const Reply reply = w.call(*conn, {.xid = 1,
                                       .write = {memory.split(3)},
                                       .reply = std::vector<Segment>(1, memory.part(0, 0)),
                                       .message = message(1, Op::read, 10000)});
    ASSERT_EQ(reply.header.proc, rpcrdma::Proc::msg);
    expect_placed(memory, 10000);
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
INSTANTIATE_TEST_SUITE_P(Local, WriteChunks,
                         ::testing::Values(pools::LocalStrategy::automatic,
                                           pools::LocalStrategy::scatter_gather,
                                           pools::LocalStrategy::key),
                         strategy_name);

TEST(WriteChunk, OthersAreReturnedUnused) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed first(*conn, Bytes(5000, std::byte{0xCC})), second(*conn, Bytes(5000, std::byte{0xCC}));
    const Reply reply = w.call(*conn, {.xid = 1,
                                       .write = {first.split(2), second.split(3)},
                                       .message = message(1, Op::read, 4000)});
    ASSERT_EQ(reply.header.write.count, 2u);
    EXPECT_EQ(reply.written(0), 4000u);
    EXPECT_EQ(reply.written(1), 0u);
    EXPECT_EQ(reply.header.chunks_of(reply.header.write)[1].count, 3u);
    expect_placed(first, 4000);
    expect_placed(second, 0);
}

TEST(B08, UnusedWriteChunkComesBackEmpty) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(5000, std::byte{0xCC}));
    for (std::uint32_t xid = 1; xid < 100; ++xid) {
        const Reply reply = w.call(
            *conn, {.xid = xid, .write = {memory.split(2)}, .message = message(xid, Op::null)});
        EXPECT_EQ(reply.written(), 0u);
    }
    expect_placed(memory, 0);
}

TEST(WriteChunk, EmptyItem) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(100, std::byte{0xCC}));
    const Reply reply =
        w.call(*conn, {.xid = 1, .write = {memory.split(1)}, .message = message(1, Op::read, 0)});
    EXPECT_EQ(reply.written(), 0u);
    EXPECT_EQ(reply.body.size(), 16u);
}

TEST(B10, WriteChunkTooSmallIsAnErrorOfThatCallOnly) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(4096, std::byte{0xCC}));
    const Reply reply = w.call(
        *conn, {.xid = 77, .write = {memory.split(1)}, .message = message(77, Op::read, 8192)});
    EXPECT_EQ(reply.header.xid, 77u);
    EXPECT_TRUE(reply.is_error(rpcrdma::ErrorCode::chunk));
    expect_placed(memory, 0);
    w.expect_alive(*conn);
}

TEST(B10, ReplyChunkTooSmallIsAnErrorOfThatCallOnly) {
    SvcWorld w;
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(512, std::byte{0xCC}));
    EXPECT_TRUE(
        w.call(*conn, {.xid = 78, .reply = memory.split(1), .message = message(78, Op::big, 8192)})
            .is_error(rpcrdma::ErrorCode::chunk));
    EXPECT_TRUE(w.call(*conn, {.xid = 79, .message = message(79, Op::big, 8192)})
                    .is_error(rpcrdma::ErrorCode::chunk));
    expect_placed(memory, 0);
    w.expect_alive(*conn);
    EXPECT_EQ(w.counters().err_chunk, 2u);
}

TEST(B09, LongRepliesAtAnInlineLimitOf1024) {
    SvcWorld w;
    test::RawOptions raw = plain();
    raw.private_data = false;
    auto conn = w.connect(raw);
    for (std::uint32_t size = 950; size < 1050; ++size) {
        Exposed memory(*conn, Bytes(4096, std::byte{0xCC}));
        const Reply reply = w.call(
            *conn,
            {.xid = size, .reply = memory.split(1), .message = message(size, Op::big, size)});
        const bool fits = size + 48 <= 1024;
        EXPECT_EQ(reply.header.proc, fits ? rpcrdma::Proc::msg : rpcrdma::Proc::nomsg);
        EXPECT_EQ(reply.body.size(), fits ? size : 0u);
    }
}

TEST(WriteChunk, MoreSegmentsThanTheSendQueueHolds) {
    ServerOptions options = defaults();
    options.demand.credits = 1;
    SvcWorld w(options);
    auto conn = w.connect();
    Exposed memory(*conn, Bytes(1000, std::byte{0xCC}));
    const Reply reply = w.call(
        *conn, {.xid = 5, .write = {memory.split(170)}, .message = message(5, Op::read, 1000)});
    EXPECT_TRUE(reply.is_error(rpcrdma::ErrorCode::chunk));
    w.expect_alive(*conn);
}

TEST(WriteChunk, LongestReplyWithAKeyForEveryPush) {
    ServerOptions options = defaults();
    options.local = pools::LocalStrategy::key;
    options.demand.credits = 16;
    SvcWorld w(options);
    auto conn = w.connect();
    std::vector<std::unique_ptr<Exposed>> memory;
    for (std::uint32_t xid = 1; xid <= 16; ++xid) {
        memory.push_back(std::make_unique<Exposed>(*conn, Bytes(20000)));
        conn->send(Call{.xid = xid,
                        .credits = 16,
                        .reply = memory.back()->split(170),
                        .message = message(xid, Op::read_inline, 19001)}
                       .bytes());
    }
    for (std::uint32_t xid = 1; xid <= 16; ++xid)
        EXPECT_EQ(w.next(*conn).header.proc, rpcrdma::Proc::nomsg);
}

TEST(WriteChunk, KeyThatIsNotTheirsEndsTheConnectionAndNoOther) {
    SvcWorld w;
    auto conn = w.connect();
    auto other = w.connect();
    conn->send(
        Call{.xid = 1, .write = {{{0xDEADBEEF, 4096, 0}}}, .message = message(1, Op::read, 4096)}
            .bytes());
    EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 1; }));
    w.expect_alive(*other);
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
