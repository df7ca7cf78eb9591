#include <array>

#include <gtest/gtest.h>

#include "tests/support/raw_peer.hpp"
#include "xprtrdma/call.hpp"

namespace nfsrdma::xprtrdma {
namespace {

using test::Bytes;
using test::Words;

constexpr rpcrdma::Segment kA{.handle = 0x1001, .length = 4096, .offset = 0x123456789abc};
constexpr rpcrdma::Segment kB{.handle = 0x1002, .length = 100, .offset = 0x2000};

void put(SegmentList& list, const rpcrdma::Segment& segment) {
    list.segments[list.count++] = segment;
}

Bytes marshalled(const TransferPlan& plan, const BoundChunks& chunks) {
    std::array<std::byte, 512> room{};
    auto header = marshal_call(room, 77, 32, plan, chunks);
    EXPECT_TRUE(static_cast<bool>(header));
    if (!header) return {};
    // The message follows at the end of the room.
    EXPECT_EQ(header->data() + header->size(), room.data() + room.size());
    return {header->begin(), header->end()};
}

TEST(Marshal, InlineIsTwentyEightBytes) {
    EXPECT_EQ(marshalled({}, {}),
              Words().u32(77).u32(1).u32(32).u32(0).u32(0).u32(0).u32(0).take());
}

TEST(Marshal, ReadChunkWithItsPosition) {
    BoundChunks chunks;
    put(chunks.read, kA);
    chunks.read_position = 120;
    EXPECT_EQ(marshalled({.args = ArgsType::read}, chunks), Words()
                                                                .u32(77)
                                                                .u32(1)
                                                                .u32(32)
                                                                .u32(0)
                                                                .u32(1)
                                                                .u32(120)
                                                                .segment(kA)
                                                                .u32(0)
                                                                .u32(0)
                                                                .u32(0)
                                                                .take());
}

TEST(Marshal, LongCallIsNomsgWithPositionZeroFirst) {
    BoundChunks chunks;
    put(chunks.call, kB);
    put(chunks.read, kA);
    chunks.read_position = 5000;
    EXPECT_EQ(marshalled({.args = ArgsType::position_zero_and_read}, chunks), Words()
                                                                                  .u32(77)
                                                                                  .u32(1)
                                                                                  .u32(32)
                                                                                  .u32(1)
                                                                                  .u32(1)
                                                                                  .u32(0)
                                                                                  .segment(kB)
                                                                                  .u32(1)
                                                                                  .u32(5000)
                                                                                  .segment(kA)
                                                                                  .u32(0)
                                                                                  .u32(0)
                                                                                  .u32(0)
                                                                                  .take());
}

TEST(Marshal, WriteAndReplyChunks) {
    BoundChunks chunks;
    put(chunks.write, kA);
    put(chunks.reply, kB);
    EXPECT_EQ(marshalled({.results = ResultType::write_and_reply}, chunks), Words()
                                                                                .u32(77)
                                                                                .u32(1)
                                                                                .u32(32)
                                                                                .u32(0)
                                                                                .u32(0)
                                                                                .u32(1)
                                                                                .u32(1)
                                                                                .segment(kA)
                                                                                .u32(0)
                                                                                .u32(1)
                                                                                .u32(1)
                                                                                .segment(kB)
                                                                                .take());
}

TEST(Marshal, SmallRoomIsTooBig) {
    std::array<std::byte, 27> room{};
    auto header = marshal_call(room, 77, 32, {}, {});
    ASSERT_FALSE(static_cast<bool>(header));
    EXPECT_EQ(header.error().code, Errc::too_big);
}

}  // namespace
}  // namespace nfsrdma::xprtrdma
