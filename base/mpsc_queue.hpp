#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "base/assert.hpp"

namespace nfsrdma {

// A bounded queue from many threads to one: the only bridge between loops. The memory is taken
// once, at construction; push and pop neither allocate nor block. Items of one producer come out in
// the order it pushed them.
template <class T>
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): false sharing costs more
class MpscQueue {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    // `capacity` is a power of two.
    explicit MpscQueue(std::size_t capacity)
        : mask_(capacity - 1), slots_(std::make_unique<Slot[]>(capacity)) {
        NR_ASSERT(capacity >= 2 && (capacity & mask_) == 0);
        for (std::size_t i = 0; i < capacity; ++i) {
            slots_[i].turn.store(i, std::memory_order_relaxed);
        }
    }
    MpscQueue(const MpscQueue&) = delete;
    MpscQueue& operator=(const MpscQueue&) = delete;
    ~MpscQueue() = default;

    std::size_t capacity() const noexcept { return mask_ + 1; }

    // Any thread; false when the queue is full.
    bool push(const T& value) noexcept {
        std::size_t at = tail_.load(std::memory_order_relaxed);
        for (;;) {
            Slot& slot = slots_[at & mask_];
            const std::size_t turn = slot.turn.load(std::memory_order_acquire);
            if (turn == at) {
                if (tail_.compare_exchange_weak(at, at + 1, std::memory_order_relaxed)) {
                    slot.value = value;
                    slot.turn.store(at + 1, std::memory_order_release);
                    return true;
                }
            } else if (turn < at) {
                return false;
            } else {
                at = tail_.load(std::memory_order_relaxed);
            }
        }
    }

    // The one consumer; false when the queue is empty, or its next item is still being written.
    bool pop(T& out) noexcept {
        Slot& slot = slots_[head_ & mask_];
        if (slot.turn.load(std::memory_order_acquire) != head_ + 1) return false;
        out = slot.value;
        slot.turn.store(head_ + mask_ + 1, std::memory_order_release);
        ++head_;
        return true;
    }

  private:
    static constexpr std::size_t kCacheLine = 64;
    struct Slot {
        std::atomic<std::size_t> turn;  // == index: free for that push; == index + 1: filled by it
        T value;
    };
    const std::size_t mask_;
    const std::unique_ptr<Slot[]> slots_;
    alignas(kCacheLine) std::atomic<std::size_t> tail_{0};
    alignas(kCacheLine) std::size_t head_ = 0;
};

}  // namespace nfsrdma
