#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "pools/io.hpp"
#include "rpcrdma/pcl.hpp"

// Where the bytes of a Call's Read chunks go, and how its argument is put together from them. Pure.
namespace nfsrdma::svcrdma {

// Read chunks with bytes in them that one Call may have, the Position-zero chunk apart. NFSv3 needs
// one.
inline constexpr std::uint32_t kReadChunksMax = 32;
inline constexpr std::uint32_t kMovesMax = 2 * kReadChunksMax + 1;

// `length` bytes at `offset` of a chunk, or of the inline message, to `dest` of the leased run.
struct Move {
    static constexpr std::uint16_t kInline = 0xFFFF;
    std::uint16_t chunk = kInline;  // into ParsedHeader::chunks
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t dest = 0;
    bool operator==(const Move&) const = default;
};

enum class Layout : std::uint8_t {
    inline_only,  // nothing to pull
    item,         // message inline, one chunk: the run is the DDP item
    whole,        // Position zero alone: the run is the message
    whole_item,   // Position zero and one chunk: the run is the message, then (page-aligned) the
                  // item
    merged,       // more chunks: the run is the unreduced message
};

struct PullPlan {
    Layout layout = Layout::inline_only;
    std::array<Move, kMovesMax> moves{};
    std::uint32_t move_count = 0;
    std::uint32_t run_bytes = 0;  // to lease
    std::uint32_t message_bytes =
        0;  // whole, whole_item, merged: bytes of message at the run's start
    std::uint32_t item_dest = 0, item_bytes = 0, item_position = 0;  // item, whole_item
    std::span<const Move> all() const noexcept { return std::span(moves).first(move_count); }
};

// `inline_bytes`: RPC message behind the header. `run_max`: the largest run that there is.
// Errc::bad_message: positions that no message can have, RDMA_NOMSG without a Call, more chunks
// than kReadChunksMax, or more bytes than a run holds: answer ERR_CHUNK. Assumes a header that
// parse_header accepted; does not assume check_call.
Result<PullPlan> make_pull_plan(const rpcrdma::ParsedHeader& header, std::uint32_t inline_bytes,
                                std::uint32_t run_max) noexcept;

// How far the RDMA READs of a plan have come.
struct PullCursor {
    std::uint32_t move = 0;
    std::uint32_t done = 0;  // bytes of that move
};

// The next READs that can be one Transfer: consecutive segments into one stretch of the run.
struct PullBatch {
    std::array<pools::RemoteRun, pools::Exposure::kRunsMax> from;
    std::uint32_t count = 0;  // 0: nothing is left
    std::uint32_t dest = 0, bytes = 0;
};
PullBatch next_pull_batch(const rpcrdma::ParsedHeader& header, const PullPlan& plan,
                          PullCursor& cursor) noexcept;

// XDR pad at an item's end (B18): the chunk may carry it or not. `length_word` is the word in front
// of the item.
std::uint32_t item_without_pad(std::uint32_t chunk_bytes, std::uint32_t length_word) noexcept;

}  // namespace nfsrdma::svcrdma
