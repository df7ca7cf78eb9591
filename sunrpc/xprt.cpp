#include "sunrpc/xprt.hpp"

namespace nfsrdma::sunrpc {

void Xprt::wait_for_slot(SlotWaiter& waiter) noexcept {
    NR_ASSERT(waiter.wake != nullptr);
    if (waiter.linked()) return;
    if (slot_waiters_.empty()) on_slot(wake_waiters, this);
    slot_waiters_.push_back(waiter);
}

void Xprt::stop_waiting(SlotWaiter& waiter) noexcept {
    if (waiter.linked()) slot_waiters_.erase(waiter);
}

Result<void> Xprt::register_memory(std::span<std::byte>) {
    return Error{Errc::unsupported, 0, "this transport takes no memory of its caller's"};
}

Result<void> Xprt::deregister_memory(std::span<std::byte>) noexcept {
    return Error{Errc::invalid_argument, 0, "memory that is not registered"};
}

void Xprt::wake_waiters(void* self) noexcept {
    List<SlotWaiter, SlotWaiter>& waiters = static_cast<Xprt*>(self)->slot_waiters_;
    // Who is told `again` once more comes back to the end and is not woken in this round.
    for (std::uint32_t left = waiters.size(); left != 0 && !waiters.empty(); --left) {
        SlotWaiter& waiter = waiters.pop_front();
        waiter.wake(waiter);
    }
}

}  // namespace nfsrdma::sunrpc
