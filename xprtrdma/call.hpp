#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "rpcrdma/pcl.hpp"
#include "rpcrdma/proto.hpp"
#include "sunrpc/xprt.hpp"

// The walk of one call, in order: plan, bind, marshal, post; and of its reply: decode, match,
// place, fence, complete. Each step is a file; each takes what the last one made; none calls back
// up. plan and marshal are pure, only bind can say `again`.
namespace nfsrdma::xprtrdma {

struct Req;

// ---- plan
// -------------------------------------------------------------------------------------------------------------

// How the arguments go (RFC 8166 s3.5): all inline; the payload as a Read chunk and the rest
// inline; the whole message as a position-zero Read chunk; that, and the payload as a Read chunk of
// its own.
enum class ArgsType : std::uint8_t { in_line, read, position_zero, position_zero_and_read };
// How the results come back: inline; the DDP item in a Write chunk; the message in a Reply chunk;
// one each.
enum class ResultType : std::uint8_t { in_line, write, reply, write_and_reply };
const char* to_string(ArgsType type) noexcept;
const char* to_string(ResultType type) noexcept;
constexpr bool has_read(ArgsType type) noexcept {
    return type == ArgsType::read || type == ArgsType::position_zero_and_read;
}
constexpr bool is_long(ArgsType type) noexcept {
    return type == ArgsType::position_zero || type == ArgsType::position_zero_and_read;
}
constexpr bool has_write(ResultType type) noexcept {
    return type == ResultType::write || type == ResultType::write_and_reply;
}
constexpr bool has_reply(ResultType type) noexcept {
    return type == ResultType::reply || type == ResultType::write_and_reply;
}

// Bytes of each part of a call, and of what it may get back.
struct CallSizes {
    std::uint32_t head = 0, payload = 0, tail = 0;
    std::uint32_t reply_max = 0, result_room = 0;
    bool ddp_allowed = true;
};
CallSizes sizes_of(const sunrpc::Rqst& rqst) noexcept;

struct PlanLimits {
    rpcrdma::InlineLimits inline_limits;
    std::uint32_t min_chunk_bytes =
        0;  // a payload of this size or more goes by chunk even if it would fit inline
    std::uint32_t max_payload = 0, max_message = 0;
    std::uint32_t send_sges = 1;
};

struct TransferPlan {
    ArgsType args = ArgsType::in_line;
    ResultType results = ResultType::in_line;
    std::uint32_t reply_room = 0;  // bytes of the Reply chunk; a multiple of 4
    bool operator==(const TransferPlan&) const = default;
};
// Errc::too_big when no form of call holds it.
Result<TransferPlan> plan_transfer(const CallSizes& sizes, const PlanLimits& limits) noexcept;

// ---- bind
// -------------------------------------------------------------------------------------------------------------

struct SegmentList {
    std::array<rpcrdma::Segment, pools::Exposure::kRunsMax> segments;
    std::uint32_t count = 0;
    std::span<const rpcrdma::Segment> list() const noexcept { return {segments.data(), count}; }
};
struct BoundChunks {
    SegmentList call, read, write, reply;
    std::uint32_t read_position = 0;
};

// `length` bytes from byte `from` of an exposure, as segments. Errc::too_big when there are more
// runs than a list holds.
Result<void> slice_runs(std::span<const pools::RemoteRun> runs, std::uint64_t from,
                        std::uint32_t length, SegmentList& out) noexcept;

// What bind may draw from.
struct BindRooms {
    pools::Io* io = nullptr;
    pools::PageListPool* messages = nullptr;  // Reply chunks and gathered long calls
    pools::PageListPool* payloads = nullptr;  // for what is larger than a message
};
// Leases the memory and the keys that `req.plan` needs, forms the binding work requests in front of
// the SEND and fills in `req.chunks`. Errc::again: a pool is dry, nothing is held; req.dry says
// which.
Result<void> bind_chunks(Req& req, const BindRooms& rooms) noexcept;
// Takes back what bind_chunks did, before it was posted.
void unbind_chunks(Req& req, pools::Io& io) noexcept;

// ---- marshal
// ----------------------------------------------------------------------------------------------------------

// The transport header, written so that it ends where `room` ends: the message lies behind it.
// Errc::too_big.
Result<std::span<std::byte>> marshal_call(std::span<std::byte> room, std::uint32_t xid,
                                          std::uint32_t credits, const TransferPlan& plan,
                                          const BoundChunks& chunks) noexcept;

// ---- post
// -------------------------------------------------------------------------------------------------------------

// REG_MR .. REG_MR, SEND: one doorbell. `zeros` are at least three zero bytes of arena memory: XDR
// pad.
void post_call(Req& req, std::span<std::byte> header, std::span<const std::byte> zeros,
               pools::Io& io) noexcept;

// ---- reply
// ------------------------------------------------------------------------------------------------------------

// What a frame from the server is, before its call is known.
enum class ReplyKind : std::uint8_t {
    reply,        // to be matched by its XID
    too_short,    // no fixed part: dropped
    bad_version,  // dropped
    not_a_reply,  // RDMA_DONE or a call in the backward direction, which we do not serve: dropped
};
struct DecodedReply {
    ReplyKind kind = ReplyKind::too_short;
    std::uint32_t xid = 0, credits = 0;
    bool malformed = false;        // its chunk lists or procedure are not to be made sense of
    std::span<std::byte> message;  // the inline RPC message
};
// Pure. Fills in `scratch`, which place_reply reads.
DecodedReply decode_reply(std::span<std::byte> frame, const rpcrdma::PclLimits& limits,
                          rpcrdma::ParsedHeader& scratch) noexcept;

// What place_reply made of it.
enum class ReplyFault : std::uint8_t { none, malformed, err_vers, err_chunk };
// Sets `req.reply`: the message where it lies, the payload as far as the peer says that it was
// placed. No byte is copied.
ReplyFault place_reply(Req& req, const DecodedReply& reply,
                       const rpcrdma::ParsedHeader& header) noexcept;

// ---- fence
// ------------------------------------------------------------------------------------------------------------

// Proof that no key of a Req is live. Only fence() makes one, and complete() takes nothing else.
class Fenced {
  public:
    friend struct FenceLeaf;

  private:
    Fenced() = default;
};

// Did the peer invalidate a key of this very call? False: it broke the protocol, close the
// connection. Key states are exact either way. `req` may be nullptr: a reply that belongs to no
// call has no key to invalidate.
bool accept_remote_invalidation(const Req* req, verbs::Rkey key, pools::Io& io) noexcept;
// LOCAL_INV for the keys that the peer left, then `then`, once: from inside when none was left.
// Only after the reply, or after the connection's end.
void fence(Req& req, pools::Io& io, void (*then)(Req& req) noexcept) noexcept;

// ---- complete
// ---------------------------------------------------------------------------------------------------------

// Answers the caller, unless it abandoned the call. Three facts hold: outcome known, keys fenced,
// Send completed.
void complete(Req& req, const Fenced& fenced) noexcept;

}  // namespace nfsrdma::xprtrdma
