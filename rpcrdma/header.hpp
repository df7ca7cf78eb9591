#pragma once
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "rpcrdma/pcl.hpp"
#include "rpcrdma/proto.hpp"

// Transport headers to bytes. Pure; `out` is bounded, Errc::too_big when it does not fit.
namespace nfsrdma::rpcrdma {

struct CallChunks {
    // One chunk at `read_position` (0 with Proc::nomsg: the Call itself).
    std::span<const Segment> read{};
    std::uint32_t read_position = 0;
    std::span<const Segment> call{};   // position zero, in addition to `read`
    std::span<const Segment> write{};  // one Write chunk
    std::span<const Segment> reply{};  // the Reply chunk
};

struct FixedPart {
    std::uint32_t xid = 0;
    std::uint32_t credits = 1;
    Proc proc = Proc::msg;
};

// Bytes that encode_call will write.
std::uint32_t call_header_size(const CallChunks& chunks) noexcept;
Result<std::uint32_t> encode_call(std::span<std::byte> out, const FixedPart& fixed,
                                  const CallChunks& chunks) noexcept;

// The reply's lists repeat those of `call` with the lengths that were written: `write_lengths` per
// Write chunk, filling its segments in order (RFC 8166 s3.4.6.2); `reply_length` for the Reply
// chunk; unused segments are returned with length 0.
std::uint32_t reply_header_size(const ParsedHeader& call) noexcept;
Result<std::uint32_t> encode_reply(std::span<std::byte> out, const FixedPart& fixed,
                                   const ParsedHeader& call,
                                   std::span<const std::uint32_t> write_lengths,
                                   std::uint32_t reply_length) noexcept;

Result<std::uint32_t> encode_err_vers(std::span<std::byte> out, std::uint32_t xid,
                                      std::uint32_t credits) noexcept;
Result<std::uint32_t> encode_err_chunk(std::span<std::byte> out, std::uint32_t xid,
                                       std::uint32_t credits) noexcept;

}  // namespace nfsrdma::rpcrdma
