#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/list.hpp"
#include "pools/buffer_pool.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "sunrpc/xprt.hpp"
#include "verbs/wr.hpp"
#include "xprtrdma/call.hpp"
#include "xprtrdma/payload_pool.hpp"

namespace nfsrdma::xprtrdma {

class TransportImpl;
struct Rep;

enum class ReqState : std::uint8_t {
    free,       // in the transport's free list
    taken,      // the caller fills it in
    waiting,    // sent by its caller; no credit, key or memory yet, or not any more
    posting,    // handed to pools::Io
    sent,       // on the send queue
    completed,  // answered; the caller reads the reply
};
const char* to_string(ReqState state) noexcept;

// Which pool made bind say `again`.
enum class Dry : std::uint8_t { none, key, page_list };

// Largest transport header that a call can have: every list full.
inline constexpr std::uint32_t kCallHeaderMax =
    rpcrdma::kMinHeaderSize + rpcrdma::kWriteChunkSize + rpcrdma::kReplyChunkSize +
    pools::Exposure::kRunsMax * (2 * rpcrdma::kReadSegmentSize + 2 * rpcrdma::kSegmentSize);
// Room in front of the message in a send buffer: the header is written to end where the message
// begins, so that both are one SGE. Rounded up to a cache line.
inline constexpr std::uint32_t kHeaderRoom = 1344;
static_assert(kHeaderRoom >= kCallHeaderMax && kHeaderRoom % 64 == 0);

// SGEs of a call's SEND: header, head, payload, pad, tail; neighbours in memory are joined.
inline constexpr std::uint32_t kSendSgesMax = 5;

struct WaitingTag;  // the queue of calls that wait for a credit, key or memory
struct ActiveTag;   // every call from send() until it is answered
struct StepTag;     // calls to which something happened: advance them in the next turn

// One RPC in flight (rpcrdma_req). It is its own SEND's completion entry and its own posting.
//
// It is answered when three facts hold: `outcome` is set (reply placed, or failed), `fenced` is set
// (no key of it is live), `send_done` (no SGE of it is still lent to the device). It is free when,
// besides, the caller has put it.
struct Req : sunrpc::Rqst,
             verbs::Cqe,
             pools::Posting,
             ListHook<WaitingTag>,
             ListHook<ActiveTag>,
             ListHook<StepTag> {
    TransportImpl* home = nullptr;
    ReqState state = ReqState::free;
    bool abandoned = false;  // put by its caller while in flight
    bool holds_credit = false;
    bool waited = false;  // counted once per call
    bool send_done = false;
    bool fence_started = false;
    bool posted_before = false;      // the server may have seen it
    bool wants_larger_room = false;  // ERR_CHUNK: to be sent again when its keys are dead
    bool had_larger_room = false;    // that was done, and is done once
    Dry dry = Dry::none;
    std::uint64_t asked_ns = 0;  // when its caller sent it
    std::uint64_t posted_ns = 0;
    std::uint32_t fences_pending = 0;
    std::optional<Result<void>> outcome;
    std::optional<Fenced> fenced;
    void (*fence_then)(Req&) noexcept = nullptr;

    TransferPlan plan;
    BoundChunks chunks;
    // At most two per direction: one, but where two pieces of memory cannot be one page list.
    std::array<pools::Lease<pools::Exposure>, 4> exposures;
    std::uint32_t exposure_count = 0;

    pools::Lease<pools::Regbuf> send_buffer;    // for life: header room, then an inline message
    pools::Lease<pools::PageList> call_room;    // a message that does not fit there
    pools::Lease<pools::PageList> gather_room;  // a long call whose payload may not be reduced
    pools::Lease<pools::PageList> reply_room;   // the Reply chunk; read by the caller until put
    std::array<PayloadSlot*, 2> pins{};         // the payloads that call and result_room lie in
    Rep* rep = nullptr;                         // the Receive that `reply.head` points into

    verbs::SendWr send_wr;
    std::array<verbs::Sge, kSendSgesMax> sges;

    bool names_memory() const noexcept { return pins[0] != nullptr || pins[1] != nullptr; }
    std::span<std::byte> header_room() const noexcept {
        return send_buffer->bytes().first(kHeaderRoom);
    }
};

}  // namespace nfsrdma::xprtrdma
