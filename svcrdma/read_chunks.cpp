#include <algorithm>
#include <cstring>

#include "base/bytes.hpp"
#include "svcrdma/transport.hpp"
#include "svcrdma/walk.hpp"

// Operation. The Read chunks of a Call are fetched by RDMA READs straight to where the service will
// see them. Sixteen segments go down in one post; the next sixteen follow when they are there.
//
// Ownership. The run in RecvCtxt::args is lent to the device while chunk.in_flight; the Transfer is
// ours until reset here.
//
// Errors. A READ that fails closes the connection (facts R7). What no Transfer can move is answered
// with ERR_CHUNK.
namespace nfsrdma::svcrdma {

namespace {

void on_pulled(pools::Transfer& transfer, bool ok) noexcept {
    auto& call = *static_cast<RecvCtxt*>(transfer.user);
    call.chunk.in_flight = false;
    call.chunk.failed = !ok;
    call.transport->make_ready(call);
}

std::span<std::byte> inline_message(const RecvCtxt& call) noexcept {
    return call.buf->frame().subspan(call.header.size);
}

// What is inline between the chunks of a merged message, and the pads behind them.
void fill_gaps(RecvCtxt& call) noexcept {
    const std::span<std::byte> run = call.args->bytes();
    for (const Move& move : call.chunk.plan.all()) {
        if (move.chunk == Move::kInline) {
            std::memcpy(&run[move.dest], &inline_message(call)[move.offset], move.length);
            continue;
        }
        const std::uint32_t end = move.dest + move.length;
        if (move.chunk != call.header.call.first || call.header.call.empty())
            std::fill_n(run.begin() + end, align_up(end, 4u) - end, std::byte{0});
    }
}

// One post of READs. again: the Call waits in the transport's queue.
Result<void> start_batch(SvcTransport& transport, RecvCtxt& call) noexcept {
    ChunkCtxt& chunk = call.chunk;
    PullCursor next = chunk.cursor;
    const PullBatch batch = next_pull_batch(call.header, chunk.plan, next);
    if (batch.count == 0) return {};
    if (transport.must_wait_for_transfer())
        return Error{Errc::again, 0, "others wait for a transfer"};
    const std::span<std::byte> memory = call.args->bytes().subspan(batch.dest, batch.bytes);
    NR_TRY_ASSIGN(chunk.transfer,
                  transport.io().pull(std::span(batch.from).first(batch.count), {&memory, 1}));
    chunk.cursor = next;
    chunk.transfer->user = &call;
    chunk.transfer->done = &on_pulled;
    chunk.in_flight = true;
    transport.io().post_pull(*chunk.transfer);
    return {};
}

}  // namespace

Stage pull_arguments(SvcTransport& transport, RecvCtxt& call) noexcept {
    ChunkCtxt& chunk = call.chunk;
    Server& server = transport.server();
    if (!server.runs->take_args(call, chunk.plan.run_bytes, server.counters)) return Stage::pulling;
    while (!chunk.in_flight) {
        transport.release_transfer(chunk.transfer);
        if (chunk.failed) {
            transport.close();
            return Stage::done;
        }
        if (auto started = start_batch(transport, call); !started) {
            if (started.error().code != Errc::again) {
                call.answer = Answer::err_chunk;
                return Stage::placing;
            }
            transport.wait_for_transfer(call);
            return Stage::pulling;
        }
        if (!chunk.transfer) return Stage::ready;
    }
    return Stage::pulling;
}

void assemble_call(RecvCtxt& call) noexcept {
    const PullPlan& plan = call.chunk.plan;
    std::span<std::byte> message = inline_message(call);
    std::span<std::byte> item;
    call.xid = call.header.xid;
    call.payload_position = 0;
    switch (plan.layout) {
        case Layout::inline_only:
            break;
        case Layout::item:
            item = call.args->bytes().subspan(plan.item_dest, plan.item_bytes);
            break;
        case Layout::whole:
            message = call.args->bytes().first(plan.message_bytes);
            break;
        case Layout::whole_item:
            message = call.args->bytes().first(plan.message_bytes);
            item = call.args->bytes().subspan(plan.item_dest, plan.item_bytes);
            break;
        case Layout::merged:
            fill_gaps(call);
            message = call.args->bytes().first(plan.message_bytes);
            break;
    }
    call.arg = {message, {}, {}};
    if (!item.empty()) {
        const std::uint32_t at = plan.item_position;
        const std::uint32_t word = at >= 4 ? load_be32(&message[at - 4]) : ~0u;
        call.arg = {message.first(at), item.first(item_without_pad(plan.item_bytes, word)),
                    message.subspan(at)};
        call.payload_position = at;
    }
    const rpcrdma::Pcl& write = call.header.write;
    const std::uint32_t offered = write.empty() ? 0 : call.header.chunks_of(write)[0].length;
    call.result_room = std::min(offered, call.transport->max_payload());
    call.res = {};
    call.result_is_ddp = false;
    call.res_room = call.message->bytes().subspan(
        PayloadRuns::header_room(call.transport->server().options.demand));
}

}  // namespace nfsrdma::svcrdma
