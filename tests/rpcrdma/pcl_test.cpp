#include "rpcrdma/pcl.hpp"

#include <array>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/prng.hpp"
#include "rpcrdma/header.hpp"
#include "tests/rpcrdma/hex_vector.hpp"

namespace nfsrdma::rpcrdma {
namespace {

constexpr PclLimits kLimits{1 << 30, 1 << 30};

std::string shape(const ParsedHeader& header, const Pcl& list, bool positions) {
    std::string out;
    for (const Chunk& chunk : header.chunks_of(list)) {
        if (!out.empty()) out += ' ';
        if (positions) out += std::to_string(chunk.position) + ':';
        out += std::to_string(chunk.length) + ':' + std::to_string(chunk.count);
    }
    return out;
}

std::string joined(const std::vector<std::string>& values) {
    std::string out;
    for (const std::string& value : values)
        out += out.empty() ? value : ' ' + value;
    return out;
}

// What must hold of every parsed header, whatever the bytes were.
void expect_consistent(const ParsedHeader& header, std::size_t frame_size) {
    ASSERT_LE(header.size, frame_size);
    ASSERT_LE(header.chunk_count, kMaxChunks);
    ASSERT_LE(header.segment_count, kMaxSegments);
    for (const Pcl& list : {header.call, header.read, header.write, header.reply}) {
        ASSERT_LE(list.first + list.count, header.chunk_count);
        std::uint64_t total = 0;
        for (const Chunk& chunk : header.chunks_of(list)) {
            ASSERT_LE(chunk.first + chunk.count, header.segment_count);
            ASSERT_GT(chunk.count, 0u);
            std::uint64_t sum = 0;
            for (const Segment& segment : header.segments_of(chunk)) {
                ASSERT_LE(segment.length, UINT64_MAX - segment.offset);
                sum += segment.length;
            }
            ASSERT_EQ(sum, chunk.length);
            ASSERT_LE(sum, kLimits.max_chunk_bytes);
            total += sum;
        }
        ASSERT_LE(total, kLimits.max_total_bytes);
    }
    for (const Chunk& chunk : header.chunks_of(header.read))
        ASSERT_NE(chunk.position, 0u);
    ASSERT_LE(header.call.count, 1u);
    ASSERT_LE(header.reply.count, 1u);
}

TEST(Vectors, ParseAsTheySay) {
    const auto vectors = load_hex_vectors();
    ASSERT_GE(vectors.size(), 60u);
    for (const HexVector& vector : vectors) {
        SCOPED_TRACE(vector.name);
        ParsedHeader header;
        const HeaderFault fault = parse_header(vector.bytes, kLimits, header);
        ASSERT_EQ(to_string(fault), vector.value("fault"))
            << header.fault_what << " at " << header.fault_at;
        if (!vector.value("at").empty()) {
            EXPECT_EQ(std::to_string(header.fault_at), vector.value("at"));
        }
        if (fault != HeaderFault::none) {
            EXPECT_STRNE(header.fault_what, "");
            continue;
        }
        EXPECT_STREQ(header.fault_what, "");
        expect_consistent(header, vector.bytes.size());
        EXPECT_EQ(std::to_string(header.size), vector.value("size"));
        EXPECT_EQ(shape(header, header.call, true), joined(vector.values("call")));
        EXPECT_EQ(shape(header, header.read, true), joined(vector.values("read")));
        EXPECT_EQ(shape(header, header.write, false), joined(vector.values("write")));
        EXPECT_EQ(shape(header, header.reply, false), joined(vector.values("reply")));
        if (vector.value("check").empty()) continue;
        const auto inline_len = static_cast<std::uint32_t>(std::stoul(vector.value("inline")));
        const char* why = nullptr;
        const HeaderFault meaning = check_call(header, inline_len, &why);
        EXPECT_EQ(meaning,
                  vector.value("check") == "ok" ? HeaderFault::none : HeaderFault::err_chunk)
            << why;
        EXPECT_EQ(std::string(why).empty(), meaning == HeaderFault::none);
    }
}

TEST(B11, EveryTruncationIsAFaultAndNeverTouchesWhatWasNotReceived) {
    for (const HexVector& vector : load_hex_vectors()) {
        SCOPED_TRACE(vector.name);
        if (vector.value("fault") != "none") continue;
        for (std::size_t size = 0; size < vector.bytes.size(); ++size) {
            const std::vector<std::byte> cut(
                vector.bytes.begin(), vector.bytes.begin() + static_cast<std::ptrdiff_t>(size));
            ParsedHeader header;
            const HeaderFault fault = parse_header(cut, kLimits, header);
            if (size < kFixedSize || header.proc == Proc::error) {
                ASSERT_EQ(fault, HeaderFault::drop) << size;
            } else {
                ASSERT_EQ(fault, HeaderFault::err_chunk) << size;
                ASSERT_EQ(header.xid, load_be32(&vector.bytes[0]));
            }
        }
    }
}

TEST(B13, EverySingleWordMutationStaysWithinBounds) {
    const std::array<std::uint32_t, 12> words{
        0, 1, 2, 3, 16, 176, 177, 1025, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF};
    for (const HexVector& vector : load_hex_vectors()) {
        SCOPED_TRACE(vector.name);
        for (std::size_t at = 0; at + 4 <= vector.bytes.size(); at += 4) {
            for (const std::uint32_t word : words) {
                std::vector<std::byte> mutated = vector.bytes;
                store_be32(&mutated[at], word);
                ParsedHeader header;
                if (parse_header(mutated, kLimits, header) == HeaderFault::none) {
                    expect_consistent(header, mutated.size());
                    (void)check_call(header, 100);
                    (void)check_reply(header, {});
                } else {
                    ASSERT_STRNE(header.fault_what, "");
                    ASSERT_LE(header.fault_at, mutated.size());
                }
            }
        }
    }
}

TEST(B13, RandomBytesBehindAValidStartNeverLeaveTheBounds) {
    Prng prng(13);
    std::vector<std::byte> frame(4096);
    for (int round = 0; round < 20000; ++round) {
        const std::size_t size = kFixedSize + prng.below(600);
        for (std::size_t i = 0; i < size; i += 4) {
            store_be32(&frame[i], prng.chance_ppm(700000)
                                      ? static_cast<std::uint32_t>(prng.below(3))
                                      : static_cast<std::uint32_t>(prng.next()));
        }
        store_be32(&frame[4], 1);
        ParsedHeader header;
        if (parse_header(std::span(frame).first(size), kLimits, header) == HeaderFault::none) {
            expect_consistent(header, size);
            (void)check_call(header, static_cast<std::uint32_t>(size) - header.size);
        }
    }
}

TEST(B13, TheLargestHeaderOfFourKibibytesFits) {
    std::vector<std::byte> frame(4096);
    const std::vector<Segment> segments(169, Segment{7, 16, 0x1000});
    auto size = encode_call(frame, {}, {.read = segments, .read_position = 40});
    ASSERT_TRUE(size);
    ParsedHeader header;
    EXPECT_EQ(parse_header(std::span(frame).first(*size), kLimits, header), HeaderFault::none);
    EXPECT_EQ(header.segment_count, 169u);
    EXPECT_EQ(header.read.count, 1u);
}

TEST(Limits, ChunkAndListAreBoundApart) {
    std::array<std::byte, 512> frame{};
    const std::array<Segment, 2> segments{Segment{7, 600, 0}, Segment{8, 400, 0}};
    auto size = encode_call(frame, {}, {.write = segments});
    ASSERT_TRUE(size);
    const auto bytes = std::span(frame).first(*size);
    ParsedHeader header;
    EXPECT_EQ(parse_header(bytes, {1000, 1000}, header), HeaderFault::none);
    EXPECT_EQ(parse_header(bytes, {999, 1000}, header), HeaderFault::err_chunk);
    EXPECT_EQ(parse_header(bytes, {1000, 999}, header), HeaderFault::err_chunk);
    // The Read list and the Reply chunk have each a sum of their own.
    size = encode_call(
        frame, {}, {.read = segments, .read_position = 4, .write = segments, .reply = segments});
    ASSERT_TRUE(size);
    EXPECT_EQ(parse_header(std::span(frame).first(*size), {1000, 1000}, header), HeaderFault::none);
}

TEST(ParseHeader, AFailureLeavesNoListBehind) {
    ParsedHeader header;
    ASSERT_EQ(parse_header(load_hex_vector(std::string("b03_all_lists")).bytes, kLimits, header),
              HeaderFault::none);
    ASSERT_EQ(
        parse_header(load_hex_vector(std::string("b13_read_list_runs_off")).bytes, kLimits, header),
        HeaderFault::err_chunk);
    EXPECT_TRUE(header.read.empty() && header.write.empty() && header.reply.empty() &&
                header.call.empty());
    EXPECT_EQ(header.size, 0u);
}

TEST(ParseHeader, ACopyStandsAlone) {
    ParsedHeader header;
    ASSERT_EQ(parse_header(load_hex_vector(std::string("b03_all_lists")).bytes, kLimits, header),
              HeaderFault::none);
    const ParsedHeader copy = header;
    header.segments.fill({});
    EXPECT_EQ(copy.segments_of(copy.chunks_of(copy.write)[0])[1].length, 4096u);
}

// A Call of `inline_len` bytes with Read chunks of the given {position, length}.
HeaderFault check_positions(std::uint32_t inline_len,
                            std::vector<std::array<std::uint32_t, 2>> chunks) {
    ParsedHeader header;
    header.read.count = static_cast<std::uint16_t>(chunks.size());
    header.chunk_count = header.segment_count = static_cast<std::uint32_t>(chunks.size());
    for (std::uint16_t i = 0; i < chunks.size(); ++i) {
        header.chunks[i] = {chunks[i][0], chunks[i][1], i, 1};
        header.segments[i] = {i, chunks[i][1], 0};
    }
    return check_call(header, inline_len);
}

TEST(CheckCall, PositionsLieWithinTheCall) {
    EXPECT_EQ(check_positions(40, {{40, 100}}), HeaderFault::none);       // at the very end
    EXPECT_EQ(check_positions(40, {{44, 100}}), HeaderFault::err_chunk);  // past it
    EXPECT_EQ(check_positions(40, {{0xFFFFFFFC, 100}}), HeaderFault::err_chunk);
    EXPECT_EQ(check_positions(0, {{4, 100}}), HeaderFault::err_chunk);
    EXPECT_EQ(check_positions(44, {{40, 100}, {144, 8}}),
              HeaderFault::none);  // 4 bytes between, at the end
    EXPECT_EQ(check_positions(44, {{40, 100}, {148, 8}}),
              HeaderFault::err_chunk);  // 8 between, but only 4 are left
}

TEST(CheckCall, TheSecondChunkBeginsBehindThePadOfTheFirst) {
    EXPECT_EQ(check_positions(40, {{40, 5}, {48, 8}}), HeaderFault::none);
    EXPECT_EQ(check_positions(40, {{40, 5}, {44, 8}}), HeaderFault::err_chunk);
    EXPECT_EQ(check_positions(40, {{40, 8}, {48, 8}}), HeaderFault::none);
    EXPECT_EQ(check_positions(40, {{40, 0}, {44, 8}}), HeaderFault::err_chunk);
}

TEST(CheckCall, ACallBeyondFourGibibytesIsRefused) {
    EXPECT_EQ(check_positions(40, {{40, 0xFFFFFFFF}}), HeaderFault::err_chunk);
    EXPECT_EQ(check_positions(40, {{40, 0xFFFFFF00}, {0xFFFFFFFC, 0xFFFFFFFF}}),
              HeaderFault::err_chunk);
}

TEST(CheckCall, OnlyCallsAreCalls) {
    ParsedHeader header;
    header.proc = Proc::error;
    EXPECT_EQ(check_call(header, 40), HeaderFault::err_chunk);
}

TEST(CheckCall, AdjacentWritableSegmentsDoNotOverlapAndEmptyOnesNever) {
    ParsedHeader header;
    const auto set = [&](Segment a, Segment b) {
        header.write = {0, 1};
        header.chunks[0] = {0, a.length + b.length, 0, 2};
        header.segments[0] = a;
        header.segments[1] = b;
        header.segment_count = 2;
        header.chunk_count = 1;
        return check_call(header, 40);
    };
    EXPECT_EQ(set({7, 10, 100}, {7, 10, 110}), HeaderFault::none);
    EXPECT_EQ(set({7, 11, 100}, {7, 10, 110}), HeaderFault::err_chunk);
    EXPECT_EQ(set({7, 10, 110}, {7, 11, 100}), HeaderFault::err_chunk);
    EXPECT_EQ(set({7, 100, 100}, {7, 1, 150}), HeaderFault::err_chunk);
    EXPECT_EQ(set({7, 100, 100}, {8, 100, 100}),
              HeaderFault::none);  // another key: another memory, or its owner's wish
    EXPECT_EQ(set({7, 100, 100}, {7, 0, 150}), HeaderFault::none);
    EXPECT_EQ(set({7, 16, UINT64_MAX - 16}, {7, 1, UINT64_MAX - 1}), HeaderFault::err_chunk);
}

struct Reply {
    std::array<std::byte, 512> frame{};
    ParsedHeader header;
    ParsedHeader& make(Proc proc, const CallChunks& chunks) {
        auto size = encode_call(frame, {.proc = proc}, chunks);
        EXPECT_TRUE(size);
        EXPECT_EQ(parse_header(std::span(frame).first(*size), kLimits, header), HeaderFault::none);
        return header;
    }
};

TEST(CheckReply, WhatWasOfferedComesBack) {
    const std::array<Segment, 2> offered{Segment{7, 100, 0x1000}, Segment{7, 50, 0x2000}};
    const std::array<Segment, 2> some{Segment{7, 100, 0x1000}, Segment{7, 20, 0x2000}};
    const std::array<Segment, 2> none{Segment{7, 0, 0x1000}, Segment{7, 0, 0x2000}};
    Reply reply;
    auto lengths = check_reply(reply.make(Proc::msg, {.write = some}), {.write = offered});
    ASSERT_TRUE(lengths);
    EXPECT_EQ(lengths->write, 120u);
    lengths = check_reply(reply.make(Proc::msg, {.write = none}), {.write = offered});
    ASSERT_TRUE(lengths);
    EXPECT_EQ(lengths->write, 0u);
    lengths = check_reply(reply.make(Proc::nomsg, {.write = some, .reply = some}),
                          {.write = offered, .reply = offered});
    ASSERT_TRUE(lengths);
    EXPECT_EQ(lengths->reply, 120u);
    // An unused Reply chunk may come back empty, or not at all.
    EXPECT_TRUE(check_reply(reply.make(Proc::msg, {.reply = none}), {.reply = offered}));
    EXPECT_TRUE(check_reply(reply.make(Proc::msg, {}), {.reply = offered}));
}

TEST(CheckReply, WhatWasNotOfferedIsRefused) {
    const std::array<Segment, 2> offered{Segment{7, 100, 0x1000}, Segment{7, 50, 0x2000}};
    const std::array<Segment, 2> other_key{Segment{8, 100, 0x1000}, Segment{7, 50, 0x2000}};
    const std::array<Segment, 2> other_place{Segment{7, 100, 0x1001}, Segment{7, 50, 0x2000}};
    const std::array<Segment, 2> longer{Segment{7, 100, 0x1000}, Segment{7, 51, 0x2000}};
    const std::array<Segment, 2> gap{Segment{7, 99, 0x1000}, Segment{7, 1, 0x2000}};
    Reply reply;
    const auto refused = [&](Proc proc, const CallChunks& chunks, const OfferedChunks& was) {
        auto result = check_reply(reply.make(proc, chunks), was);
        return !result && result.error().code == Errc::bad_message;
    };
    for (const auto& returned : {other_key, other_place, longer, gap}) {
        EXPECT_TRUE(refused(Proc::msg, {.write = returned}, {.write = offered}));
        EXPECT_TRUE(refused(Proc::nomsg, {.reply = returned}, {.reply = offered}));
    }
    EXPECT_TRUE(refused(Proc::msg, {}, {.write = offered}));  // the Write list is missing
    EXPECT_TRUE(refused(Proc::msg, {.write = offered}, {}));  // none was offered
    EXPECT_TRUE(refused(Proc::msg, {.write = std::span(offered).first(1)}, {.write = offered}));
    EXPECT_TRUE(
        refused(Proc::msg, {.read = offered, .read_position = 4}, {}));  // a Read list in a Reply
    EXPECT_TRUE(refused(Proc::nomsg, {.call = offered}, {}));
    EXPECT_TRUE(refused(Proc::nomsg, {}, {.reply = offered}));  // no Reply chunk: no reply
    EXPECT_TRUE(
        refused(Proc::msg, {.reply = offered}, {.reply = offered}));  // both inline and by RDMA
    EXPECT_TRUE(refused(Proc::nomsg, {.reply = offered}, {}));
}

TEST(B15, MixedPositionsAreNeverJoined) {
    ParsedHeader header;
    const HexVector vector = load_hex_vector(std::string("b15_two_positions"));
    ASSERT_EQ(parse_header(vector.bytes, kLimits, header), HeaderFault::none);
    EXPECT_EQ(header.read.count, 2u);
    EXPECT_EQ(check_call(header, 4000), HeaderFault::err_chunk);
}

TEST(Names, AreThoseOfTheRfc) {
    EXPECT_STREQ(to_string(Proc::nomsg), "RDMA_NOMSG");
    EXPECT_STREQ(to_string(static_cast<Proc>(9)), "?");
    EXPECT_STREQ(to_string(HeaderFault::err_vers), "ERR_VERS");
}

}  // namespace
}  // namespace nfsrdma::rpcrdma
