#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/loop.hpp"

namespace nfsrdma {

// A binary heap of armed timers; equal deadlines fire in the order they were armed. Owns no timer.
// Allocates only when more timers are armed at once than ever before and than were reserved.
class TimerHeap {
  public:
    static constexpr std::uint64_t kNever = UINT64_MAX;

    explicit TimerHeap(std::size_t reserved) { entries_.reserve(reserved); }
    bool empty() const noexcept { return entries_.empty(); }
    std::size_t size() const noexcept { return entries_.size(); }
    std::uint64_t next_deadline_ns() const noexcept {
        return entries_.empty() ? kNever : entries_.front().deadline_ns;
    }
    // `timer` is in no heap.
    void push(Timer& timer, std::uint64_t deadline_ns);
    // `timer` is in this heap.
    void erase(Timer& timer) noexcept;
    // The earliest timer, removed; the heap is not empty.
    Timer& pop() noexcept;

  private:
    struct Entry {
        std::uint64_t deadline_ns;
        std::uint64_t order;
        Timer* timer;
    };
    static bool before(const Entry& a, const Entry& b) noexcept {
        return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.order < b.order;
    }
    void put(std::size_t index, const Entry& entry) noexcept {
        entries_[index] = entry;
        entry.timer->heap_index_ = static_cast<std::uint32_t>(index);
    }
    void sift_up(std::size_t index, const Entry& entry) noexcept;
    void sift_down(std::size_t index, const Entry& entry) noexcept;

    std::vector<Entry> entries_;
    std::uint64_t next_order_ = 0;
};

}  // namespace nfsrdma
