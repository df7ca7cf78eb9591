#include "pools/mr_pool.hpp"

#include <bit>

#include "base/bytes.hpp"
#include "pools/page_list.hpp"

// Operation. Keys are allocated once; each use binds one to memory by REG_MR and ends by the peer's
// SEND_WITH_INV or our LOCAL_INV. A key whose fate is not known, because its queue pair was
// flushed, is stale until it is replaced.
//
// Ownership. (1) An MR is home (idle or stale) or leased: put() asserts the state, ~MrPool that all
// are home. (2) A LOCAL_INV is formed only for a key that is bound: form_invalidate() asserts it
// (one for a free key brings some devices down).
//
// Errors. Errc::again when every key is in use.
namespace nfsrdma::pools {

const char* to_string(MrState state) noexcept {
    switch (state) {
        case MrState::idle:
            return "idle";
        case MrState::bound:
            return "bound";
        case MrState::invalidating:
            return "invalidating";
        case MrState::stale:
            return "stale";
    }
    return "?";
}

Result<void> Mr::bind(const MrTarget& target) noexcept {
    NR_ASSERT(state == MrState::idle);
    NR_TRY(fast->map(target.pages, kPageSize, target.offset, target.length, target.iova,
                     target.access));
    reg_wr.cqe = this;
    reg_wr.op = verbs::SendOp::reg_mr;
    reg_wr.signaled = false;
    reg_wr.rkey = fast->rkey();
    reg_wr.mr = fast.get();
    state = MrState::bound;
    return {};
}

void Mr::form_invalidate() noexcept {
    NR_ASSERT(state == MrState::bound);
    inv_wr.cqe = &inv;
    inv_wr.op = verbs::SendOp::local_inv;
    inv_wr.signaled = false;
    inv_wr.fenced = false;
    inv_wr.rkey = fast->rkey();
    inv_wr.mr = fast.get();
    state = MrState::invalidating;
}

void Mr::on_invalidated() noexcept {
    NR_ASSERT(live());
    state = MrState::idle;
}

void Mr::on_flushed() noexcept {
    NR_ASSERT(live());
    state = MrState::stale;
}

void Mr::on_never_posted() noexcept {
    NR_ASSERT(live());
    fast->unmap();
    state = MrState::idle;
}

Result<std::unique_ptr<MrPool>> MrPool::create(verbs::ProtectionDomain& pd, std::uint32_t count,
                                               std::uint32_t pages_each) {
    std::unique_ptr<MrPool> pool(new MrPool);  // NOLINT(cppcoreguidelines-owning-memory)
    pool->pd_ = &pd;
    pool->pages_each_ = pages_each;
    pool->mrs_ = std::make_unique<Mr[]>(count);
    const std::uint32_t slots = std::bit_ceil(2 * count + 1);
    pool->slots_ = std::make_unique<Mr*[]>(slots);
    pool->slot_mask_ = slots - 1;
    for (std::uint32_t i = 0; i < count; ++i) {
        Mr& mr = pool->mrs_[i];
        NR_TRY_ASSIGN(mr.fast, pd.alloc_fast_mr(pages_each));
        mr.inv.mr = &mr;
        mr.home = pool.get();
        pool->free_.push_back(mr);
        pool->count_ = i + 1;
    }
    pool->index();
    return pool;
}

MrPool::~MrPool() {
    NR_ASSERT(full());
    free_.clear();
    stale_.clear();
}

namespace {

constexpr std::uint32_t kKeyByteBits = 8;  // the low byte of a key changes with every bind

std::uint32_t slot_of(verbs::Rkey rkey, std::uint32_t mask) noexcept {
    return (((static_cast<std::uint32_t>(rkey) >> kKeyByteBits) * 0x9E3779B1u) >> 8) & mask;
}

}  // namespace

void MrPool::index() noexcept {
    for (std::uint32_t i = 0; i <= slot_mask_; ++i)
        slots_[i] = nullptr;
    for (std::uint32_t i = 0; i < count_; ++i) {
        if (mrs_[i].fast == nullptr) continue;  // dropped
        std::uint32_t at = slot_of(mrs_[i].fast->rkey(), slot_mask_);
        while (slots_[at] != nullptr)
            at = (at + 1) & slot_mask_;
        slots_[at] = &mrs_[i];
    }
}

Result<Lease<Mr>> MrPool::get() noexcept {
    if (free_.empty()) {
        ++dry_count_;
        return Error{Errc::again, 0, "no key is free"};
    }
    return Lease<Mr>::reclaim(free_.pop_front());
}

// To the back: a key rests as long as it can, so that a late access with an old advertisement meets
// an old key byte.
void MrPool::put(Mr& mr) noexcept {
    NR_ASSERT(mr.home == this);
    NR_ASSERT(mr.state == MrState::idle || mr.state == MrState::stale);
    mr.user = nullptr;
    mr.carrier = nullptr;
    (mr.state == MrState::idle ? free_ : stale_).push_back(mr);
}

Mr* MrPool::find(verbs::Rkey rkey) noexcept {
    for (std::uint32_t at = slot_of(rkey, slot_mask_); slots_[at] != nullptr;
         at = (at + 1) & slot_mask_) {
        if (slots_[at]->fast->rkey() == rkey) return slots_[at];
    }
    return nullptr;
}

void MrPool::drop_stale() noexcept {
    if (stale_.empty()) return;
    for (Mr& mr : stale_)
        mr.fast.reset();
    index();
}

Result<std::uint32_t> MrPool::renew_stale() noexcept {
    std::uint32_t renewed = 0;
    while (!stale_.empty()) {
        NR_TRY_ASSIGN(std::unique_ptr<verbs::FastMr> fresh, pd_->alloc_fast_mr(pages_each_));
        Mr& mr = stale_.pop_front();
        mr.fast = std::move(fresh);
        mr.state = MrState::idle;
        free_.push_back(mr);
        ++renewed;
    }
    if (renewed > 0) index();
    return renewed;
}

}  // namespace nfsrdma::pools
