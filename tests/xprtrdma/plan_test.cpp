#include <gtest/gtest.h>

#include "xprtrdma/call.hpp"

namespace nfsrdma::xprtrdma {
namespace {

PlanLimits limits() {
    return {.inline_limits = {.send = 4096, .recv = 4096},
            .min_chunk_bytes = 2048,
            .max_payload = 1 << 20,
            .max_message = 64 << 10,
            .send_sges = 5};
}

struct Case {
    const char* name;
    CallSizes sizes;
    ArgsType args;
    ResultType results;
    std::uint32_t reply_room;
};

class PlanTable : public testing::TestWithParam<Case> {};

TEST_P(PlanTable, Holds) {
    const Case& c = GetParam();
    auto plan = plan_transfer(c.sizes, limits());
    ASSERT_TRUE(static_cast<bool>(plan));
    EXPECT_EQ(plan->args, c.args) << to_string(plan->args);
    EXPECT_EQ(plan->results, c.results) << to_string(plan->results);
    EXPECT_EQ(plan->reply_room, c.reply_room);
}

// 28 bytes of header, 4096 inline: 4068 bytes of message are the edge; 24 fewer for a read segment
// or a Write chunk.
constexpr Case kCases[] = {
    {"Null", {.head = 40, .reply_max = 24}, ArgsType::in_line, ResultType::in_line, 0},
    {"CallFillsInline", {.head = 4068, .reply_max = 24}, ArgsType::in_line, ResultType::in_line, 0},
    {"CallOverInlineIsLong",
     {.head = 4072, .reply_max = 24},
     ArgsType::position_zero,
     ResultType::in_line,
     0},
    {"SmallWriteInline",
     {.head = 120, .payload = 2047, .reply_max = 200},
     ArgsType::in_line,
     ResultType::in_line,
     0},
    {"WriteAtMinChunkByReadChunk",
     {.head = 120, .payload = 2048, .reply_max = 200},
     ArgsType::read,
     ResultType::in_line,
     0},
    {"LargeWriteByReadChunk",
     {.head = 120, .payload = 1 << 20, .reply_max = 200},
     ArgsType::read,
     ResultType::in_line,
     0},
    {"SmallPayloadThatDoesNotFitBesideItsHead",
     {.head = 2100, .payload = 2000, .reply_max = 200},
     ArgsType::read,
     ResultType::in_line,
     0},
    {"LongHeadWithPayload",
     {.head = 4048, .payload = 3000, .reply_max = 24},
     ArgsType::position_zero_and_read,
     ResultType::in_line,
     0},
    {"HeadThatJustFitsBesideAReadChunk",
     {.head = 4044, .payload = 3000, .reply_max = 24},
     ArgsType::read,
     ResultType::in_line,
     0},
    {"IrreducibleSmallPayloadInline",
     {.head = 120, .payload = 3000, .reply_max = 24, .ddp_allowed = false},
     ArgsType::in_line,
     ResultType::in_line,
     0},
    {"IrreduciblePayloadMakesALongCall",
     {.head = 120, .payload = 9001, .reply_max = 24, .ddp_allowed = false},
     ArgsType::position_zero,
     ResultType::in_line,
     0},
    {"ReplyFillsInline",
     {.head = 40, .reply_max = 4068},
     ArgsType::in_line,
     ResultType::in_line,
     0},
    {"B09.ReplyOverInlineOffersReplyChunk",
     {.head = 40, .reply_max = 4069},
     ArgsType::in_line,
     ResultType::reply,
     4072},
    {"SmallReadInline",
     {.head = 120, .reply_max = 128, .result_room = 2047},
     ArgsType::in_line,
     ResultType::in_line,
     0},
    {"ReadAtMinChunkUsesWriteChunk",
     {.head = 120, .reply_max = 128, .result_room = 2048},
     ArgsType::in_line,
     ResultType::write,
     0},
    {"ReadOverInlineUsesWriteChunk",
     {.head = 120, .reply_max = 128, .result_room = 1 << 20},
     ArgsType::in_line,
     ResultType::write,
     0},
    {"SmallReadThatDoesNotFitUsesWriteChunk",
     {.head = 120, .reply_max = 4000, .result_room = 100},
     ArgsType::in_line,
     ResultType::write,
     0},
    {"RestJustFitsBesideAWriteChunk",
     {.head = 120, .reply_max = 4044, .result_room = 8192},
     ArgsType::in_line,
     ResultType::write,
     0},
    {"WriteAndReplyTogether",
     {.head = 120, .reply_max = 4045, .result_room = 8192},
     ArgsType::in_line,
     ResultType::write_and_reply,
     4048},
    {"IrreducibleResultByReplyChunk",
     {.head = 120, .reply_max = 128, .result_room = 9001, .ddp_allowed = false},
     ArgsType::in_line,
     ResultType::reply,
     9132},
    {"BothWays",
     {.head = 200, .payload = 65536, .reply_max = 5000, .result_room = 65536},
     ArgsType::read,
     ResultType::write_and_reply,
     5000},
    {"CallThatFitsOnlyWithoutAReplyChunkIsLong",
     {.head = 4060, .reply_max = 5000},
     ArgsType::position_zero,
     ResultType::reply,
     5000},
};

INSTANTIATE_TEST_SUITE_P(Plan, PlanTable, testing::ValuesIn(kCases), [](const auto& tested) {
    std::string name = tested.param.name;
    for (char& c : name)
        c = c == '.' ? '_' : c;
    return name;
});

TEST(Plan, SmallerInlineThresholdMakesChunksOfTheSameCall) {
    PlanLimits small = limits();
    small.inline_limits = {.send = 1024, .recv = 1024};
    auto plan = plan_transfer({.head = 1000, .reply_max = 1000}, small);
    ASSERT_TRUE(static_cast<bool>(plan));
    EXPECT_EQ(*plan, (TransferPlan{ArgsType::position_zero, ResultType::reply, 1000}));
}

TEST(Plan, FewSgesTakeAReadChunkInsteadOfGathering) {
    PlanLimits few = limits();
    few.send_sges = 2;
    auto whole = plan_transfer({.head = 100, .payload = 100, .reply_max = 24}, few);
    ASSERT_TRUE(static_cast<bool>(whole));
    EXPECT_EQ(whole->args, ArgsType::in_line);
    auto with_pad = plan_transfer({.head = 100, .payload = 101, .reply_max = 24}, few);
    ASSERT_TRUE(static_cast<bool>(with_pad));
    EXPECT_EQ(with_pad->args, ArgsType::read);
}

TEST(Plan, TooBigIsSaidForEachPart) {
    const auto code = [](const CallSizes& sizes) {
        auto plan = plan_transfer(sizes, limits());
        EXPECT_FALSE(static_cast<bool>(plan));
        return plan ? Errc::system : plan.error().code;
    };
    EXPECT_EQ(code({.head = (64 << 10) + 4, .reply_max = 24}), Errc::too_big);
    EXPECT_EQ(code({.head = 100, .payload = (1 << 20) + 1, .reply_max = 24}), Errc::too_big);
    EXPECT_EQ(code({.head = 100, .reply_max = (64 << 10) + 1, .result_room = 8192}), Errc::too_big);
    EXPECT_EQ(code({.head = 100, .reply_max = 24, .result_room = (1 << 20) + 1}), Errc::too_big);
    EXPECT_EQ(code({.head = 100, .reply_max = UINT32_MAX}), Errc::too_big);
    EXPECT_EQ(code({.head = UINT32_MAX - 3, .reply_max = 24}), Errc::too_big);
}

}  // namespace
}  // namespace nfsrdma::xprtrdma
