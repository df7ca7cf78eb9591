#include "svcrdma/pull_plan.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::svcrdma {
namespace {

using rpcrdma::ParsedHeader;
using rpcrdma::Proc;

constexpr std::uint32_t kRunMax = 1 << 20;

// A header with Read chunks {position, segment lengths}.
struct Spec {
    std::uint32_t position;
    std::vector<std::uint32_t> lengths;
};

ParsedHeader header(Proc proc, const std::vector<Spec>& chunks) {
    ParsedHeader h;
    h.proc = proc;
    const auto append = [&](const Spec& spec) {
        rpcrdma::Chunk& chunk = h.chunks[h.chunk_count];
        chunk = {spec.position, 0, static_cast<std::uint16_t>(h.segment_count), 0};
        for (const std::uint32_t length : spec.lengths) {
            h.segments[h.segment_count] = {h.segment_count + 1, length,
                                           0x1000ull * (h.segment_count + 1)};
            ++h.segment_count;
            ++chunk.count;
            chunk.length += length;
        }
        ++h.chunk_count;
    };
    for (const Spec& spec : chunks) {
        if (spec.position == 0) continue;
        append(spec);
        ++h.read.count;
    }
    for (const Spec& spec : chunks) {
        if (spec.position != 0) continue;
        h.call = {static_cast<std::uint16_t>(h.chunk_count), 1};
        append(spec);
    }
    return h;
}

std::vector<Move> moves(const PullPlan& plan) {
    return {plan.all().begin(), plan.all().end()};
}

TEST(PullPlan, NothingToPull) {
    auto plan = make_pull_plan(header(Proc::msg, {}), 40, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout, Layout::inline_only);
}

TEST(PullPlan, OneChunkBecomesTheItem) {
    auto plan = make_pull_plan(header(Proc::msg, {{24, {100, 50}}}), 40, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout, Layout::item);
    EXPECT_EQ(plan->run_bytes, 150u);
    EXPECT_EQ(plan->item_position, 24u);
    EXPECT_EQ(moves(*plan), (std::vector<Move>{{0, 0, 150, 0}}));
}

TEST(PullPlan, AChunkAtTheVeryEndOfTheCall) {
    EXPECT_TRUE(make_pull_plan(header(Proc::msg, {{40, {4}}}), 40, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {{44, {4}}}), 40, kRunMax));
}

TEST(PullPlan, ZeroLengthChunkIsNoChunk) {
    auto plan = make_pull_plan(header(Proc::msg, {{24, {0, 0}}}), 40, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout, Layout::inline_only);
    EXPECT_EQ(plan->run_bytes, 0u);
}

TEST(PullPlan, LongCallIsTheWholeMessage) {
    auto plan = make_pull_plan(header(Proc::nomsg, {{0, {5000}}}), 0, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout, Layout::whole);
    EXPECT_EQ(plan->message_bytes, 5000u);
}

TEST(PullPlan, LongCallWithItemKeepsTheItemOnItsOwnPages) {
    auto plan = make_pull_plan(header(Proc::nomsg, {{0, {5000}}, {64, {777}}}), 0, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout, Layout::whole_item);
    EXPECT_EQ(plan->item_dest, 8192u);
    EXPECT_EQ(plan->run_bytes, 8192u + 777u);
    EXPECT_EQ(moves(*plan), (std::vector<Move>{{1, 0, 5000, 0}, {0, 0, 777, 8192}}));
}

TEST(PullPlan, TwoChunksAreMergedWithTheirPads) {
    // inline 40 bytes: 20, chunk of 7 (+1), 8 more, chunk of 12, the rest.
    auto plan = make_pull_plan(header(Proc::msg, {{20, {7}}, {36, {12}}}), 40, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->layout, Layout::merged);
    EXPECT_EQ(plan->message_bytes, 40u + 8u + 12u);
    EXPECT_EQ(moves(*plan), (std::vector<Move>{{Move::kInline, 0, 20, 0},
                                               {0, 0, 7, 20},
                                               {Move::kInline, 20, 8, 28},
                                               {1, 0, 12, 36},
                                               {Move::kInline, 28, 12, 48}}));
}

TEST(PullPlan, LongCallWithTwoChunksIsCutApart) {
    auto plan =
        make_pull_plan(header(Proc::nomsg, {{0, {30, 30}}, {20, {8}}, {40, {4}}}), 0, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->message_bytes, 72u);
    EXPECT_EQ(moves(*plan),
              (std::vector<Move>{
                  {2, 0, 20, 0}, {0, 0, 8, 20}, {2, 20, 12, 28}, {1, 0, 4, 40}, {2, 32, 28, 44}}));
}

TEST(PullPlan, AdjacentChunksNeedNothingBetween) {
    auto plan = make_pull_plan(header(Proc::msg, {{20, {8}}, {28, {8}}}), 40, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->move_count, 4u);
}

