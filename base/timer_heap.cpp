#include "base/timer_heap.hpp"

#include "base/assert.hpp"

namespace nfsrdma {

void TimerHeap::push(Timer& timer, std::uint64_t deadline_ns) {
    const Entry entry{deadline_ns, next_order_++, &timer};
    timer.deadline_ns_ = deadline_ns;
    entries_.push_back(entry);
    sift_up(entries_.size() - 1, entry);
}

void TimerHeap::erase(Timer& timer) noexcept {
    const std::size_t hole = timer.heap_index_;
    NR_ASSERT(hole < entries_.size() && entries_[hole].timer == &timer);
    const Entry last = entries_.back();
    entries_.pop_back();
    if (hole == entries_.size()) return;
    if (hole > 0 && before(last, entries_[(hole - 1) / 2])) {
        sift_up(hole, last);
    } else {
        sift_down(hole, last);
    }
}

Timer& TimerHeap::pop() noexcept {
    NR_ASSERT(!entries_.empty());
    Timer& timer = *entries_.front().timer;
    erase(timer);
    return timer;
}

void TimerHeap::sift_up(std::size_t index, const Entry& entry) noexcept {
    while (index > 0) {
        const std::size_t parent = (index - 1) / 2;
        if (!before(entry, entries_[parent])) break;
        put(index, entries_[parent]);
        index = parent;
    }
    put(index, entry);
}

void TimerHeap::sift_down(std::size_t index, const Entry& entry) noexcept {
    for (;;) {
        std::size_t child = 2 * index + 1;
        if (child >= entries_.size()) break;
        if (child + 1 < entries_.size() && before(entries_[child + 1], entries_[child])) ++child;
        if (!before(entries_[child], entry)) break;
        put(index, entries_[child]);
        index = child;
    }
    put(index, entry);
}

}  // namespace nfsrdma
