#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "rpcrdma/proto.hpp"

// Chunk lists after parsing: values of fixed capacity. A hostile count is refused, never allocated.
namespace nfsrdma::rpcrdma {

// Capacity of one header, all lists together, from the largest inline size that we receive: 4 KiB
// holds 169 read segments.
inline constexpr std::uint32_t kMaxSegments = 176;
inline constexpr std::uint32_t kMaxChunks = 176;

struct PclLimits {
    std::uint32_t max_chunk_bytes;  // of one chunk
    std::uint32_t max_total_bytes;  // of one list
};

struct Chunk {
    std::uint32_t position = 0;  // Read chunks only; 0 means the Call body
    std::uint32_t length = 0;    // sum of segment lengths
    std::uint16_t first =
        0;  // into ParsedHeader::segments: a header can be copied without dangling
    std::uint16_t count = 0;
};

// One list: a run of ParsedHeader::chunks.
struct Pcl {
    std::uint16_t first = 0;
    std::uint16_t count = 0;
    bool empty() const noexcept { return count == 0; }
};

struct ParsedHeader {
    std::uint32_t xid = 0, vers = 0, credits = 0;
    Proc proc = Proc::msg;
    Pcl call, read, write, reply;       // `call`: the position-zero chunk, at most one
    std::uint32_t size = 0;             // bytes of header: where the inline RPC message begins
    ErrorCode error = ErrorCode::vers;  // proc == error only
    std::uint32_t vers_low = 0, vers_high = 0;
    // Of a header that did not parse: the byte at which it went wrong, and how (a string literal).
    std::uint32_t fault_at = 0;
    const char* fault_what = "";
    std::uint32_t chunk_count = 0, segment_count = 0;
    std::array<Chunk, kMaxChunks> chunks;
    std::array<Segment, kMaxSegments> segments;
    std::span<const Chunk> chunks_of(const Pcl& list) const noexcept {
        return std::span(chunks).subspan(list.first, list.count);
    }
    std::span<const Segment> segments_of(const Chunk& chunk) const noexcept {
        return std::span(segments).subspan(chunk.first, chunk.count);
    }
};

// What the receiver of a header that does not parse does next (facts R7; RFC 8166 s4.5).
enum class HeaderFault : std::uint8_t {
    none,
    drop,       // shorter than its fixed part, or RDMA_DONE: no answer
    err_vers,   // answer RDMA_ERROR / ERR_VERS
    err_chunk,  // answer RDMA_ERROR / ERR_CHUNK, the connection is kept
};

const char* to_string(HeaderFault fault) noexcept;
const char* to_string(Proc proc) noexcept;  // "?" for a number that no procedure has

// Syntax only: bounds, counts, discriminators, lengths, totals, alignment of positions, offset +
// length overflow. Touches nothing but `out`; xid, vers, credits, proc are set whenever the fixed
// part is there. A zero-length segment is allowed in a Write or Reply chunk and in a Read chunk; a
// chunk without segments is not.
HeaderFault parse_header(std::span<const std::byte> frame, const PclLimits& limits,
                         ParsedHeader& out) noexcept;

// Meaning, for a responder: Read positions lie within the Call, ascend, and do not overlap what is
// inline; no two segments of writable chunks overlap. `inline_len`: bytes of RPC message behind the
// header. HeaderFault::err_chunk otherwise. Of an RDMA_NOMSG Call it counts for nothing. `why` is
// set to what is wrong (a string literal).
HeaderFault check_call(const ParsedHeader& header, std::uint32_t inline_len,
                       const char** why = nullptr) noexcept;

// The reply's header against what was offered: same Write list shape and handles, returned lengths
// within those offered and without gaps, an empty Read list; a Reply chunk carries bytes if and
// only if the reply is RDMA_NOMSG, and may be absent otherwise (RFC 8166 s3.4.6, s3.5; facts R13).
// Errc::bad_message otherwise.
struct OfferedChunks {
    std::span<const Segment> write{};  // segments of the one Write chunk, empty: none offered
    std::span<const Segment> reply{};
};
struct ReturnedLengths {
    std::uint32_t write = 0, reply = 0;
};
Result<ReturnedLengths> check_reply(const ParsedHeader& header,
                                    const OfferedChunks& offered) noexcept;

}  // namespace nfsrdma::rpcrdma
