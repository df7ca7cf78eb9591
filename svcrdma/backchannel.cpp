#include "svcrdma/backchannel.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "rpcrdma/header.hpp"
#include "svcrdma/transport.hpp"

namespace nfsrdma::svcrdma {

namespace {

constexpr std::uint32_t kWord = rpcrdma::kXdrUnit;
constexpr std::uint32_t kProcAt = 3 * kWord, kListsAt = 4 * kWord;
constexpr std::uint32_t kMessageAt = rpcrdma::kMinHeaderSize;  // behind three empty lists
constexpr std::uint32_t kTypeEnd = kMessageAt + 2 * kWord;
constexpr std::uint32_t kRpcReply = 1;  // RFC 5531 s9: msg_type REPLY

std::uint32_t word(std::span<const std::byte> frame, std::uint32_t at) noexcept {
    return load_be32(frame.data() + at);
}

// RFC 8167: the direction is told by the RPC message, and messages of this one have no chunks.
bool is_backward_reply(std::span<const std::byte> frame) noexcept {
    return frame.size() >= kTypeEnd && word(frame, kWord) == rpcrdma::kVersion &&
           word(frame, kProcAt) == static_cast<std::uint32_t>(rpcrdma::Proc::msg) &&
           word(frame, kListsAt) == 0 && word(frame, kListsAt + kWord) == 0 &&
           word(frame, kListsAt + 2 * kWord) == 0 && word(frame, kMessageAt) == word(frame, 0) &&
           word(frame, kMessageAt + kWord) == kRpcReply;
}

bool is_error(std::span<const std::byte> frame) noexcept {
    return frame.size() >= rpcrdma::kFixedSize &&
           word(frame, kProcAt) == static_cast<std::uint32_t>(rpcrdma::Proc::error);
}

}  // namespace

Backchannel::Backchannel(SvcTransport& transport, std::uint32_t slots, std::span<std::byte> sends,
                         std::uint32_t inline_size)
    : transport_(transport),
      slot_count_(slots),
      inline_size_(inline_size),
      slots_(std::make_unique<Slot[]>(slots)),
      credits_(slots),
      pump_(&Backchannel::on_pump),
      stall_(&Backchannel::on_stall) {
    pump_.home = stall_.home = this;
    limits_.slots = slots;
    for (std::uint32_t i = 0; i < slots; ++i) {
        Slot& slot = slots_[i];
        slot.home = this;
        slot.memory = sends.subspan(std::size_t{i} * inline_size, inline_size);
        slot.reply_room = std::make_unique<std::byte[]>(inline_size);
        slot.done = &Backchannel::on_sent;
        slot.posted = &Backchannel::on_posted;
        slot.wr.cqe = &slot;
        slot.wr.signaled = true;
        free_.push_back(slot);
    }
}

Backchannel::~Backchannel() {
    NR_ASSERT(idle() && waiting_.empty());
    if (pump_.linked()) loop().cancel(pump_);
    free_.clear();
}

Loop& Backchannel::loop() noexcept {
    return transport_.loop();
}

bool Backchannel::connected() const noexcept {
    return open_ && !transport_.closing();
}

void Backchannel::close() noexcept {
    transport_.close();
}

void Backchannel::on_open(const rpcrdma::InlineLimits& limits) noexcept {
    open_ = true;
    limits_.max_message = std::min({limits.send, limits.recv, inline_size_}) - kMessageAt;
    wake_callers();
}

void Backchannel::on_slot(void (*wake)(void*) noexcept, void* arg) noexcept {
    wake_ = wake;
    wake_arg_ = arg;
}

void Backchannel::wake_callers() noexcept {
    if (!wanted_ || wake_ == nullptr) return;
    wanted_ = false;
    wake_(wake_arg_);
}

Result<sunrpc::Rqst*> Backchannel::get_rqst(std::uint32_t call_max) noexcept {
    if (!connected()) return Error{Errc::reconnect, 0, "not connected"};
    if (call_max > limits_.max_message)
        return Error{Errc::too_big, 0, "a backward call does not fit inline"};
    if (free_.empty()) {
        wanted_ = true;
        return Error{Errc::again, 0, "every backward call slot is in use"};
    }
    Slot& slot = static_cast<Slot&>(free_.pop_front());
    slot.state = SlotState::taken;
    slot.xid = 0;
    slot.head_room = slot.memory.subspan(kMessageAt);
    slot.call = slot.reply = {};
    slot.ddp_allowed = true;
    slot.reply_max = 0;
    slot.result_room = {};
    slot.complete = nullptr;
    slot.user = nullptr;
    return &slot;
}

Result<sunrpc::Payload> Backchannel::get_payload(std::uint32_t) noexcept {
    return Error{Errc::too_big, 0, "backward calls are inline"};
}

void Backchannel::put_rqst(sunrpc::Rqst& rqst) noexcept {
    Slot& slot = static_cast<Slot&>(rqst);
    NR_ASSERT(slot.home == this && slot.state != SlotState::free && !slot.abandoned);
    switch (slot.state) {
        case SlotState::waiting:
            waiting_.erase(slot);
            [[fallthrough]];
        case SlotState::taken:
        case SlotState::completed:
            return release(slot);
        case SlotState::posted:
            slot.abandoned = true;
            return watch(slot);
        case SlotState::free:
            return;
    }
}

void Backchannel::release(Slot& slot) noexcept {
    slot.state = SlotState::free;
    slot.abandoned = slot.send_done = false;
    slot.outcome.reset();
    free_.push_front(slot);
    if (wanted_) schedule();
}

Result<void> Backchannel::send(sunrpc::Rqst& rqst) noexcept {
    Slot& slot = static_cast<Slot&>(rqst);
    NR_ASSERT(slot.home == this && slot.state == SlotState::taken);
    if (!connected()) return Error{Errc::reconnect, 0, "not connected"};
    const sunrpc::XdrBuf& call = slot.call;
    const bool whole =
        call.head.data() == slot.head_room.data() && call.payload.empty() &&
        (call.tail.empty() || call.tail.data() == call.head.data() + call.head.size());
    if (!whole) return Error{Errc::invalid_argument, 0, "a backward call is one inline message"};
    if (call.head.size() + call.tail.size() > limits_.max_message)
        return Error{Errc::too_big, 0, "a backward call does not fit inline"};
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
        const Slot& other = slots_[i];
        const bool sent = other.state == SlotState::waiting || other.state == SlotState::posted;
        if (sent && other.xid == slot.xid)
            return Error{Errc::invalid_argument, 0, "the XID is in use"};
    }
    slot.state = SlotState::waiting;
    waiting_.push_back(slot);
    schedule();
    return {};
}

