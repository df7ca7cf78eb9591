#include <gtest/gtest.h>

#include "tests/support/raw_peer.hpp"
#include "xprtrdma/req.hpp"

namespace nfsrdma::xprtrdma {
namespace {

using test::Bytes;
using test::Words;

constexpr rpcrdma::PclLimits kLimits{.max_chunk_bytes = UINT32_MAX, .max_total_bytes = UINT32_MAX};
constexpr rpcrdma::Segment kOffered{.handle = 0x4400, .length = 8192, .offset = 0x10000};

struct Decoded {
    explicit Decoded(const Words& words)
        : frame(words.take()), reply(decode_reply(frame, kLimits, header)) {}
    Bytes frame;
    rpcrdma::ParsedHeader header;
    DecodedReply reply;
};

Words fixed(std::uint32_t proc, std::uint32_t xid = 7, std::uint32_t credits = 16) {
    return Words().u32(xid).u32(1).u32(credits).u32(proc);
}
Words no_lists(Words words) {
    return words.u32(0).u32(0).u32(0);
}
Words rpc_reply(Words words, std::uint32_t xid = 7) {
    return words.u32(xid).u32(1).u32(0).u32(0).u32(0).u32(0);
}

TEST(DecodeReply, InlineMessageBeginsBehindTheHeader) {
    Decoded d(rpc_reply(no_lists(fixed(0))));
    EXPECT_EQ(d.reply.kind, ReplyKind::reply);
    EXPECT_EQ(d.reply.xid, 7u);
    EXPECT_EQ(d.reply.credits, 16u);
    EXPECT_FALSE(d.reply.malformed);
    EXPECT_EQ(d.reply.message.size(), 24u);
}

TEST(DecodeReply, ShorterThanItsFixedPartIsDropped) {
    for (std::size_t size = 0; size < 16; ++size) {
        Bytes frame(size);
        rpcrdma::ParsedHeader header;
        EXPECT_EQ(decode_reply(frame, kLimits, header).kind, ReplyKind::too_short);
    }
}

TEST(DecodeReply, EveryTruncationIsATypedAnswer) {
    const Bytes whole =
        rpc_reply(fixed(0).u32(0).u32(1).u32(1).segment(kOffered).u32(0).u32(0)).take();
    for (std::size_t size = 16; size < 60; ++size) {
        Bytes frame(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
        rpcrdma::ParsedHeader header;
        const DecodedReply reply = decode_reply(frame, kLimits, header);
        EXPECT_EQ(reply.xid, 7u);
        if (size < 52) {
            EXPECT_TRUE(reply.malformed || reply.kind == ReplyKind::not_a_reply) << size;
        }
    }
}

TEST(DecodeReply, OtherVersionIsDropped) {
    Decoded d(rpc_reply(no_lists(Words().u32(7).u32(2).u32(16).u32(0))));
    EXPECT_EQ(d.reply.kind, ReplyKind::bad_version);
}

TEST(DecodeReply, DoneAndBackwardCallsAreNotReplies) {
    EXPECT_EQ(Decoded(no_lists(fixed(3))).reply.kind, ReplyKind::not_a_reply);
    EXPECT_EQ(Decoded(no_lists(fixed(0)).u32(7).u32(0).u32(2)).reply.kind, ReplyKind::not_a_reply);
}

TEST(DecodeReply, UnknownProcedureIsMalformed) {
    EXPECT_TRUE(Decoded(no_lists(fixed(5))).reply.malformed);
    EXPECT_TRUE(Decoded(no_lists(fixed(2))).reply.malformed);
}

TEST(DecodeReply, AnyBytesAreATypedAnswer) {
    for (std::uint64_t seed = 0; seed < 3000; ++seed) {
        Bytes frame = test::pattern(seed % 200, seed);
        if (frame.size() >= 16 && seed % 2 == 0) {
            store_be32(frame.data() + 4, 1);
            store_be32(frame.data() + 12, static_cast<std::uint32_t>(seed % 6));
        }
        rpcrdma::ParsedHeader header;
        (void)decode_reply(frame, kLimits, header);
    }
}

// A call that offered a Write chunk of 8192 bytes.
struct PlaceReply : testing::Test {
    PlaceReply() {
        req.xid = 7;
        req.result_room = room;
        req.chunks.write.segments[0] = kOffered;
        req.chunks.write.count = 1;
    }
    ReplyFault place(const Words& words) {
        decoded.emplace(words);
        return place_reply(req, decoded->reply, decoded->header);
    }
    Words with_write(std::uint32_t length, std::uint32_t handle = kOffered.handle) {
        return rpc_reply(
            fixed(0)
                .u32(0)
                .u32(1)
                .u32(1)
                .segment({.handle = handle, .length = length, .offset = kOffered.offset})
                .u32(0)
                .u32(0));
    }
    Bytes room = Bytes(8192);
    Req req;
    std::optional<Decoded> decoded;
};

TEST_F(PlaceReply, B07_ShortReadReportsReturnedLength) {
    ASSERT_EQ(place(with_write(100)), ReplyFault::none);
    EXPECT_EQ(req.reply.payload.size(), 100u);
    EXPECT_EQ(req.reply.payload.data(), room.data());
    EXPECT_EQ(req.reply.head.size(), 24u);
}

TEST_F(PlaceReply, B08_UnusedWriteChunkIsAnEmptyPayload) {
    ASSERT_EQ(place(with_write(0)), ReplyFault::none);
    EXPECT_TRUE(req.reply.payload.empty());
}

TEST_F(PlaceReply, MoreThanOfferedIsMalformed) {
    EXPECT_EQ(place(with_write(8193)), ReplyFault::malformed);
}

TEST_F(PlaceReply, AnotherHandleIsMalformed) {
    EXPECT_EQ(place(with_write(100, 0x9999)), ReplyFault::malformed);
}

TEST_F(PlaceReply, ReplyChunkThatWasNotOfferedIsMalformed) {
    EXPECT_EQ(place(fixed(1).u32(0).u32(0).u32(1).u32(1).segment(kOffered)), ReplyFault::malformed);
}

TEST_F(PlaceReply, NomsgWithoutAReplyChunkIsMalformed) {
    EXPECT_EQ(place(no_lists(fixed(1))), ReplyFault::malformed);
}

TEST_F(PlaceReply, ReadListInAReplyIsMalformed) {
    EXPECT_EQ(place(rpc_reply(fixed(0).u32(1).u32(4).segment(kOffered).u32(0).u32(0).u32(0))),
              ReplyFault::malformed);
}

TEST_F(PlaceReply, MessageOfAnotherXidOrNoneIsMalformed) {
    EXPECT_EQ(place(rpc_reply(fixed(0).u32(0).u32(1).u32(1).segment(kOffered).u32(0).u32(0), 8)),
              ReplyFault::malformed);
    EXPECT_EQ(place(fixed(0).u32(0).u32(1).u32(1).segment(kOffered).u32(0).u32(0)),
              ReplyFault::malformed);
}

TEST_F(PlaceReply, ErrorsAreToldApart) {
    EXPECT_EQ(place(fixed(4).u32(1).u32(1).u32(1)), ReplyFault::err_vers);
    EXPECT_EQ(place(fixed(4).u32(2)), ReplyFault::err_chunk);
}

}  // namespace
}  // namespace nfsrdma::xprtrdma
