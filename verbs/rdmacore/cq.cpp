#include "verbs/rdmacore/cq.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/device.hpp"
#include "verbs/rdmacore/memlock.hpp"
#include "verbs/rdmacore/qp.hpp"

// Operation. poll() takes a batch from the device and hands each completion to its queue pair.
// While the loop is awake it polls; before it sleeps, arm() asks the device for an event on the
// completion channel, and has the loop look once more.
//
// Ownership. 1. A work request id names slot and generation of its queue pair: completions of one
// that is gone find nobody. 2. Every work request has a place in the queue (attach).
//
// Errors. Answers of the device that fit no queue pair are dropped. A queue that the device gives
// up on, or does not wake us for, takes its queue pairs with it and no others.
namespace nfsrdma::verbs::rdmacore {

namespace {
constexpr std::uint32_t kSlotsMax = 0xFFFF;
// Room for the last work request of a queue pair, which those who ask for a queue do not know of:
// each connection has its own. Who puts two queue pairs on one queue, as a client that asks beside
// its connection does, counts the second one's by itself. Several families of devices (siw, hns)
// cannot resize a queue.
constexpr std::uint32_t kDrains = 1;

std::uint32_t given(const ibv_cq& cq) noexcept {
    return cq.cqe > 0 ? static_cast<std::uint32_t>(cq.cqe) : 0;
}
}  // namespace

RdmaCq::RdmaCq(RdmaDevice& device, std::uint32_t entries) noexcept
    : device_(device), entries_(entries) {}

Result<std::unique_ptr<RdmaCq>> RdmaCq::create(RdmaDevice& device, std::uint32_t entries) {
    if (entries == 0 || entries > device.max_cqe())
        return Error{Errc::invalid_argument, 0, "create completion queue"};
    const std::uint32_t room = entries + std::min(kDrains, device.max_cqe() - entries);
    std::unique_ptr<RdmaCq> cq(new RdmaCq(device, room));
    cq->cq_ = ibv_create_cq(&device.context(), static_cast<int>(room), cq.get(),
                            &device.comp_channel(), 0);
    if (cq->cq_ == nullptr) {
        const int error = errno;
        explain_memory("make a completion queue of " + std::to_string(room) + " places", error);
        return Error{Errc::system, error, "create completion queue"};
    }
    cq->entries_ = std::max(room, given(*cq->cq_));
    return cq;
}

RdmaCq::~RdmaCq() {
    NR_ASSERT(qps_ == 0);
    if (cq_ == nullptr) return;
    if (const int error = ibv_destroy_cq(cq_); error != 0)
        log::error("ibv_destroy_cq: error {}", error);
}

Result<WrId> RdmaCq::attach(RdmaQp& qp, std::uint32_t wrs) {
    if (failed_) return Error{Errc::reconnect, 0, "the completion queue is in error"};
    const std::uint32_t needed = reserved_ + wrs;
    if (needed > entries_) NR_TRY(grow(needed));
    auto slot =
        std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return s.qp == nullptr; });
    if (slot == slots_.end()) {
        if (slots_.size() == kSlotsMax) return Error{Errc::again, 0, "completion queue"};
        slot = slots_.insert(slots_.end(), Slot{});
    }
    slot->qp = &qp;
    ++slot->generation;
    reserved_ = needed;
    ++qps_;
    return WrId{static_cast<std::uint16_t>(slot - slots_.begin()), slot->generation, 0, false};
}

Result<void> RdmaCq::grow(std::uint32_t entries) noexcept {
    if (entries > device_.max_cqe()) return Error{Errc::too_big, 0, "completion queue"};
    const int result = ibv_resize_cq(cq_, static_cast<int>(entries));
    const int error = result < 0 ? errno : result;
    if (error == EOPNOTSUPP || error == ENOSYS) {
        return Error{Errc::unsupported, error,
                     "a completion queue of this device cannot grow: make it with an entry for "
                     "every work request of its queue pairs"};
    }
    if (error != 0) return Error{Errc::system, error, "resize completion queue"};
    entries_ = std::max(entries, given(*cq_));
    return {};
}

void RdmaCq::detach(const WrId& id, std::uint32_t wrs) noexcept {
    slots_[id.slot].qp = nullptr;
    reserved_ -= wrs;
    --qps_;
}

void RdmaCq::flush_later(RdmaQp& qp) noexcept {
    if (!static_cast<ListHook<FlushList>&>(qp).linked()) flushing_.push_back(qp);
}

void RdmaCq::stop_flush(RdmaQp& qp) noexcept {
    if (static_cast<ListHook<FlushList>&>(qp).linked()) flushing_.erase(qp);
}

std::uint32_t RdmaCq::poll() noexcept {
    std::array<ibv_wc, kBatch> batch;
    const auto count =
        static_cast<std::uint32_t>(std::max(0, ibv_poll_cq(cq_, kBatch, batch.data())));
    for (std::uint32_t i = 0; i < count; ++i)
        deliver(batch[i]);
    // Behind what the device still had to say.
    return count == 0 ? flush_some() : count;
}

void RdmaCq::deliver(const ibv_wc& wc) noexcept {
    const WrId id = WrId::unpack(wc.wr_id);
    if (id.slot >= slots_.size()) return;
    const Slot& slot = slots_[id.slot];
    if (slot.qp != nullptr && slot.generation == id.generation) slot.qp->on_completion(wc, id);
}

std::uint32_t RdmaCq::flush_some() noexcept {
    std::uint32_t done = 0;
    while (done < kBatch && !flushing_.empty()) {
        ++done;
        flushing_.front().flush_one();
    }
    return done;
}

bool RdmaCq::arm() noexcept {
    if (!flushing_.empty()) return false;
    if (armed_ || failed_ || device_.gone()) return true;
    armed_ = true;
    if (const int error = ibv_req_notify_cq(cq_, 0); error != 0) {
        log::error("{}: ibv_req_notify_cq: error {}", device_.name(), error);
        on_error();
    }
    return false;  // what came before the request makes no event
}

void RdmaCq::on_error() noexcept {
    if (std::exchange(failed_, true)) return;
    log::error("{}: a completion queue is in error; its connections end", device_.name());
    for (const Slot& slot : slots_) {
        if (slot.qp != nullptr) slot.qp->abandon();
    }
}

}  // namespace nfsrdma::verbs::rdmacore