void Backchannel::schedule() noexcept {
    if (!pump_.linked()) loop().ready(pump_);
}

void Backchannel::on_pump(Task& task) noexcept {
    Backchannel& self = *static_cast<PumpTask&>(task).home;
    self.pump();
    if (!self.free_.empty()) self.wake_callers();
}

void Backchannel::pump() noexcept {
    while (!waiting_.empty() && connected()) {
        if (!credits_.take()) {
            ++counters_.waited_for_credit;
            return;
        }
        post(static_cast<Slot&>(waiting_.pop_front()));
    }
}

// What the client owes to `slot` is due from now on.
void Backchannel::watch(Slot& slot) noexcept {
    slot.since_ns = loop().now_ns();
    const std::uint64_t timeout_ns = transport_.server().options.stall_timeout_ns;
    if (!stall_.armed() && connected()) loop().arm(stall_, slot.since_ns + timeout_ns);
}

void Backchannel::on_stall(Timer& timer) noexcept {
    Backchannel& self = *static_cast<StallTimer&>(timer).home;
    Server& server = self.transport_.server();
    const std::uint64_t now = self.loop().now_ns(), timeout_ns = server.options.stall_timeout_ns;
    std::uint64_t next = UINT64_MAX;
    for (std::uint32_t i = 0; i < self.slot_count_; ++i) {
        const Slot& slot = self.slots_[i];
        if (slot.state != SlotState::posted || (slot.send_done && !slot.abandoned)) continue;
        next = std::min(next, slot.since_ns + timeout_ns);
    }
    if (next == UINT64_MAX || !self.connected()) return;
    if (now < next) return self.loop().arm(self.stall_, next);
    ++server.counters.stalled;
    self.transport_.close();
}

