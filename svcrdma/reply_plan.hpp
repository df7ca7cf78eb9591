#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.hpp"
#include "rpcrdma/pcl.hpp"
#include "sunrpc/xdr_buf.hpp"
#include "verbs/wr.hpp"

// How a reply goes back. Pure.
namespace nfsrdma::svcrdma {

struct ReplyPlan {
    bool placed = false;      // the payload goes by the first Write chunk
    bool long_reply = false;  // the rest goes by the Reply chunk, with RDMA_NOMSG
    std::uint32_t header_bytes = 0;
    std::uint32_t message_bytes =
        0;  // of the RPC message that is sent inline or by the Reply chunk
};

// Errc::too_big when the chunks that the client offered cannot hold the reply: answer ERR_CHUNK
// (B10; RFC 8166 s4.5). A Reply chunk is used only for what does not fit inline in `send_limit`
// bytes.
Result<ReplyPlan> plan_reply(const rpcrdma::ParsedHeader& call, const sunrpc::XdrBuf& res,
                             bool result_is_ddp, std::uint32_t send_limit) noexcept;

// The stretches of memory that the message of a reply consists of, in order; what is contiguous is
// one. Without the payload and its pad when that was `placed`.
struct MessagePieces {
    std::array<std::span<std::byte>, 4> pieces;
    std::uint32_t count = 0;
    std::span<const std::span<std::byte>> all() const& noexcept {
        return std::span(pieces).first(count);
    }
    void all() const&& = delete;  // a view of what is gone
    void add(std::span<std::byte> piece) noexcept;
};
MessagePieces message_pieces(const sunrpc::XdrBuf& res, bool placed,
                             std::span<std::byte> zeros) noexcept;

// The one key of all the header's chunks, or nothing when there are more, or none: only then does
// SEND_WITH_INV spare the client its own invalidation.
std::optional<verbs::Rkey> sole_key(const rpcrdma::ParsedHeader& call) noexcept;

}  // namespace nfsrdma::svcrdma
