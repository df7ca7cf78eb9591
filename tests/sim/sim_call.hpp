#pragma once
#include <cstdint>
#include <span>

#include "base/bytes.hpp"
#include "tests/support/raw_peer.hpp"

// What the simulation's calls and replies are made of. A call says by itself what it carries and
// what is to come back, so that either end can tell every byte:
//   call:  {xid, CALL, filler, payload, tail, result, extra, seed} filler | payload, pad | tail
//   reply: {xid, REPLY, intact, result} | result, pad | extra
namespace nfsrdma::test {

struct SimCall {
    static constexpr std::uint32_t kHead = 32, kReplyHead = 16;
    std::uint32_t xid = 0;
    std::uint32_t filler = 0, payload = 0, tail = 0;  // bytes; filler and tail are multiples of 4
    std::uint32_t result = 0, extra = 0;              // of the reply; extra is a multiple of 4
    std::uint32_t seed = 0;

    std::uint32_t head_size() const { return kHead + filler; }
    std::uint32_t reply_max() const { return kReplyHead + extra; }
    Bytes filler_bytes() const { return pattern(filler, seed * 8ull + 1); }
    Bytes payload_bytes() const { return pattern(payload, seed * 8ull + 2); }
    Bytes tail_bytes() const { return pattern(tail, seed * 8ull + 3); }
    Bytes result_bytes() const { return pattern(result, seed * 8ull + 4); }
    Bytes extra_bytes() const { return pattern(extra, seed * 8ull + 5); }

    Words head_words() const {
        return Words()
            .u32(xid)
            .u32(0)
            .u32(filler)
            .u32(payload)
            .u32(tail)
            .u32(result)
            .u32(extra)
            .u32(seed);
    }
    // The whole, unreduced call behind its head words.
    Bytes body() const {
        return Words().bytes(filler_bytes()).bytes(payload_bytes()).bytes(tail_bytes()).take();
    }
    Bytes reply_head(bool intact) const {
        return Words().u32(xid).u32(1).u32(intact ? 1 : 0).u32(result).take();
    }
    // The reply as its receiver sees it: with the result, or without because it was placed.
    Bytes reply(bool placed) const {
        Words words;
        words.bytes(reply_head(true));
        if (!placed) words.bytes(result_bytes());
        return words.bytes(extra_bytes()).take();
    }
    // False: `head` is too short to be one.
    static bool parse(std::span<const std::byte> head, SimCall& out) {
        if (head.size() < kHead) return false;
        const auto word = [&](std::size_t i) { return load_be32(head.data() + 4 * i); };
        out = {.xid = word(0),
               .filler = word(2),
               .payload = word(3),
               .tail = word(4),
               .result = word(5),
               .extra = word(6),
               .seed = word(7)};
        // A hostile call may say anything.
        constexpr std::uint32_t kSane = 1 << 20;
        return out.filler <= kSane && out.payload <= kSane && out.tail <= kSane &&
               out.result <= kSane && out.extra <= kSane &&
               (out.filler | out.tail | out.extra) % 4 == 0;
    }
};

}  // namespace nfsrdma::test
