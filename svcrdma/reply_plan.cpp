#include "svcrdma/reply_plan.hpp"

#include "rpcrdma/header.hpp"

namespace nfsrdma::svcrdma {

Result<ReplyPlan> plan_reply(const rpcrdma::ParsedHeader& call, const sunrpc::XdrBuf& res,
                             bool result_is_ddp, std::uint32_t send_limit) noexcept {
    ReplyPlan plan;
    plan.header_bytes = rpcrdma::reply_header_size(call);
    plan.placed = result_is_ddp && !res.payload.empty() && !call.write.empty();
    // What is placed leaves the message together with its pad (RFC 8166 s3.4.5).
    const std::uint64_t message = std::uint64_t{res.head.size()} + res.tail.size() +
                                  (plan.placed ? 0 : std::uint64_t{res.payload.size()} + res.pad());
    if (plan.placed && res.payload.size() > call.chunks_of(call.write)[0].length)
        return Error{Errc::too_big, 0, "the Write chunk is too small for the result"};
    if (plan.header_bytes > send_limit)
        return Error{Errc::too_big, 0, "the reply's header does not fit inline"};
    if (plan.header_bytes + message > send_limit) {
        if (call.reply.empty() || message > call.chunks_of(call.reply)[0].length)
            return Error{Errc::too_big, 0, "the reply fits neither inline nor into a Reply chunk"};
        plan.long_reply = true;
    }
    plan.message_bytes = static_cast<std::uint32_t>(message);
    return plan;
}

void MessagePieces::add(std::span<std::byte> piece) noexcept {
    if (piece.empty()) return;
    if (count > 0) {
        std::span<std::byte>& last = pieces[count - 1];
        if (last.data() + last.size() == piece.data()) {
            last = {last.data(), last.size() + piece.size()};
            return;
        }
    }
    NR_ASSERT(count < pieces.size());
    pieces[count++] = piece;
}

MessagePieces message_pieces(const sunrpc::XdrBuf& res, bool placed,
                             std::span<std::byte> zeros) noexcept {
    MessagePieces message;
    message.add(res.head);
    if (!placed) {
        message.add(res.payload);
        message.add(zeros.first(res.pad()));
    }
    message.add(res.tail);
    return message;
}

std::optional<verbs::Rkey> sole_key(const rpcrdma::ParsedHeader& call) noexcept {
    if (call.segment_count == 0) return std::nullopt;
    const std::uint32_t handle = call.segments[0].handle;
    for (std::uint32_t i = 1; i < call.segment_count; ++i) {
        if (call.segments[i].handle != handle) return std::nullopt;
    }
    return verbs::Rkey{handle};
}

}  // namespace nfsrdma::svcrdma
