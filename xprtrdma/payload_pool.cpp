#include "xprtrdma/payload_pool.hpp"

#include <algorithm>
#include <limits>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace nfsrdma::xprtrdma {
namespace {

bool lies_in(std::span<const std::byte> memory, std::span<const std::byte> whole) noexcept {
    const std::uint64_t begin = address_of(whole.data());
    const std::uint64_t at = address_of(memory.data());
    return at >= begin && at - begin <= whole.size() &&
           memory.size() <= whole.size() - (at - begin);
}

}  // namespace

Result<std::unique_ptr<PayloadPool>> PayloadPool::create(
    pools::Arena& arena, std::span<const pools::PageListPool::ClassSpec> classes) {
    std::unique_ptr<PayloadPool> pool(new PayloadPool());
    pool->arena_ = &arena;
    for (const auto& spec : classes)
        pool->count_ += spec.count;
    NR_ASSERT(pool->count_ < std::numeric_limits<std::uint16_t>::max());
    NR_TRY_ASSIGN(pool->lists_, pools::PageListPool::create(arena, classes));
    pool->slots_ = std::make_unique<PayloadSlot[]>(pool->count_);
    for (std::uint32_t i = 0; i < pool->count_; ++i)
        pool->free_.push_back(pool->slots_[i]);
    pool->slot_of_page_ =
        std::make_unique<std::uint16_t[]>(arena.memory().size() / pools::kPageSize + 1);
    return pool;
}

PayloadPool::~PayloadPool() {
    NR_ASSERT(lists_ == nullptr || full());
    free_.clear();
}

Result<sunrpc::Payload> PayloadPool::get(std::uint32_t bytes,
                                         sunrpc::PayloadOwner& owner) noexcept {
    NR_TRY_ASSIGN(pools::Lease<pools::PageList> list, lists_->get(std::max(bytes, 1u)));
    // There are as many slots as page lists.
    PayloadSlot& slot = free_.pop_front();
    const std::span<std::byte> memory = list->bytes();
    slot.list = std::move(list);
    slot.lent = true;
    const auto index = narrow<std::uint16_t>(&slot - slots_.get() + 1);
    const std::size_t first =
        static_cast<std::size_t>(memory.data() - arena_->memory().data()) / pools::kPageSize;
    std::fill_n(slot_of_page_.get() + first, memory.size() / pools::kPageSize, index);
    return sunrpc::Payload(owner, &slot, memory.first(bytes));
}

bool PayloadPool::release(void* cookie) noexcept {
    auto& slot = *static_cast<PayloadSlot*>(cookie);
    NR_ASSERT(slot.lent);
    slot.lent = false;
    return free_if_unused(slot);
}

PayloadSlot* PayloadPool::find(std::span<const std::byte> memory) noexcept {
    if (!lies_in(memory, arena_->memory())) return find_own(memory);
    const std::size_t page =
        static_cast<std::size_t>(memory.data() - arena_->memory().data()) / pools::kPageSize;
    const std::uint16_t index = slot_of_page_[page];
    if (index == 0) return nullptr;
    PayloadSlot& slot = slots_[index - 1u];
    // The entry may be left over from an earlier use of the slot.
    if (!slot.lent || !lies_in(memory, slot.list->bytes())) return nullptr;
    return &slot;
}

bool PayloadPool::unpin(PayloadSlot& slot) noexcept {
    NR_ASSERT(slot.pins > 0);
    --slot.pins;
    return free_if_unused(slot);
}

bool PayloadPool::free_if_unused(PayloadSlot& slot) noexcept {
    if (slot.pins > 0) return false;
    if (!slot.list) return true;  // the caller's own: it may be asked for
    if (slot.lent) return false;
    slot.list.reset();
    free_.push_back(slot);
    return true;
}

// ---- memory of the caller's own
// --------------------------------------------------------------------------------------

// The first that begins behind where `memory` begins.
PayloadPool::OwnList::const_iterator PayloadPool::behind(
    std::span<const std::byte> memory) const noexcept {
    return std::upper_bound(
        own_.begin(), own_.end(), address_of(memory.data()),
        [](std::uint64_t at, const auto& own) { return at < address_of(own->memory.data()); });
}

PayloadSlot* PayloadPool::find_own(std::span<const std::byte> memory) const noexcept {
    const auto at = behind(memory);
    if (at == own_.begin()) return nullptr;
    Own& found = **(at - 1);
    return found.slot.lent && lies_in(memory, found.memory) ? &found.slot : nullptr;
}

void PayloadPool::add_own(std::span<std::byte> memory) {
    auto made = std::make_unique<Own>();
    made->memory = memory;
    made->slot.lent = true;
    own_.insert(behind(memory), std::move(made));
}

PayloadSlot* PayloadPool::own(std::span<const std::byte> memory) const noexcept {
    const auto at = behind(memory);
    if (at == own_.begin()) return nullptr;
    Own& found = **(at - 1);
    const bool same = found.memory.data() == memory.data() && found.memory.size() == memory.size();
    return same ? &found.slot : nullptr;
}

void PayloadPool::remove_own(std::span<const std::byte> memory) noexcept {
    const PayloadSlot* const slot = own(memory);
    NR_ASSERT(slot != nullptr && slot->pins == 0);
    own_.erase(behind(memory) - 1);
}

}  // namespace nfsrdma::xprtrdma
