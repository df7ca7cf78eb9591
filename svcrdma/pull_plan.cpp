#include "svcrdma/pull_plan.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "pools/page_list.hpp"

namespace nfsrdma::svcrdma {

namespace {

constexpr Error kBadChunks{Errc::bad_message, 0, "read chunks that make no message"};

// The Read chunks that have bytes, by ascending position.
struct Items {
    std::array<std::uint16_t, kReadChunksMax> index;
    std::uint32_t count = 0;
};

Result<Items> collect(const rpcrdma::ParsedHeader& header) noexcept {
    Items items;
    std::uint32_t last = 0;
    for (std::uint16_t i = 0; i < header.read.count; ++i) {
        const auto at = static_cast<std::uint16_t>(header.read.first + i);
        const rpcrdma::Chunk& chunk = header.chunks[at];
        if (chunk.length == 0) continue;
        if (items.count == kReadChunksMax || chunk.position <= last) return kBadChunks;
        last = chunk.position;
        items.index[items.count++] = at;
    }
    return items;
}

// What the chunks are put into: the inline message, or the Position-zero chunk.
struct Base {
    std::uint16_t chunk = Move::kInline;
    std::uint32_t bytes = 0;
};

void add(PullPlan& plan, const Move& move) noexcept {
    if (move.length > 0) plan.moves[plan.move_count++] = move;
}

// Two chunks or more: every piece goes to its place in the unreduced message, pads included.
Result<PullPlan> merge(const rpcrdma::ParsedHeader& header, const Items& items, Base base,
                       std::uint32_t run_max) noexcept {
    PullPlan plan;
    plan.layout = Layout::merged;
    std::uint64_t from = 0, to = 0;  // in the base, in the unreduced message
    for (std::uint32_t i = 0; i < items.count; ++i) {
        const rpcrdma::Chunk& chunk = header.chunks[items.index[i]];
        if (chunk.position < to) return kBadChunks;
        const std::uint64_t gap = chunk.position - to;
        if (gap > base.bytes - from) return kBadChunks;
        const std::uint64_t end =
            std::uint64_t{chunk.position} + align_up(std::uint64_t{chunk.length}, 4u);
        if (end > run_max) return kBadChunks;
        add(plan, {base.chunk, narrow<std::uint32_t>(from), narrow<std::uint32_t>(gap),
                   narrow<std::uint32_t>(to)});
        add(plan, {items.index[i], 0, chunk.length, chunk.position});
        from += gap;
        to = end;
    }
    const std::uint64_t rest = base.bytes - from;
    if (to + rest > run_max) return kBadChunks;
    add(plan, {base.chunk, narrow<std::uint32_t>(from), narrow<std::uint32_t>(rest),
               narrow<std::uint32_t>(to)});
    plan.message_bytes = plan.run_bytes = narrow<std::uint32_t>(to + rest);
    return plan;
}

}  // namespace

Result<PullPlan> make_pull_plan(const rpcrdma::ParsedHeader& header, std::uint32_t inline_bytes,
                                std::uint32_t run_max) noexcept {
    NR_TRY_ASSIGN(const Items items, collect(header));
    const bool nomsg = header.proc == rpcrdma::Proc::nomsg;
    if (nomsg == header.call.empty()) return kBadChunks;
    Base base{Move::kInline, inline_bytes};
    if (nomsg) base = {header.call.first, header.chunks[header.call.first].length};
    if (base.bytes == 0 || base.bytes > run_max) return kBadChunks;
    if (items.count > 1) return merge(header, items, base, run_max);

    PullPlan plan;
    if (nomsg) {
        plan.layout = Layout::whole;
        plan.message_bytes = plan.run_bytes = base.bytes;
        add(plan, {base.chunk, 0, base.bytes, 0});
    }
    if (items.count == 0) return plan;
    const rpcrdma::Chunk& item = header.chunks[items.index[0]];
    if (item.position > base.bytes) return kBadChunks;
    plan.layout = nomsg ? Layout::whole_item : Layout::item;
    plan.item_dest = nomsg ? align_up(base.bytes, pools::kPageSize) : 0;
    plan.item_bytes = item.length;
    plan.item_position = item.position;
    if (std::uint64_t{plan.item_dest} + item.length > run_max) return kBadChunks;
    plan.run_bytes = plan.item_dest + item.length;
    add(plan, {items.index[0], 0, item.length, plan.item_dest});
    return plan;
}

PullBatch next_pull_batch(const rpcrdma::ParsedHeader& header, const PullPlan& plan,
                          PullCursor& cursor) noexcept {
    PullBatch batch;
    while (cursor.move < plan.move_count && plan.moves[cursor.move].chunk == Move::kInline)
        ++cursor.move;
    if (cursor.move == plan.move_count) return batch;
    const Move& move = plan.moves[cursor.move];
    batch.dest = move.dest + cursor.done;
    std::uint64_t skip = std::uint64_t{move.offset} + cursor.done;
    std::uint32_t left = move.length - cursor.done;
    for (const rpcrdma::Segment& segment : header.segments_of(header.chunks[move.chunk])) {
        if (skip >= segment.length) {
            skip -= segment.length;
            continue;
        }
        if (left == 0 || batch.count == batch.from.size()) break;
        const std::uint32_t bytes =
            std::min(segment.length - static_cast<std::uint32_t>(skip), left);
        batch.from[batch.count++] = {segment.handle, bytes, segment.offset + skip};
        batch.bytes += bytes;
        left -= bytes;
        skip = 0;
    }
    cursor.done += batch.bytes;
    if (left == 0) {
        ++cursor.move;
        cursor.done = 0;
    }
    return batch;
}

std::uint32_t item_without_pad(std::uint32_t chunk_bytes, std::uint32_t length_word) noexcept {
    const bool padded = length_word <= chunk_bytes && chunk_bytes - length_word < 4 &&
                        align_up(std::uint64_t{length_word}, 4u) == chunk_bytes;
    return padded ? length_word : chunk_bytes;
}

}  // namespace nfsrdma::svcrdma
