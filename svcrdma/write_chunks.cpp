#include <algorithm>

#include "base/bytes.hpp"
#include "svcrdma/transport.hpp"
#include "svcrdma/walk.hpp"

// Operation. Results go by RDMA WRITE from the memory in which they lie to the segments that the
// client offered, in order. Each stretch of local memory and sixteen segments are one Transfer; all
// of a reply go down in one post with its SEND behind them.
//
// Ownership. The Transfers are leased into SendCtxt until the SEND completed. All or none: a reply
// that finds too few gives back those it has, so that no two replies wait for each other.
//
// Errors. Errc::again: wait. Errc::too_big: the chain is longer than the send queue; answer
// ERR_CHUNK.
namespace nfsrdma::svcrdma {

namespace {

// Where the next byte of a chunk goes.
struct ChunkCursor {
    std::span<const rpcrdma::Segment> segments;
    std::uint32_t used = 0;  // of the first of them
};

struct PushBatch {
    std::array<pools::RemoteRun, pools::Exposure::kRunsMax> to;
    std::uint32_t count = 0, bytes = 0;
};

PushBatch next_push_batch(ChunkCursor& at, std::uint32_t left) noexcept {
    PushBatch batch;
    while (left > 0 && !at.segments.empty() && batch.count < batch.to.size()) {
        const rpcrdma::Segment& segment = at.segments.front();
        const std::uint32_t bytes = std::min(left, segment.length - at.used);
        if (bytes > 0) batch.to[batch.count++] = {segment.handle, bytes, segment.offset + at.used};
        batch.bytes += bytes;
        left -= bytes;
        at.used += bytes;
        if (at.used < segment.length) break;
        at.segments = at.segments.subspan(1);
        at.used = 0;
    }
    return batch;
}

Result<void> push(SvcTransport& transport, SendCtxt& send, ChunkCursor& to,
                  std::span<std::byte> memory) noexcept {
    while (!memory.empty()) {
        if (send.push_count == SendCtxt::kPushesMax)
            return Error{Errc::too_big, 0, "more pushes than one reply has"};
        const PushBatch batch = next_push_batch(to, narrow<std::uint32_t>(memory.size()));
        if (batch.count == 0) return Error{Errc::too_big, 0, "a chunk shorter than planned"};
        const std::span<std::byte> piece = memory.first(batch.bytes);
        NR_TRY_ASSIGN(send.pushes[send.push_count],
                      transport.io().push(std::span(batch.to).first(batch.count), {&piece, 1}));
        ++send.push_count;
        memory = memory.subspan(batch.bytes);
    }
    return {};
}

Result<void> push_all(SvcTransport& transport, RecvCtxt& call, const ReplyPlan& plan) noexcept {
    const rpcrdma::ParsedHeader& header = call.header;
    if (plan.placed) {
        ChunkCursor to{header.segments_of(header.chunks_of(header.write)[0])};
        NR_TRY(push(transport, call.send, to, call.res.payload));
    }
    if (plan.long_reply) {
        ChunkCursor to{header.segments_of(header.chunks_of(header.reply)[0])};
        const MessagePieces pieces =
            message_pieces(call.res, plan.placed, transport.server().zeros);
        for (const std::span<std::byte> piece : pieces.all())
            NR_TRY(push(transport, call.send, to, piece));
    }
    std::uint32_t slots = 1;
    for (std::uint32_t i = 0; i < call.send.push_count; ++i)
        slots += call.send.pushes[i]->slots();
    if (slots > transport.server().provision.send_wrs)
        return Error{Errc::too_big, 0, "longer than the send queue"};
    return {};
}

}  // namespace

Result<void> place_results(SvcTransport& transport, RecvCtxt& call,
                           const ReplyPlan& plan) noexcept {
    if (!plan.placed && !plan.long_reply) return {};
    if (transport.must_wait_for_transfer())
        return Error{Errc::again, 0, "others wait for a transfer"};
    Result<void> pushed = push_all(transport, call, plan);
    if (pushed) return {};
    for (std::uint32_t i = 0; i < call.send.push_count; ++i)
        call.send.pushes[i].reset();
    call.send.push_count = 0;
    return pushed;
}

}  // namespace nfsrdma::svcrdma
