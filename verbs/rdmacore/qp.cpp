#include "verbs/rdmacore/qp.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/device.hpp"
#include "verbs/rdmacore/memlock.hpp"
#include "verbs/rdmacore/umr.hpp"

// Operation. A chain is checked, its keys are moved to their next states, it is lowered into
// preallocated work requests and posted by one ibv_post_send. Each work request takes an entry of a
// ring; a completion retires its entry and all before it, which have succeeded silently. When the
// queue pair fails, a last signaled work request is posted: its completion says that the device has
// nothing more to tell.
//
// Ownership. 1. Every entry ends exactly once, in order: silently, by one completion of the device,
// or by one of ours (flush_one). 2. The keys that are bound on a queue pair are released before it
// is destroyed.
//
// Errors. The first error ends the connection; the owner is told once. A device that does not flush
// in time, is gone, or leaves it in doubt what of a chain it took, has its queue pair destroyed:
// nothing of it can complete afterwards, and we flush. So it is, a moment after its last word,
// where the device completes no last work request (Quirks::drains).
namespace nfsrdma::verbs::rdmacore {

namespace {
// How long a failed queue pair may tell nothing, while the loop polls it, until it is destroyed.
constexpr std::uint64_t kFlushWaitNs = 3 * kNsPerSec;
// Of a device that tells nothing after an error but what it knew then: it is in the completion
// queue already.
constexpr std::uint64_t kLastWordsNs = 20 * kNsPerMs;
// Of what is left to be told, while nobody has looked yet.
constexpr std::uint32_t kNotLooked = UINT32_MAX;
constexpr std::uint32_t kDrainWrs = 1;

QpOptions checked(const QpOptions& o) noexcept {
    return {std::max(o.send_wrs, 1u), std::max(o.recv_wrs, 1u), std::max(o.send_sges, 1u),
            std::max(o.recv_sges, 1u)};
}
}  // namespace

RdmaQp::RdmaQp(RdmaDevice& device, RdmaPd& pd, RdmaCq& cq, const QpOptions& options)
    : QueuePair(options.send_wrs, options.recv_wrs),
      device_(device),
      pd_(pd),
      cq_(cq),
      send_wrs_(options.send_wrs),
      recv_wrs_(options.recv_wrs),
      send_sges_(options.send_sges),
      recv_sges_(options.recv_sges),
      sends_(std::bit_ceil(options.send_wrs)),
      recvs_(std::bit_ceil(options.recv_wrs)),
      send_mask_(std::bit_ceil(options.send_wrs) - 1),
      recv_mask_(std::bit_ceil(options.recv_wrs) - 1),
      send_scratch_(options.send_wrs),
      sge_scratch_(std::size_t{options.send_wrs} * options.send_sges),
      recv_scratch_(options.recv_wrs),
      recv_sge_scratch_(std::size_t{options.recv_wrs} * options.recv_sges),
      flush_timer_(
          [](Timer& timer) noexcept { static_cast<FlushTimer&>(timer).qp->on_flush_wait(); }),
      tell_task_([](Task& task) noexcept { static_cast<TellTask&>(task).qp->tell(); }) {
    flush_timer_.qp = this;
    tell_task_.qp = this;
    device_.add(*this);
}

Result<std::unique_ptr<RdmaQp>> RdmaQp::create(RdmaDevice& device, RdmaPd& pd, RdmaCq& cq,
                                               const QpOptions& wanted) {
    constexpr Error kBad{Errc::invalid_argument, 0, "create queue pair"};
    if (device.gone()) return Error{Errc::system, ENODEV, "create queue pair"};
    const QpOptions options = checked(wanted);
    const DeviceCaps& caps = device.caps();
    if (&pd.device() != &device || &cq.device() != &device) return kBad;
    if (options.send_wrs > caps.max_send_wr || options.recv_wrs > caps.max_recv_wr) return kBad;
    if (options.send_sges > caps.max_send_sge || options.recv_sges > caps.max_recv_sge) return kBad;
    std::unique_ptr<RdmaQp> qp(new RdmaQp(device, pd, cq, options));
    NR_TRY_ASSIGN(qp->id_, cq.attach(*qp, options.send_wrs + options.recv_wrs + kDrainWrs));
    qp->attached_ = true;
    ibv_qp_init_attr init{};
    init.qp_context = qp.get();
    init.send_cq = init.recv_cq = &cq.handle();
    init.qp_type = IBV_QPT_RC;
    init.cap = {options.send_wrs + kDrainWrs, options.recv_wrs, options.send_sges,
                options.recv_sges, 0};
    qp->qp_ = device.strategy() == Strategy::umr ? umr::create_qp(pd.handle(), init)
                                                 : ibv_create_qp(&pd.handle(), &init);
    if (qp->qp_ == nullptr) {
        const int error = errno;
        explain_memory("make a queue pair of " + std::to_string(options.send_wrs) + " and " +
                           std::to_string(options.recv_wrs) + " places",
                       error);
        return Error{Errc::system, error, "create queue pair"};
    }
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = device.first_port();
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    NR_TRY(qp->modify(attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    return qp;
}

RdmaQp::~RdmaQp() {
    if (tell_task_.linked()) device_.loop().cancel(tell_task_);
    owner_ = nullptr;
    state_ = State::error;
    destroy_handle();
    cq_.stop_flush(*this);
    if (attached_) cq_.detach(id_, send_wrs_ + recv_wrs_ + kDrainWrs);
    device_.remove(*this);
}

Result<void> RdmaQp::modify(ibv_qp_attr& attr, int mask) noexcept {
    if (qp_ == nullptr) return Error{Errc::reconnect, 0, "modify queue pair"};
    const int error = ibv_modify_qp(qp_, &attr, mask);
    if (error != 0) return Error{Errc::system, error, "modify queue pair"};
    return {};
}

void RdmaQp::set_ready() noexcept {
    if (state_ == State::init) state_ = State::ready;
}

std::uint64_t RdmaQp::send_id(std::uint32_t index) const noexcept {
    WrId id = id_;
    id.index = index & WrId::kIndexMask;
    return id.pack();
}

Result<void> RdmaQp::check(const SendWr& wr) noexcept {
    const std::uint32_t read_sges = device_.caps().max_read_sge;
    const bool many_read = wr.op == SendOp::rdma_read && read_sges > 0 && wr.sgl.size() > read_sges;
    if (wr.sgl.size() > send_sges_ || many_read)
        return Error{Errc::invalid_argument, 0, "send SGEs"};
    if (wr.op != SendOp::reg_mr && wr.op != SendOp::local_inv) return {};
    auto* const key = static_cast<KeyMr*>(wr.mr);
    if (key == nullptr) return Error{Errc::invalid_argument, 0, "work request without a region"};
    return wr.op == SendOp::reg_mr ? key->stage_bind(*this) : key->stage_invalidate(*this, wr.rkey);
}

Result<void> RdmaQp::stage(const SendWr& first) noexcept {
    for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
        const Result<void> good = check(*wr);
        if (good) continue;
        roll_back(first, wr);
        return good;
    }
    return {};
}

// The keys of the chain up to `end` are as before it was staged.
void RdmaQp::roll_back(const SendWr& first, const SendWr* end) noexcept {
    for (const SendWr* wr = &first; wr != end; wr = wr->next) {
        if (wr->op == SendOp::reg_mr || wr->op == SendOp::local_inv)
            static_cast<KeyMr*>(wr->mr)->roll_back();
    }
}

// nullptr when there is nothing for the device: keys that are registered already need no work
// request unless somebody waits for it.
ibv_send_wr* RdmaQp::lower_chain(const SendWr& first) noexcept {
    std::uint32_t index = send_tail_, count = 0;
    std::size_t sges = 0;
    for (const SendWr* wr = &first; wr != nullptr; wr = wr->next, ++index) {
        const bool keyed = wr->op == SendOp::reg_mr || wr->op == SendOp::local_inv;
        const BindTarget* const bind =
            keyed ? &static_cast<const KeyMr*>(wr->mr)->bind_target() : nullptr;
        if (keyed && !bind->bound_by_device() && !wr->signaled && !wr->ledger_signal) continue;
        const std::span<ibv_sge> room(sge_scratch_.data() + sges, wr->sgl.size());
        sges += wr->sgl.size();
        send_scratch_[count] = lower_send(*wr, bind, send_id(index), room);
        send_scratch_[count].next = nullptr;
        if (count > 0) send_scratch_[count - 1].next = &send_scratch_[count];
        ++count;
    }
    return count == 0 ? nullptr : send_scratch_.data();
}

Result<void> RdmaQp::do_post_send(SendWr& first) noexcept {
    if (state_ != State::ready) return Error{Errc::reconnect, 0, "queue pair not connected"};
    NR_TRY(stage(first));
    ibv_send_wr* const lowered = lower_chain(first);
    ibv_send_wr* refused = nullptr;
    const int error = lowered == nullptr ? 0 : post(lowered, &refused);
    if (error != 0 && refused == lowered) {
        roll_back(first, nullptr);
        if (error == ENOMEM) return Error{Errc::again, error, "post send"};
        fail(true);
        return Error{Errc::reconnect, error, "post send"};
    }
    record(first);
    if (error != 0) {
        // Some of it is on its way, or, where the provider does not say which it refused, may be.
        log::warn("{}: ibv_post_send stopped in a chain: error {}", device_.name(), error);
        abandon();
    }
    return {};
}

void RdmaQp::record(const SendWr& first) noexcept {
    for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
        const bool keyed = wr->op == SendOp::reg_mr || wr->op == SendOp::local_inv;
        auto* const key = keyed ? static_cast<KeyMr*>(wr->mr) : nullptr;
        if (key != nullptr) key->commit();
        send_at(send_tail_++) = {wr->cqe, key, wr->op, wr->signaled,
                                 wr->signaled || wr->ledger_signal};
    }
}

Result<void> RdmaQp::do_post_recv(RecvWr& first) noexcept {
    std::uint32_t count = 0;
    std::size_t sges = 0;
    WrId id = id_;
    id.receive = true;
    for (const RecvWr* wr = &first; wr != nullptr; wr = wr->next) {
        if (wr->sgl.size() > recv_sges_) return Error{Errc::invalid_argument, 0, "receive SGEs"};
        id.index = (recv_tail_ + count) & WrId::kIndexMask;
        const std::span<ibv_sge> room(recv_sge_scratch_.data() + sges, wr->sgl.size());
        sges += wr->sgl.size();
        recv_scratch_[count] = lower_recv(*wr, id.pack(), room);
        if (count > 0) recv_scratch_[count - 1].next = &recv_scratch_[count];
        ++count;
    }
    ibv_recv_wr* refused = nullptr;
    const int error = ibv_post_recv(qp_, recv_scratch_.data(), &refused);
    if (error != 0 && refused == recv_scratch_.data()) {
        if (error == ENOMEM) return Error{Errc::again, error, "post receive"};
        fail(true);
        return Error{Errc::reconnect, error, "post receive"};
    }
    for (const RecvWr* wr = &first; wr != nullptr; wr = wr->next)
        recvs_[recv_tail_++ & recv_mask_] = wr->cqe;
    // As of sends: the device's flush and ours must not mix.
    if (error != 0) {
        log::warn("{}: ibv_post_recv stopped in a chain: error {}", device_.name(), error);
        abandon();
    }
    return {};
}

void RdmaQp::on_completion(const ibv_wc& wc, const WrId& id) noexcept {
    if (qp_ == nullptr) return;  // we flush
    if (id.receive) {
        on_recv(wc, id.index);
    } else if (id.index == WrId::kDrain) {
        on_drained();
    } else {
        on_send(wc, id.index);
    }
}

// Those that were not signaled, and are known to have ended by what came after them.
void RdmaQp::retire_silently(std::uint32_t count) noexcept {
    for (std::uint32_t i = 0; i < count; ++i) {
        const SendEntry& entry = send_at(send_head_ + i);
        if (entry.op == SendOp::local_inv) entry.key->on_invalidated();
    }
    send_head_ += count;
    credit_send(count);
}

void RdmaQp::on_send(const ibv_wc& wc, std::uint32_t index) noexcept {
    const std::uint32_t before = (index - send_head_) & WrId::kIndexMask;
    if (before >= send_tail_ - send_head_) return;  // no such work request is posted
    const SendEntry entry = send_at(send_head_ + before);
    Wc out;
    out.status = status_of(wc.status, entry.op);
    const bool good = out.status == WcStatus::success;
    if (good) {
        retire_silently(before + 1);
        if (entry.op == SendOp::rdma_read) out.byte_len = wc.byte_len;
    } else {
        retire_silently(before);
        ++send_head_;
        credit_send(1);
        if (out.status == WcStatus::rnr_exceeded) ++counters_.rnr_naks_received;
        fail(true);
    }
    if (drained_) retire_unreported();
    settle();
    if ((entry.signaled || !good) && entry.cqe != nullptr && entry.cqe->done != nullptr)
        entry.cqe->done(*entry.cqe, out);
}

void RdmaQp::on_recv(const ibv_wc& wc, std::uint32_t index) noexcept {
    // Receives of one queue complete in order.
    if (recv_head_ == recv_tail_ || index != (recv_head_ & WrId::kIndexMask)) return;
    Cqe* const cqe = recvs_[recv_head_++ & recv_mask_];
    credit_recv();
    Wc out;
    out.status = status_of_recv(wc.status);
    if (out.status == WcStatus::success) {
        out.byte_len = wc.byte_len;
        out.with_invalidate = (wc.wc_flags & device_.quirks().invalidated_flags) != 0;
        if (out.with_invalidate) {
            out.invalidated = Rkey{wc.invalidated_rkey};
            pd_.on_remote_invalidate(*this, out.invalidated);
            ++counters_.remote_invs;
        }
        if (!std::exchange(received_, true)) {
            tell_first_ = true;
            tell_later();
        }
    } else {
        fail(true);
    }
    settle();
    if (cqe != nullptr && cqe->done != nullptr) cqe->done(*cqe, out);
}

// Nothing is left to be flushed: nobody needs to watch.
void RdmaQp::settle() noexcept {
    if (state_ == State::error && outstanding() == 0 && flush_timer_.armed())
        device_.loop().disarm(flush_timer_);
}

// What was posted before the last work request has ended. A signaled one that did still has its own
// completion, which some devices tell later.
void RdmaQp::on_drained() noexcept {
    if (state_ != State::error || drained_) return;
    drained_ = true;
    retire_unreported();
    settle();
}

// Those in front that the device will not tell about any more.
void RdmaQp::retire_unreported() noexcept {
    std::uint32_t count = 0;
    while (send_head_ + count != send_tail_ && !send_at(send_head_ + count).reported)
        ++count;
    retire_silently(count);
}

void RdmaQp::flush_one() noexcept {
    Cqe* cqe = nullptr;
    if (send_head_ != send_tail_) {
        cqe = send_at(send_head_++).cqe;
        credit_send(1);
    } else if (recv_head_ != recv_tail_) {
        cqe = recvs_[recv_head_++ & recv_mask_];
        credit_recv();
    }
    if (outstanding() == 0) cq_.stop_flush(*this);
    const Wc flushed{.status = WcStatus::flushed};
    if (cqe != nullptr && cqe->done != nullptr) cqe->done(*cqe, flushed);  // may destroy this
}

void RdmaQp::enter_error(bool tell) noexcept {
    if (state_ == State::error) return;
    state_ = State::error;
    if (!tell || owner_ == nullptr) return;
    tell_fatal_ = true;
    tell_later();
}

void RdmaQp::fail(bool tell) noexcept {
    if (state_ == State::error) return;
    const bool connected = state_ == State::ready;
    enter_error(tell);
    // One that was never connected has nothing under way.
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    const bool drains = device_.quirks().drains;
    if (!connected || !modify(attr, IBV_QP_STATE) || (drains && !post_drain()))
        return destroy_handle();
    left_at_last_look_ = kNotLooked;
    wait_for_flush();
}

void RdmaQp::wait_for_flush() noexcept {
    const std::uint64_t wait_ns = device_.quirks().drains ? kFlushWaitNs : kLastWordsNs;
    device_.loop().arm(flush_timer_, device_.loop().now_ns() + wait_ns);
}

// Only a whole interval without a word counts, and not the first: a loop that was late has not
// polled since the error, and what the device said meanwhile waits in the queue.
void RdmaQp::on_flush_wait() noexcept {
    if (std::exchange(left_at_last_look_, outstanding()) != outstanding()) return wait_for_flush();
    if (device_.quirks().drains)
        log::warn("{}: a queue pair did not flush; it is destroyed", device_.name());
    destroy_handle();
}

void RdmaQp::abandon() noexcept {
    enter_error(true);
    destroy_handle();
}

bool RdmaQp::post_drain() noexcept {
    WrId id = id_;
    id.index = WrId::kDrain;
    ibv_send_wr last{};
    last.wr_id = id.pack();
    last.opcode = IBV_WR_RDMA_WRITE;
    last.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* refused = nullptr;
    return post(&last, &refused) == 0;
}

int RdmaQp::post(ibv_send_wr* first, ibv_send_wr** refused) noexcept {
    if (device_.strategy() == Strategy::umr) return umr::post(*qp_, first, refused);
    return ibv_post_send(qp_, first, refused);
}

// Nothing reaches the memory of its work requests afterwards: what is left is flushed by us.
void RdmaQp::destroy_handle() noexcept {
    if (flush_timer_.armed()) device_.loop().disarm(flush_timer_);
    while (!keys_.empty())
        keys_.front().release();
    ibv_qp* const qp = std::exchange(qp_, nullptr);
    if (qp == nullptr) return;
    if (const int error = ibv_destroy_qp(qp); error != 0)
        log::error("{}: ibv_destroy_qp: error {}", device_.name(), error);
    if (outstanding() > 0) cq_.flush_later(*this);
}

void RdmaQp::tell_later() noexcept {
    if (owner_ != nullptr && !tell_task_.linked()) device_.loop().ready(tell_task_);
}

void RdmaQp::tell() noexcept {
    if (owner_ == nullptr) return;
    if (std::exchange(tell_first_, false)) {
        if (tell_fatal_) tell_later();  // one at a time: the owner may destroy us
        owner_->on_first_receive();
    } else if (std::exchange(tell_fatal_, false)) {
        owner_->on_fatal();
    }
}

}  // namespace nfsrdma::verbs::rdmacore
