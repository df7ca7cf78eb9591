#include <algorithm>

#include "base/bytes.hpp"
#include "xprtrdma/call.hpp"

// plan: sizes -> how each part travels. Pure. Numbers are 64 bits wide: a caller's sizes cannot
// overflow them.
namespace nfsrdma::xprtrdma {
namespace {

constexpr std::uint64_t kOneReadSegment = rpcrdma::kReadSegmentSize;
constexpr std::uint64_t kOneWriteChunk = rpcrdma::kWriteChunkSize + rpcrdma::kSegmentSize;
constexpr std::uint64_t kOneReplyChunk = rpcrdma::kReplyChunkSize + rpcrdma::kSegmentSize;

std::uint64_t padded(std::uint64_t bytes) noexcept {
    return align_up(bytes, rpcrdma::kXdrUnit);
}

// Header bytes that the chunks of `results` take, in a call or in its reply.
std::uint64_t result_lists(ResultType results) noexcept {
    return (has_write(results) ? kOneWriteChunk : 0) + (has_reply(results) ? kOneReplyChunk : 0);
}

Result<TransferPlan> plan_results(const CallSizes& sizes, const PlanLimits& limits) noexcept {
    TransferPlan plan;
    const std::uint64_t room = limits.inline_limits.recv;
    const std::uint64_t whole = std::uint64_t{sizes.reply_max} + padded(sizes.result_room);
    const bool fits = rpcrdma::kMinHeaderSize + whole <= room;
    const bool reducible = sizes.result_room > 0 && sizes.ddp_allowed;
    if (fits && (!reducible || sizes.result_room < limits.min_chunk_bytes)) return plan;
    std::uint64_t reply_room = padded(sizes.reply_max);
    if (reducible) {
        if (sizes.result_room > limits.max_payload) return Error{Errc::too_big, 0, "result room"};
        plan.results = ResultType::write;
        if (rpcrdma::kMinHeaderSize + kOneWriteChunk + sizes.reply_max <= room) return plan;
        plan.results = ResultType::write_and_reply;
    } else {
        plan.results = ResultType::reply;
        reply_room = padded(whole);
    }
    const std::uint64_t most =
        reducible ? limits.max_message : std::max(limits.max_message, limits.max_payload);
    if (reply_room > most) return Error{Errc::too_big, 0, "reply"};
    plan.reply_room = static_cast<std::uint32_t>(reply_room);
    return plan;
}

Result<ArgsType> plan_args(const CallSizes& sizes, const PlanLimits& limits,
                           ResultType results) noexcept {
    const std::uint64_t room = limits.inline_limits.send;
    const std::uint64_t header = rpcrdma::kMinHeaderSize + result_lists(results);
    const std::uint64_t reduced = std::uint64_t{sizes.head} + sizes.tail;
    const std::uint64_t whole = reduced + padded(sizes.payload);
    const bool reducible = sizes.payload > 0 && sizes.ddp_allowed;
    if (sizes.payload > limits.max_payload) return Error{Errc::too_big, 0, "payload"};

    // Header and head, the payload, its pad, the tail: as many SGEs.
    const std::uint32_t sges = 1u + (sizes.payload > 0 ? 1u : 0u) +
                               (sizes.payload % 4 != 0 ? 1u : 0u) +
                               (sizes.payload > 0 && sizes.tail > 0 ? 1u : 0u);
    const bool fits = header + whole <= room && sges <= limits.send_sges;
    if (fits && (!reducible || sizes.payload < limits.min_chunk_bytes)) return ArgsType::in_line;
    if (reducible) {
        if (header + kOneReadSegment + reduced <= room) return ArgsType::read;
        if (reduced > limits.max_message) return Error{Errc::too_big, 0, "call"};
        if (header + 2 * kOneReadSegment > room) return Error{Errc::too_big, 0, "header"};
        return ArgsType::position_zero_and_read;
    }
    // A payload that may not be reduced is gathered behind its head.
    const std::uint64_t most =
        sizes.payload > 0 ? std::max(limits.max_message, limits.max_payload) : limits.max_message;
    if (whole > most) return Error{Errc::too_big, 0, "call"};
    if (header + kOneReadSegment > room) return Error{Errc::too_big, 0, "header"};
    return ArgsType::position_zero;
}

}  // namespace

const char* to_string(ArgsType type) noexcept {
    switch (type) {
        case ArgsType::in_line:
            return "inline";
        case ArgsType::read:
            return "read";
        case ArgsType::position_zero:
            return "position zero";
        case ArgsType::position_zero_and_read:
            return "position zero and read";
    }
    return "unknown";
}

const char* to_string(ResultType type) noexcept {
    switch (type) {
        case ResultType::in_line:
            return "inline";
        case ResultType::write:
            return "write";
        case ResultType::reply:
            return "reply";
        case ResultType::write_and_reply:
            return "write and reply";
    }
    return "unknown";
}

CallSizes sizes_of(const sunrpc::Rqst& rqst) noexcept {
    return {.head = static_cast<std::uint32_t>(rqst.call.head.size()),
            .payload = static_cast<std::uint32_t>(rqst.call.payload.size()),
            .tail = static_cast<std::uint32_t>(rqst.call.tail.size()),
            .reply_max = rqst.reply_max,
            .result_room = static_cast<std::uint32_t>(rqst.result_room.size()),
            .ddp_allowed = rqst.ddp_allowed};
}

Result<TransferPlan> plan_transfer(const CallSizes& sizes, const PlanLimits& limits) noexcept {
    NR_TRY_ASSIGN(TransferPlan plan, plan_results(sizes, limits));
    NR_TRY_ASSIGN(plan.args, plan_args(sizes, limits, plan.results));
    return plan;
}

}  // namespace nfsrdma::xprtrdma
