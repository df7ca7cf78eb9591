#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "xprtrdma/req.hpp"

// reply: a frame -> DecodedReply -> Req::reply. Everything here is the peer's: it is checked,
// counted and never asserted.
namespace nfsrdma::xprtrdma {
namespace {

// Every message begins with its XID and its type.
constexpr std::size_t kTypeAt = rpcrdma::kXdrUnit;
constexpr std::size_t kTypeEnd = std::size_t{2} * rpcrdma::kXdrUnit;
constexpr std::size_t kCreditsAt = std::size_t{2} * rpcrdma::kXdrUnit;  // in a transport header
constexpr std::uint32_t kRpcCall = 0;  // RFC 5531 s9: msg_type CALL
constexpr std::uint32_t kRpcReply = 1;

bool is_backward_call(std::span<const std::byte> message) noexcept {
    return message.size() >= kTypeEnd && load_be32(message.data() + kTypeAt) == kRpcCall;
}

// The RPC message must be a REPLY to the XID that its transport header names.
bool answers(std::span<const std::byte> message, std::uint32_t xid) noexcept {
    return message.size() >= kTypeEnd && load_be32(message.data()) == xid &&
           load_be32(message.data() + kTypeAt) == kRpcReply;
}

}  // namespace

DecodedReply decode_reply(std::span<std::byte> frame, const rpcrdma::PclLimits& limits,
                          rpcrdma::ParsedHeader& scratch) noexcept {
    DecodedReply reply;
    if (frame.size() < rpcrdma::kFixedSize) return reply;
    const rpcrdma::HeaderFault fault = rpcrdma::parse_header(frame, limits, scratch);
    reply.xid = load_be32(frame.data());
    reply.credits = load_be32(frame.data() + kCreditsAt);
    if (load_be32(frame.data() + rpcrdma::kXdrUnit) != rpcrdma::kVersion) {
        reply.kind = ReplyKind::bad_version;
        return reply;
    }
    reply.kind = ReplyKind::reply;
    switch (fault) {
        case rpcrdma::HeaderFault::none:
            break;
        case rpcrdma::HeaderFault::drop:
            reply.kind = ReplyKind::not_a_reply;
            return reply;
        case rpcrdma::HeaderFault::err_vers:
            reply.kind = ReplyKind::bad_version;
            return reply;
        case rpcrdma::HeaderFault::err_chunk:
            reply.malformed = true;
            return reply;
    }
    if (scratch.proc == rpcrdma::Proc::msg) {
        NR_ASSERT(scratch.size <= frame.size());
        reply.message = frame.subspan(scratch.size);
        if (is_backward_call(reply.message)) reply.kind = ReplyKind::not_a_reply;
    }
    return reply;
}

ReplyFault place_reply(Req& req, const DecodedReply& reply,
                       const rpcrdma::ParsedHeader& header) noexcept {
    req.reply = {};
    if (reply.malformed) return ReplyFault::malformed;
    switch (header.proc) {
        case rpcrdma::Proc::msg:
        case rpcrdma::Proc::nomsg:
            break;
        case rpcrdma::Proc::error:
            return header.error == rpcrdma::ErrorCode::vers ? ReplyFault::err_vers
                                                            : ReplyFault::err_chunk;
        case rpcrdma::Proc::msgp:
        case rpcrdma::Proc::done:
            return ReplyFault::malformed;
    }
    const rpcrdma::OfferedChunks offered{.write = req.chunks.write.list(),
                                         .reply = req.chunks.reply.list()};
    auto lengths = rpcrdma::check_reply(header, offered);
    if (!lengths) return ReplyFault::malformed;
    const rpcrdma::ReturnedLengths returned = *lengths;
    if (returned.write > req.result_room.size()) return ReplyFault::malformed;
    std::span<std::byte> message = reply.message;
    if (header.proc == rpcrdma::Proc::nomsg) {
        // RFC 8166 s3.5.3: the whole message lies in the Reply chunk.
        if (returned.reply == 0 || !req.reply_room || returned.reply > req.plan.reply_room) {
            return ReplyFault::malformed;
        }
        message = req.reply_room->bytes().first(returned.reply);
    } else if (returned.reply != 0) {
        return ReplyFault::malformed;
    }
    if (!answers(message, req.xid)) return ReplyFault::malformed;
    req.reply.head = message;
    req.reply.payload = req.result_room.first(returned.write);
    return ReplyFault::none;
}

}  // namespace nfsrdma::xprtrdma
