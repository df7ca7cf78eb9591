#include "verbs/rdmacore/cq.hpp"

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/device.hpp"
#include "verbs/rdmacore/qp.hpp"

// Operation. poll() takes a batch from the device and hands each completion to its queue pair.
// While the loop is awake it polls; before it sleeps, arm() asks the device for an event on the
// completion channel and looks once more.
//
// Ownership. 1. A work request id names slot and generation of its queue pair: completions of one
// that is gone find nobody. 2. Every work request has a place in the queue (attach).
//
// Errors. Answers of the device that fit no queue pair are dropped.
namespace nfsrdma::verbs::rdmacore {

namespace {
constexpr std::uint32_t kSlotsMax = 0xFFFF;
}

RdmaCq::RdmaCq(RdmaDevice& device, std::uint32_t entries) noexcept
    : device_(device), entries_(entries) {}

Result<std::unique_ptr<RdmaCq>> RdmaCq::create(RdmaDevice& device, std::uint32_t entries) {
    if (entries == 0 || entries > device.max_cqe())
        return Error{Errc::invalid_argument, 0, "create completion queue"};
    std::unique_ptr<RdmaCq> cq(new RdmaCq(device, entries));
    cq->cq_ = ibv_create_cq(&device.context(), static_cast<int>(entries), cq.get(),
                            &device.comp_channel(), 0);
    if (cq->cq_ == nullptr) return Error{Errc::system, errno, "create completion queue"};
    return cq;
}

RdmaCq::~RdmaCq() {
    NR_ASSERT(qps_ == 0);
    if (cq_ == nullptr) return;
    if (const int error = ibv_destroy_cq(cq_); error != 0)
        log::error("ibv_destroy_cq: error {}", error);
}

Result<WrId> RdmaCq::attach(RdmaQp& qp, std::uint32_t wrs) {
    const std::uint32_t needed = reserved_ + wrs;
    if (needed > device_.max_cqe()) return Error{Errc::too_big, 0, "completion queue"};
    if (needed > entries_) {
        const int error = ibv_resize_cq(cq_, static_cast<int>(needed));
        if (error != 0) return Error{Errc::system, error, "resize completion queue"};
        entries_ = needed;
    }
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
    std::uint32_t count = std::exchange(early_count_, 0);
    if (count > 0) {
        std::copy_n(early_.begin(), count, batch.begin());
    } else {
        count = static_cast<std::uint32_t>(std::max(0, ibv_poll_cq(cq_, kBatch, batch.data())));
    }
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
    if (early_count_ > 0 || !flushing_.empty()) return false;
    if (armed_) return true;
    if (ibv_req_notify_cq(cq_, 0) != 0) return true;
    armed_ = true;
    early_count_ = static_cast<std::uint32_t>(std::max(0, ibv_poll_cq(cq_, kBatch, early_.data())));
    return early_count_ == 0;
}

}  // namespace nfsrdma::verbs::rdmacore
