#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "rpcrdma/header.hpp"
#include "svcrdma/transport.hpp"
#include "svcrdma/walk.hpp"

// Operation. The transport header is encoded right in front of the message's head, so that one SGE
// covers both; the SEND goes behind the RDMA WRITEs of the reply in the same post (reply_batch.hpp)
// and alone is signaled: when it has completed, so have they.
//
// Ownership. (1) The frame's buffer goes back to the device before the SEND is posted (RFC 8166
// s3.3.1), so a result may not lie in it: own_payload() moves it. (2) Message run, result run and
// Transfers are lent to the device while SendCtxt::pending.
//
// Errors. A reply that the chunks on offer cannot hold becomes ERR_CHUNK and the connection is kept
// (B10). A SEND that fails, or cannot be posted, closes the connection.
namespace nfsrdma::svcrdma {

namespace {

bool within(std::span<const std::byte> part, std::span<const std::byte> whole) noexcept {
    return address_of(part.data()) >= address_of(whole.data()) &&
           address_of(part.data()) + part.size() <= address_of(whole.data()) + whole.size();
}

// A payload that cannot be lent to the device where it lies is copied behind the message, and
// counted.
Result<void> own_payload(SvcTransport& transport, RecvCtxt& call) noexcept {
    sunrpc::XdrBuf& res = call.res;
    if (res.payload.empty()) return {};
    const bool stays = transport.server().arena->contains(res.payload) &&
                       (call.buf == nullptr || !within(res.payload, call.buf->memory));
    if (stays) return {};
    std::uint64_t end = address_of(call.res_room.data());
    for (const std::span<const std::byte> part : {res.head, res.tail}) {
        if (!part.empty()) end = std::max(end, address_of(part.data()) + part.size());
    }
    const std::size_t used = align_up(end - address_of(call.res_room.data()), 4u);
    if (used + res.payload.size() > call.res_room.size())
        return Error{Errc::too_big, 0, "a payload that lies outside of the arena"};
    const std::span<std::byte> copy = call.res_room.subspan(used, res.payload.size());
    std::memcpy(copy.data(), res.payload.data(), copy.size());
    transport.server().counters.payload_copied_bytes += copy.size();
    res.payload = copy;
    return {};
}

void add_sge(SvcTransport& transport, SendCtxt& send, std::span<const std::byte> memory) noexcept {
    NR_ASSERT(send.sge_count < send.sges.size());
    send.sges[send.sge_count++] = transport.io().sge(memory);
}

// Header in front of the head, then what is not placed.
void form_send(SvcTransport& transport, RecvCtxt& call, const ReplyPlan& plan) noexcept {
    const rpcrdma::ParsedHeader& header = call.header;
    const std::uint32_t placed = plan.placed ? narrow<std::uint32_t>(call.res.payload.size()) : 0;
    const std::array lengths{placed};
    const rpcrdma::FixedPart fixed{header.xid, transport.grant(header.credits),
                                   plan.long_reply ? rpcrdma::Proc::nomsg : rpcrdma::Proc::msg};
    const std::uint32_t room = PayloadRuns::header_room(transport.server().options.demand);
    const std::span<std::byte> front =
        call.message->bytes().subspan(room - plan.header_bytes, plan.header_bytes);
    const auto encoded = rpcrdma::encode_reply(
        front, fixed, header, std::span(lengths).first(header.write.empty() ? 0 : 1),
        plan.long_reply ? plan.message_bytes : 0);
    NR_ASSERT(encoded && front.size() == plan.header_bytes);
    MessagePieces message;
    message.add(front);
    if (!plan.long_reply) {
        const MessagePieces body = message_pieces(call.res, plan.placed, transport.server().zeros);
        for (const std::span<std::byte> piece : body.all())
            message.add(piece);
    }
    for (const std::span<std::byte> piece : message.all())
        add_sge(transport, call.send, piece);
}

void count(ServerCounters& counters, const ReplyPlan& plan, const verbs::SendWr& wr) noexcept {
    ++counters.replies;
    if (plan.placed) ++counters.write_chunk_replies;
    if (plan.long_reply) ++counters.long_replies;
    if (wr.op == verbs::SendOp::send_with_inv) ++counters.sends_with_inv;
}

void on_posted(pools::Posting& posting, Result<void> result) noexcept {
    auto& send = static_cast<SendCtxt&>(posting);
    send.posted_ok = static_cast<bool>(result);
    if (result) return;
    send.pending = false;
    send.finished = true;
    send.call->transport->on_send_home();
    send.call->transport->close();
    send.call->transport->make_ready(*send.call);
}

void on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& send = static_cast<SendCtxt&>(cqe);
    SvcTransport& transport = *send.call->transport;
    send.pending = false;
    send.finished = true;
    send.call->transport->on_send_home();
    if (wc.status != verbs::WcStatus::success) {
        transport.note_lost(wc.status);
        transport.close();
    }
    transport.io().on_send_room();
    transport.make_ready(*send.call);
}

Stage send_error(SvcTransport& transport, RecvCtxt& call) noexcept {
    transport.release_buf(call);
    form_error(transport, call);
    post_reply(transport, call);
    return Stage::sending;
}

Result<ReplyPlan> prepare(SvcTransport& transport, RecvCtxt& call) noexcept {
    NR_ASSERT(call.res.head.data() == call.res_room.data());
    NR_TRY(own_payload(transport, call));
    NR_TRY_ASSIGN(const ReplyPlan plan, plan_reply(call.header, call.res, call.result_is_ddp,
                                                   transport.inline_limits().send));
    NR_TRY(place_results(transport, call, plan));
    return plan;
}

}  // namespace

Stage send_reply(SvcTransport& transport, RecvCtxt& call) noexcept {
    if (call.answer != Answer::reply) return send_error(transport, call);
    auto plan = prepare(transport, call);
    if (!plan && plan.error().code == Errc::again) {
        transport.wait_for_transfer(call);
        return Stage::placing;
    }
    if (!plan) {
        call.answer = Answer::err_chunk;
        return send_error(transport, call);
    }
    transport.release_buf(call);
    SendCtxt& send = call.send;
    send.sge_count = 0;
    form_send(transport, call, *plan);
    const auto key = transport.may_invalidate() ? sole_key(call.header) : std::nullopt;
    send.wr.op = key ? verbs::SendOp::send_with_inv : verbs::SendOp::send;
    send.wr.rkey = key.value_or(verbs::Rkey{});
    send.pushed_bytes = (plan->placed ? narrow<std::uint32_t>(call.res.payload.size()) : 0) +
                        (plan->long_reply ? plan->message_bytes : 0);
    count(transport.server().counters, *plan, send.wr);
    post_reply(transport, call);
    return Stage::sending;
}

void post_reply(SvcTransport& transport, RecvCtxt& call) noexcept {
    SendCtxt& send = call.send;
    send.done = &on_sent;
    send.posted = &on_posted;
    send.wr.cqe = &send;
    send.wr.signaled = true;
    send.wr.sgl = std::span(send.sges).first(send.sge_count);
    send.pending = true;
    transport.on_send_lent();
    transport.replies().add(send);
}

}  // namespace nfsrdma::svcrdma