void Backchannel::post(Slot& slot) noexcept {
    ++counters_.calls;
    slot.state = SlotState::posted;
    watch(slot);
    const auto size = narrow<std::uint32_t>(slot.call.head.size() + slot.call.tail.size());
    auto header = rpcrdma::encode_call(slot.memory.first(kMessageAt),
                                       {slot.xid, credits_.requested(), rpcrdma::Proc::msg}, {});
    NR_ASSERT(header && *header == kMessageAt);
    slot.sge = transport_.io().sge(slot.memory.first(kMessageAt + size));
    slot.wr.sgl = {&slot.sge, 1};
    slot.chain = {};
    slot.chain.push_back(slot.wr);
    transport_.io().post(slot);
}

void Backchannel::on_posted(pools::Posting& posting, Result<void> result) noexcept {
    if (result) return;
    Slot& slot = static_cast<Slot&>(posting);
    slot.send_done = true;  // never begun; the end of the connection completes it
    slot.home->transport_.close();
}

void Backchannel::on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Slot& slot = static_cast<Slot&>(cqe);
    Backchannel& self = *slot.home;
    slot.send_done = true;
    if (wc.status != verbs::WcStatus::success) {
        self.transport_.note_lost(wc.status);
        self.transport_.close();
    }
    self.transport_.io().on_send_room();
    if (slot.outcome) self.finish(slot);
}

Backchannel::Slot* Backchannel::find(std::uint32_t xid) noexcept {
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
        Slot& slot = slots_[i];
        if (slot.state == SlotState::posted && slot.xid == xid && !slot.outcome) return &slot;
    }
    return nullptr;
}

bool Backchannel::forgive(std::uint32_t xid) noexcept {
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
        if (slots_[i].answered != xid) continue;
        slots_[i].answered.reset();
        return true;
    }
    return false;
}

bool Backchannel::busy() const noexcept {
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
        if (slots_[i].state != SlotState::free && !slots_[i].abandoned) return true;
    }
    return false;
}

bool Backchannel::is_ours(std::span<const std::byte> frame) noexcept {
    return is_backward_reply(frame) || is_error(frame);
}

void Backchannel::take_frame(std::span<const std::byte> frame) noexcept {
    const bool reply = is_backward_reply(frame);
    Slot* const slot = find(word(frame, 0));
    if (slot == nullptr) {
        ++counters_.bad_replies;
        if (!forgive(word(frame, 0))) transport_.note_fault();
        return;
    }
    slot->answered = slot->xid;
    credits_.on_grant(word(frame, 2 * kWord));
    credits_.give_back();
    if (reply) {
        ++counters_.replies;
        const std::span<const std::byte> message = frame.subspan(kMessageAt);
        NR_ASSERT(message.size() <= inline_size_);  // a Receive is no longer
        std::memcpy(slot->reply_room.get(), message.data(), message.size());
        slot->reply = {{slot->reply_room.get(), message.size()}, {}, {}};
        slot->outcome.emplace();
    } else {
        ++counters_.bad_replies;
        slot->outcome.emplace(Error{Errc::bad_message, 0, "the client's reply"});
    }
    if (slot->send_done) finish(*slot);
    schedule();
}

// Reply or end, and the SEND has completed.
void Backchannel::finish(Slot& slot) noexcept {
    slot.state = SlotState::completed;
    if (slot.abandoned) return release(slot);
    const Result<void> outcome = *slot.outcome;
    slot.complete(slot, outcome);
}

void Backchannel::on_end() noexcept {
    open_ = false;
    while (!waiting_.empty()) {
        Slot& slot = static_cast<Slot&>(waiting_.pop_front());
        slot.outcome.emplace(Error{Errc::reconnect, 0, "disconnected"});
        finish(slot);
    }
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
        Slot& slot = slots_[i];
        if (slot.state != SlotState::posted) continue;
        NR_ASSERT(slot.send_done);
        if (!slot.outcome) slot.outcome.emplace(Error{Errc::reconnect, 0, "disconnected"});
        finish(slot);
    }
    wake_callers();
}

}  // namespace nfsrdma::svcrdma
