#include "xprtrdma/backchannel.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "rpcrdma/header.hpp"

namespace nfsrdma::xprtrdma {
namespace {

constexpr std::uint32_t kWord = rpcrdma::kXdrUnit;
constexpr std::uint32_t kMessageAt = rpcrdma::kMinHeaderSize;  // behind three empty lists
constexpr std::uint32_t kTypeEnd = kMessageAt + 2 * kWord;
constexpr std::uint32_t kRpcCall = 0;  // RFC 5531 s9: msg_type CALL

std::uint32_t word(std::span<const std::byte> frame, std::uint32_t index) noexcept {
    return load_be32(frame.data() + std::size_t{index} * kWord);
}

// RFC 8167: the direction is told by the RPC message, and messages of this one have no chunks.
bool is_backward_call(std::span<const std::byte> frame) noexcept {
    return frame.size() >= kTypeEnd && word(frame, 1) == rpcrdma::kVersion &&
           word(frame, 3) == static_cast<std::uint32_t>(rpcrdma::Proc::msg) &&
           word(frame, 4) == 0 && word(frame, 5) == 0 && word(frame, 6) == 0 &&
           word(frame, 7) == word(frame, 0) && word(frame, 8) == kRpcCall;
}

}  // namespace

Backchannel::Backchannel(const Parts& parts, std::uint32_t slots, std::span<std::byte> sends,
                         std::uint32_t inline_size)
    : parts_(parts), slot_count_(slots), inline_size_(inline_size) {
    const std::uint32_t lines = div_ceil(parts.service.scratch_bytes(), 64u);
    scratch_ = std::make_unique<CacheLine[]>(std::size_t{slots} * lines);
    slots_ = std::make_unique<Slot[]>(slots);
    for (std::uint32_t i = 0; i < slots; ++i) {
        Slot& slot = slots_[i];
        slot.home = this;
        slot.xprt = this;
        slot.memory = sends.subspan(std::size_t{i} * inline_size, inline_size);
        slot.call = std::make_unique<std::byte[]>(inline_size);
        if (lines > 0)
            slot.scratch = {scratch_[std::size_t{i} * lines].bytes, std::size_t{lines} * 64};
        slot.done = &Backchannel::on_sent;
        slot.posted = &Backchannel::on_posted;
        slot.wr.cqe = &slot;
        slot.wr.signaled = true;
        free_.push_back(slot);
    }
}

Backchannel::~Backchannel() {
    NR_ASSERT(idle());
    parts_.service.on_end(*this);
    free_.clear();
}

void Backchannel::set_limits(const rpcrdma::InlineLimits& limits) noexcept {
    send_limit_ = std::min(limits.send, inline_size_);
}

void Backchannel::on_disconnect() noexcept {
    send_limit_ = 0;
    ++generation_;
}

bool Backchannel::take_frame(std::span<const std::byte> frame) noexcept {
    if (!is_backward_call(frame) || send_limit_ == 0) return false;
    if (free_.empty()) {
        ++counters_.overruns;
        return true;
    }
    ++counters_.calls;
    Slot& slot = static_cast<Slot&>(free_.pop_front());
    const std::span<const std::byte> message = frame.subspan(kMessageAt);
    NR_ASSERT(message.size() <= inline_size_);  // a Receive is no longer
    std::memcpy(slot.call.get(), message.data(), message.size());
    slot.generation = generation_;
    slot.xid = word(frame, 0);
    slot.arg = {{slot.call.get(), message.size()}, {}, {}};
    slot.payload_position = slot.result_room = 0;
    slot.result_is_ddp = false;
    slot.res = {};
    slot.res_room = slot.memory.subspan(kMessageAt);
    parts_.service.dispatch(slot);
    return true;
}

Result<std::span<std::byte>> Backchannel::get_result_payload(sunrpc::SvcRqst&,
                                                             std::uint32_t bytes) noexcept {
    if (bytes == 0) return std::span<std::byte>{};
    return Error{Errc::too_big, 0, "backward replies are inline"};
}

void Backchannel::reply(sunrpc::SvcRqst& rqst) noexcept {
    Slot& slot = static_cast<Slot&>(rqst);
    NR_ASSERT(slot.home == this);
    if (slot.generation != generation_ || send_limit_ == 0) {
        ++counters_.stale_replies;
        return release(slot);
    }
    slot.sge = parts_.io.sge(slot.memory.first(encode(slot)));
    slot.wr.sgl = {&slot.sge, 1};
    slot.chain = {};
    slot.chain.push_back(slot.wr);
    parts_.io.post(slot);
}

std::uint32_t Backchannel::encode(Slot& slot) noexcept {
    const sunrpc::XdrBuf& res = slot.res;
    NR_ASSERT(res.head.data() == slot.res_room.data());
    const std::size_t size = res.length();
    if (kMessageAt + size > send_limit_) {
        ++counters_.too_large;
        auto error = rpcrdma::encode_err_chunk(slot.memory, slot.xid, slot_count_);
        NR_ASSERT(static_cast<bool>(error));
        return *error;
    }
    // A payload with its pad, and a tail, lie anywhere; the head is in its place.
    std::byte* const payload = slot.res_room.data() + res.head.size();
    if (!res.tail.empty())
        std::memmove(payload + res.payload.size() + res.pad(), res.tail.data(), res.tail.size());
    if (!res.payload.empty()) {
        std::memmove(payload, res.payload.data(), res.payload.size());
        std::fill_n(payload + res.payload.size(), res.pad(), std::byte{0});
    }
    ++counters_.replies;
    const rpcrdma::ParsedHeader none{};
    auto header = rpcrdma::encode_reply(slot.memory.first(kMessageAt),
                                        {slot.xid, slot_count_, rpcrdma::Proc::msg}, none, {}, 0);
    NR_ASSERT(header && *header == kMessageAt);
    return kMessageAt + static_cast<std::uint32_t>(size);
}

void Backchannel::drop(sunrpc::SvcRqst& rqst) noexcept {
    release(static_cast<Slot&>(rqst));
}

void Backchannel::release(Slot& slot) noexcept {
    slot.arg = slot.res = {};
    free_.push_front(slot);
}

// What cannot be posted has lost its connection, which others tell.
void Backchannel::on_posted(pools::Posting& posting, Result<void> result) noexcept {
    if (result) return;
    Slot& slot = static_cast<Slot&>(posting);
    slot.home->release(slot);
}

void Backchannel::on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Slot& slot = static_cast<Slot&>(cqe);
    slot.home->release(slot);
    if (wc.status == verbs::WcStatus::success) slot.home->parts_.io.on_send_room();
}

}  // namespace nfsrdma::xprtrdma
