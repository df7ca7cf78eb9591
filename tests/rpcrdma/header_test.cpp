#include "rpcrdma/header.hpp"

#include <array>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/prng.hpp"
#include "tests/rpcrdma/hex_vector.hpp"

namespace nfsrdma::rpcrdma {
namespace {

constexpr PclLimits kLimits{UINT32_MAX, UINT32_MAX};

std::span<const Segment> segments_of(const ParsedHeader& header, const Pcl& list) {
    return list.empty() ? std::span<const Segment>{}
                        : header.segments_of(header.chunks[list.first]);
}

std::vector<Segment> random_segments(Prng& prng, std::uint64_t count_max) {
    std::vector<Segment> out(prng.below(count_max + 1));
    for (Segment& segment : out) {
        segment.handle = static_cast<std::uint32_t>(prng.next());
        segment.length = static_cast<std::uint32_t>(prng.below(1 << 24));
        segment.offset = prng.next() >> 1;
    }
    return out;
}

bool same(std::span<const Segment> a, std::span<const Segment> b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST(B03, HeaderSizesAreSumsOfTheirItems) {
    const std::array<Segment, 3> segments{};
    const std::span all(segments);
    EXPECT_EQ(call_header_size({}), 28u);
    EXPECT_EQ(call_header_size({.reply = all.first(1)}), 48u);
    EXPECT_EQ(call_header_size({.reply = all.first(2)}), 64u);
    EXPECT_EQ(call_header_size({.read = all.first(1), .read_position = 40}), 52u);
    EXPECT_EQ(call_header_size({.write = all.first(1)}), 28u + 8 + 16);
    EXPECT_EQ(call_header_size(
                  {.read = all, .read_position = 40, .call = all, .write = all, .reply = all}),
              28u + 6 * 24 + (8 + 48) + (4 + 48));
}

TEST(EncodeCall, ParseGivesBackWhatWasEncoded) {
    Prng prng(1);
    std::array<std::byte, 8192> out{};
    for (int round = 0; round < 2000; ++round) {
        const auto read = random_segments(prng, 20);
        const auto call = random_segments(prng, 5);
        const auto write = random_segments(prng, 20);
        const auto reply = random_segments(prng, 20);
        const auto position = static_cast<std::uint32_t>(4 * prng.between(1, 1000));
        const FixedPart fixed{static_cast<std::uint32_t>(prng.next()),
                              static_cast<std::uint32_t>(prng.between(1, 99)),
                              call.empty() ? Proc::msg : Proc::nomsg};
        const CallChunks chunks{read, position, call, write, reply};
        auto size = encode_call(out, fixed, chunks);
        ASSERT_TRUE(size);
        ASSERT_EQ(*size, call_header_size(chunks));
        ParsedHeader header;
        ASSERT_EQ(parse_header(std::span(out).first(*size), kLimits, header), HeaderFault::none);
        EXPECT_EQ(header.size, *size);
        EXPECT_EQ(header.xid, fixed.xid);
        EXPECT_EQ(header.credits, fixed.credits);
        EXPECT_EQ(header.proc, fixed.proc);
        EXPECT_TRUE(same(segments_of(header, header.read), read));
        EXPECT_TRUE(same(segments_of(header, header.call), call));
        EXPECT_TRUE(same(segments_of(header, header.write), write));
        EXPECT_TRUE(same(segments_of(header, header.reply), reply));
        if (!read.empty()) {
            EXPECT_EQ(header.chunks[header.read.first].position, position);
        }
    }
}

TEST(EncodeCall, OneByteTooFewIsTooBig) {
    std::array<std::byte, 48> out{};
    const Segment segment{7, 100, 0x1000};
    const CallChunks chunks{.reply = {&segment, 1}};
    EXPECT_TRUE(encode_call(out, {}, chunks));
    auto short_by_one = encode_call(std::span(out).first(47), {}, chunks);
    ASSERT_FALSE(short_by_one);
    EXPECT_EQ(short_by_one.error().code, Errc::too_big);
}

TEST(B01, ZeroCreditsAreNeverSent) {
    std::array<std::byte, 64> out{};
    ParsedHeader header;
    ASSERT_TRUE(encode_call(out, {.xid = 1, .credits = 0}, {}));
    EXPECT_EQ(load_be32(&out[8]), 1u);
    ASSERT_TRUE(encode_reply(out, {.xid = 1, .credits = 0}, header, {}, 0));
    EXPECT_EQ(load_be32(&out[8]), 1u);
    ASSERT_TRUE(encode_err_chunk(out, 1, 0));
    EXPECT_EQ(load_be32(&out[8]), 1u);
    ASSERT_TRUE(encode_err_vers(out, 1, 0));
    EXPECT_EQ(load_be32(&out[8]), 1u);
}

TEST(EncodeReply, LengthsFillSegmentsInOrderAndTheRestIsZero) {
    std::array<std::byte, 512> out{};
    const std::array<Segment, 3> write{Segment{1, 100, 0x1000}, Segment{2, 50, 0x2000},
                                       Segment{3, 10, 0x3000}};
    const std::array<Segment, 2> reply{Segment{4, 64, 0x4000}, Segment{4, 64, 0x5000}};
    auto size = encode_call(out, {}, {.write = write, .reply = reply});
    ASSERT_TRUE(size);
    ParsedHeader call;
    ASSERT_EQ(parse_header(std::span(out).first(*size), kLimits, call), HeaderFault::none);
    const std::array<std::uint32_t, 1> written{120};
    auto reply_size = encode_reply(out, {.proc = Proc::nomsg}, call, written, 65);
    ASSERT_TRUE(reply_size);
    EXPECT_EQ(*reply_size, reply_header_size(call));
    ParsedHeader back;
    ASSERT_EQ(parse_header(std::span(out).first(*reply_size), kLimits, back), HeaderFault::none);
    const auto w = segments_of(back, back.write);
    ASSERT_EQ(w.size(), 3u);
    EXPECT_EQ(w[0], (Segment{1, 100, 0x1000}));
    EXPECT_EQ(w[1], (Segment{2, 20, 0x2000}));
    EXPECT_EQ(w[2], (Segment{3, 0, 0x3000}));
    const auto r = segments_of(back, back.reply);
    ASSERT_EQ(r.size(), 2u);
    EXPECT_EQ(r[0].length, 64u);
    EXPECT_EQ(r[1].length, 1u);
    auto checked = check_reply(back, {write, reply});
    ASSERT_TRUE(checked);
    EXPECT_EQ(checked->write, 120u);
    EXPECT_EQ(checked->reply, 65u);
}

TEST(EncodeReply, MoreThanWasOfferedIsRefused) {
    std::array<std::byte, 512> out{};
    const Segment segment{1, 100, 0x1000};
    auto size = encode_call(out, {}, {.write = {&segment, 1}, .reply = {&segment, 1}});
    ASSERT_TRUE(size);
    ParsedHeader call;
    ASSERT_EQ(parse_header(std::span(out).first(*size), kLimits, call), HeaderFault::none);
    const std::array<std::uint32_t, 2> two{100, 1};
    const std::array<std::uint32_t, 1> over{101};
    EXPECT_FALSE(encode_reply(out, {}, call, two, 0));
    EXPECT_FALSE(encode_reply(out, {}, call, over, 0));
    EXPECT_FALSE(encode_reply(out, {}, call, {}, 101));
    EXPECT_FALSE(encode_reply(std::span(out).first(reply_header_size(call) - 1), {}, call, {}, 0));
    EXPECT_TRUE(encode_reply(out, {}, call, {}, 100));
    ParsedHeader bare;
    EXPECT_FALSE(encode_reply(out, {}, bare, {}, 1));
}

TEST(EncodeError, SameBytesAsTheVectors) {
    std::array<std::byte, 28> out{};
    auto vers = encode_err_vers(out, 0x01020304, 32);
    ASSERT_TRUE(vers);
    EXPECT_EQ(*vers, kErrVersSize);
    EXPECT_EQ(std::vector(out.begin(), out.end()),
              load_hex_vector(std::string("error_vers")).bytes);
    auto chunk = encode_err_chunk(out, 0x01020304, 32);
    ASSERT_TRUE(chunk);
    EXPECT_EQ(*chunk, kErrChunkSize);
    EXPECT_EQ(std::vector(out.begin(), out.begin() + kErrChunkSize),
              load_hex_vector(std::string("error_chunk")).bytes);
    EXPECT_FALSE(encode_err_vers(std::span(out).first(27), 1, 1));
    EXPECT_FALSE(encode_err_chunk(std::span(out).first(19), 1, 1));
}

// Every vector that parses, written again from what was parsed, is the same bytes: Linux's among
// them.
TEST(Vectors, EncodeGivesBackTheSameBytes) {
    std::uint32_t compared = 0;
    for (const HexVector& vector : load_hex_vectors()) {
        ParsedHeader header;
        if (parse_header(vector.bytes, kLimits, header) != HeaderFault::none ||
            header.proc == Proc::error)
            continue;
        // encode_call writes one Read and one Write chunk, the position-zero chunk first.
        if (header.read.count > 1 || header.write.count > 1 ||
            vector.name == "long_call_chunk_last")
            continue;
        const FixedPart fixed{header.xid, header.credits, header.proc};
        const CallChunks chunks{segments_of(header, header.read),
                                header.read.empty() ? 0 : header.chunks[header.read.first].position,
                                segments_of(header, header.call), segments_of(header, header.write),
                                segments_of(header, header.reply)};
        std::array<std::byte, 4096> out{};
        auto size = encode_call(out, fixed, chunks);
        ASSERT_TRUE(size) << vector.name;
        EXPECT_EQ(std::vector(out.begin(), out.begin() + *size), vector.bytes) << vector.name;
        ++compared;
    }
    EXPECT_GE(compared, 30u);
}

// Linux's replies are what we answer to Linux's calls when as much was written.
TEST(Vectors, RepliesToLinuxCallsAreThoseOfLinux) {
    const std::array<std::array<const char*, 2>, 7> pairs{
        {{"null_call", "null_reply"},
         {"getattr_call", "getattr_reply"},
         {"getacl_call", "getacl_reply"},
         {"write_64k_call", "write_64k_reply"},
         {"read_call", "read_reply"},
         {"read_two_segments_call", "read_two_segments_reply"},
         {"read_four_segments_call", "read_four_segments_reply"}}};
    for (const auto& [call_name, reply_name] : pairs) {
        const HexVector call_bytes = load_hex_vector(std::string("linux_") + call_name);
        const HexVector reply_bytes = load_hex_vector(std::string("linux_") + reply_name);
        ParsedHeader call, reply;
        ASSERT_EQ(parse_header(call_bytes.bytes, kLimits, call), HeaderFault::none) << call_name;
        ASSERT_EQ(parse_header(reply_bytes.bytes, kLimits, reply), HeaderFault::none) << reply_name;
        ASSERT_EQ(call.xid, reply.xid) << call_name;
        const OfferedChunks offered{segments_of(call, call.write), segments_of(call, call.reply)};
        auto lengths = check_reply(reply, offered);
        ASSERT_TRUE(lengths) << reply_name;
        std::vector<std::uint32_t> written;
        if (!call.write.empty()) written.push_back(lengths->write);
        std::array<std::byte, 4096> out{};
        auto size = encode_reply(out, {reply.xid, reply.credits, reply.proc}, call, written,
                                 lengths->reply);
        ASSERT_TRUE(size) << call_name;
        EXPECT_EQ(std::vector(out.begin(), out.begin() + *size), reply_bytes.bytes) << reply_name;
    }
}

}  // namespace
}  // namespace nfsrdma::rpcrdma
