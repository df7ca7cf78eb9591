#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/list.hpp"
#include "pools/page_list.hpp"
#include "sunrpc/xprt.hpp"

namespace nfsrdma::xprtrdma {

// One payload that is lent to a caller, or that a call still needs after the caller let go of it;
// or memory of the caller's own, without a list, which may hold many.
struct PayloadSlot : ListHook<PayloadSlot> {
    pools::Lease<pools::PageList> list;
    std::uint32_t pins = 0;  // calls in flight that move bytes from or to it
    bool lent = false;       // the caller holds a sunrpc::Payload of it
};

// The payloads of one connection.
//
// Ownership. A page list goes home when its caller has released it *and* no call in flight names
// it: an abandoned call's memory stays with the device (slot.pins > 0 implies slot.list). Memory of
// the caller's own is never among the free slots; it can be removed when no call names it.
class PayloadPool {
  public:
    static Result<std::unique_ptr<PayloadPool>> create(
        pools::Arena& arena, std::span<const pools::PageListPool::ClassSpec> classes);
    ~PayloadPool();
    PayloadPool(const PayloadPool&) = delete;
    PayloadPool& operator=(const PayloadPool&) = delete;

    // Errc::again, Errc::too_big.
    Result<sunrpc::Payload> get(std::uint32_t bytes, sunrpc::PayloadOwner& owner) noexcept;
    // The caller's release; true when memory came home.
    bool release(void* cookie) noexcept;
    // The lent payload in which `memory` lies, or nullptr. O(1).
    PayloadSlot* find(std::span<const std::byte> memory) noexcept;
    static void pin(PayloadSlot& slot) noexcept { ++slot.pins; }
    bool unpin(PayloadSlot& slot) noexcept;
    bool full() const noexcept { return free_.size() == count_; }

    // Memory of the caller's own, no part of which is here already.
    void add_own(std::span<std::byte> memory);
    // Exactly this memory of the caller's, or nullptr.
    PayloadSlot* own(std::span<const std::byte> memory) const noexcept;
    // No call may name it any more; one that does goes on.
    static void withdraw(PayloadSlot& slot) noexcept { slot.lent = false; }
    void remove_own(std::span<const std::byte> memory) noexcept;  // that no call names
    pools::PageListPool& lists() noexcept { return *lists_; }

  private:
    struct Own {
        std::span<std::byte> memory;
        PayloadSlot slot;
    };
    using OwnList = std::vector<std::unique_ptr<Own>>;  // by address
    PayloadPool() = default;
    bool free_if_unused(PayloadSlot& slot) noexcept;
    OwnList::const_iterator behind(std::span<const std::byte> memory) const noexcept;
    PayloadSlot* find_own(std::span<const std::byte> memory) const noexcept;

    pools::Arena* arena_ = nullptr;
    std::unique_ptr<pools::PageListPool> lists_;
    std::unique_ptr<PayloadSlot[]> slots_;
    std::unique_ptr<std::uint16_t[]> slot_of_page_;  // by page of the arena: index + 1
    std::uint32_t count_ = 0;
    List<PayloadSlot, PayloadSlot> free_;
    OwnList own_;
};

}  // namespace nfsrdma::xprtrdma