TEST(PullPlan, B15PositionsThatOverlapAreNotJoined) {
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {{20, {8}}, {24, {8}}}), 40, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {{28, {8}}, {20, {8}}}), 40, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {{20, {8}}, {80, {8}}}), 40, kRunMax));
}

TEST(PullPlan, NomsgNeedsACallAndMsgMustNotHaveOne) {
    EXPECT_FALSE(make_pull_plan(header(Proc::nomsg, {}), 0, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::nomsg, {{0, {0}}}), 0, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {{0, {100}}}), 40, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {}), 0, kRunMax));
}

TEST(PullPlan, NothingLargerThanARun) {
    EXPECT_TRUE(make_pull_plan(header(Proc::msg, {{20, {kRunMax}}}), 40, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, {{20, {kRunMax, 1}}}), 40, kRunMax));
    EXPECT_FALSE(make_pull_plan(header(Proc::nomsg, {{0, {kRunMax + 1}}}), 0, kRunMax));
    EXPECT_FALSE(make_pull_plan(
        header(Proc::msg, {{20, {kRunMax / 2}}, {20 + kRunMax / 2, {kRunMax / 2}}}), 40, kRunMax));
    EXPECT_FALSE(
        make_pull_plan(header(Proc::msg, {{20, {8}}, {0xFFFFFFF0, {0x1000}}}), 40, kRunMax));
}

TEST(PullPlan, MoreChunksThanOneCallMayHave) {
    std::vector<Spec> specs;
    for (std::uint32_t i = 0; i < kReadChunksMax; ++i)
        specs.push_back({4 + 8 * i, {4}});
    auto plan = make_pull_plan(header(Proc::msg, specs), 1000, kRunMax);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->move_count, kMovesMax);
    specs.push_back({4 + 8 * kReadChunksMax, {4}});
    EXPECT_FALSE(make_pull_plan(header(Proc::msg, specs), 1000, kRunMax));
}

TEST(PullBatch, SixteenSegmentsAtATime) {
    const ParsedHeader h = header(Proc::msg, {{20, std::vector<std::uint32_t>(40, 100)}});
    auto plan = make_pull_plan(h, 40, kRunMax);
    ASSERT_TRUE(plan);
    PullCursor cursor;
    std::vector<std::uint32_t> counts;
    std::uint32_t bytes = 0;
    for (;;) {
        const PullBatch batch = next_pull_batch(h, *plan, cursor);
        if (batch.count == 0) break;
        EXPECT_EQ(batch.dest, bytes);
        bytes += batch.bytes;
        counts.push_back(batch.count);
    }
    EXPECT_EQ(counts, (std::vector<std::uint32_t>{16, 16, 8}));
    EXPECT_EQ(bytes, 4000u);
}

TEST(PullBatch, PiecesOfTheCallChunkStartInsideSegments) {
    const ParsedHeader h = header(Proc::nomsg, {{0, {30, 30}}, {20, {8}}, {40, {4}}});
    auto plan = make_pull_plan(h, 0, kRunMax);
    ASSERT_TRUE(plan);
    PullCursor cursor;
    (void)next_pull_batch(h, *plan, cursor);
    (void)next_pull_batch(h, *plan, cursor);
    const PullBatch batch =
        next_pull_batch(h, *plan, cursor);  // 12 bytes at 20: 10 of one segment, 2 of the next
    ASSERT_EQ(batch.count, 2u);
    EXPECT_EQ(batch.from[0].length, 10u);
    EXPECT_EQ(batch.from[0].offset, h.segments[h.chunks[2].first].offset + 20);
    EXPECT_EQ(batch.from[1].length, 2u);
    EXPECT_EQ(batch.from[1].offset, h.segments[h.chunks[2].first + 1u].offset);
}

TEST(PullBatch, EmptySegmentsAreSkipped) {
    const ParsedHeader h = header(Proc::msg, {{20, {0, 10, 0, 10, 0}}});
    auto plan = make_pull_plan(h, 40, kRunMax);
    ASSERT_TRUE(plan);
    PullCursor cursor;
    const PullBatch batch = next_pull_batch(h, *plan, cursor);
    EXPECT_EQ(batch.count, 2u);
    EXPECT_EQ(next_pull_batch(h, *plan, cursor).count, 0u);
}

TEST(B18, PadIsTakenOffByTheLengthWord) {
    for (std::uint32_t n = 1; n < 10; ++n) {
        EXPECT_EQ(item_without_pad((n + 3) & ~3u, n), n);
        EXPECT_EQ(item_without_pad(n, n), n);
    }
    EXPECT_EQ(item_without_pad(8, 3), 8u);  // not a pad
    EXPECT_EQ(item_without_pad(8, 9), 8u);
    EXPECT_EQ(item_without_pad(7, 6), 7u);
    EXPECT_EQ(item_without_pad(8, 0xFFFFFFFF), 8u);
}

}  // namespace
}  // namespace nfsrdma::svcrdma
