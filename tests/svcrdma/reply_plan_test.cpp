#include "svcrdma/reply_plan.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::svcrdma {
namespace {

struct Memory {
    std::vector<std::byte> bytes = std::vector<std::byte>(1 << 20);
    std::span<std::byte> at(std::size_t offset, std::size_t size) {
        return std::span(bytes).subspan(offset, size);
    }
    sunrpc::XdrBuf res(std::size_t head, std::size_t payload, std::size_t tail) {
        return {at(0, head), at(4096, payload), at(head, tail)};
    }
};

rpcrdma::ParsedHeader offered(const std::vector<std::uint32_t>& write,
                              const std::vector<std::uint32_t>& reply) {
    rpcrdma::ParsedHeader h;
    const auto add = [&](const std::vector<std::uint32_t>& lengths, rpcrdma::Pcl& list) {
        list = {static_cast<std::uint16_t>(h.chunk_count), 1};
        rpcrdma::Chunk& chunk = h.chunks[h.chunk_count++];
        chunk = {0, 0, static_cast<std::uint16_t>(h.segment_count),
                 static_cast<std::uint16_t>(lengths.size())};
        for (const std::uint32_t length : lengths) {
            h.segments[h.segment_count++] = {7, length, 0};
            chunk.length += length;
        }
    };
    if (!write.empty()) add(write, h.write);
    if (!reply.empty()) add(reply, h.reply);
    return h;
}

TEST(ReplyPlan, SmallReplyGoesInline) {
    Memory m;
    auto plan = plan_reply(offered({}, {}), m.res(100, 0, 0), false, 1024);
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->placed || plan->long_reply);
    EXPECT_EQ(plan->header_bytes, 28u);
    EXPECT_EQ(plan->message_bytes, 100u);
}

TEST(ReplyPlan, ItemGoesToTheWriteChunkWithoutPad) {
    Memory m;
    auto plan = plan_reply(offered({1000}, {}), m.res(100, 999, 8), true, 1024);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->placed);
    EXPECT_EQ(plan->message_bytes, 108u);
    EXPECT_EQ(plan->header_bytes, 28u + 8u + 16u);
}

TEST(ReplyPlan, B10WriteChunkOneByteTooSmall) {
    Memory m;
    EXPECT_FALSE(plan_reply(offered({998}, {}), m.res(100, 999, 8), true, 1024));
    EXPECT_TRUE(plan_reply(offered({500, 499}, {}), m.res(100, 999, 8), true, 1024));
}

TEST(ReplyPlan, ItemThatIsNotDdpEligibleStaysInTheMessage) {
    Memory m;
    auto plan = plan_reply(offered({1000}, {}), m.res(100, 99, 8), false, 1024);
    ASSERT_TRUE(plan);
    EXPECT_FALSE(plan->placed);
    EXPECT_EQ(plan->message_bytes, 100u + 99u + 1u + 8u);
}

TEST(ReplyPlan, InlineLimitToTheByte) {
    Memory m;
    EXPECT_TRUE(plan_reply(offered({}, {}), m.res(1024 - 28, 0, 0), false, 1024));
    EXPECT_FALSE(plan_reply(offered({}, {}), m.res(1024 - 27, 0, 0), false, 1024));
}

TEST(ReplyPlan, ReplyChunkOnlyForWhatDoesNotFitInline) {
    Memory m;
    const auto call = offered({}, {4000});
    auto small = plan_reply(call, m.res(500, 0, 0), false, 1024);
    ASSERT_TRUE(small);
    EXPECT_FALSE(small->long_reply);
    auto large = plan_reply(call, m.res(4000, 0, 0), false, 1024);
    ASSERT_TRUE(large);
    EXPECT_TRUE(large->long_reply);
    EXPECT_FALSE(plan_reply(call, m.res(4001, 0, 0), false, 1024));
}

TEST(ReplyPlan, WriteAndReplyChunkTogether) {
    Memory m;
    auto plan = plan_reply(offered({8192}, {4000}), m.res(3000, 8000, 8), true, 1024);
    ASSERT_TRUE(plan);
    EXPECT_TRUE(plan->placed);
    EXPECT_TRUE(plan->long_reply);
    EXPECT_EQ(plan->message_bytes, 3008u);
}

TEST(ReplyPlan, HeaderThatDoesNotFitInlineIsRefused) {
    Memory m;
    EXPECT_FALSE(
        plan_reply(offered(std::vector<std::uint32_t>(70, 8), {}), m.res(8, 0, 0), false, 1024));
}

TEST(MessagePieces, ContiguousPartsAreOne) {
    Memory m;
    std::vector<std::byte> zeros(8);
    const auto res = m.res(100, 30, 8);
    const MessagePieces with = message_pieces(res, false, zeros);
    ASSERT_EQ(with.count, 4u);
    EXPECT_EQ(with.pieces[1].size(), 30u);
    EXPECT_EQ(with.pieces[2].size(), 2u);
    const MessagePieces placed = message_pieces(res, true, zeros);
    ASSERT_EQ(placed.count, 1u);
    EXPECT_EQ(placed.pieces[0].size(), 108u);
}

TEST(SoleKey, OneDistinctKeyInAllLists) {
    auto h = offered({8, 8}, {8});
    EXPECT_EQ(sole_key(h), verbs::Rkey{7});
    h.segments[2].handle = 8;
    EXPECT_EQ(sole_key(h), std::nullopt);
    EXPECT_EQ(sole_key(offered({}, {})), std::nullopt);
}

}  // namespace
}  // namespace nfsrdma::svcrdma
