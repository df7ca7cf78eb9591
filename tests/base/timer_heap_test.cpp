#include "base/timer_heap.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/prng.hpp"

namespace nfsrdma {
namespace {

void nothing(Timer&) noexcept {}

// These timers belong to no loop, so that their destructors have nothing to disarm.
TEST(TimerHeap, PopsByDeadlineThenByOrderOfArming) {
    TimerHeap heap(4);
    Timer a(nothing), b(nothing), c(nothing), d(nothing);
    heap.push(a, 50);
    heap.push(b, 10);
    heap.push(c, 50);
    heap.push(d, 50);
    EXPECT_EQ(heap.next_deadline_ns(), 10u);
    EXPECT_EQ(&heap.pop(), &b);
    EXPECT_EQ(&heap.pop(), &a);
    EXPECT_EQ(&heap.pop(), &c);
    EXPECT_EQ(&heap.pop(), &d);
    EXPECT_EQ(heap.next_deadline_ns(), TimerHeap::kNever);
}

TEST(TimerHeap, RandomPushesAndErasesAgreeWithASortedList) {
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
        Prng prng(seed);
        TimerHeap heap(8);
        std::vector<std::unique_ptr<Timer>> timers;
        std::vector<Timer*> in_heap;
        for (int i = 0; i < 200; ++i) {
            timers.push_back(std::make_unique<Timer>(nothing));
            heap.push(*timers.back(), prng.below(100));
            in_heap.push_back(timers.back().get());
            if (prng.below(3) == 0) {
                const std::size_t victim = prng.below(in_heap.size());
                heap.erase(*in_heap[victim]);
                in_heap.erase(in_heap.begin() + static_cast<std::ptrdiff_t>(victim));
            }
        }
        std::stable_sort(in_heap.begin(), in_heap.end(), [](const Timer* x, const Timer* y) {
            return x->deadline_ns() < y->deadline_ns();
        });
        for (const Timer* expected : in_heap)
            ASSERT_EQ(&heap.pop(), expected) << "seed " << seed;
        EXPECT_TRUE(heap.empty());
    }
}

}  // namespace
}  // namespace nfsrdma
