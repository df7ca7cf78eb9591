#include "base/mpsc_queue.hpp"

#include <array>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

TEST(MpscQueue, FullRefusesAndDrainsInOrder) {
    MpscQueue<int> queue(4);
    for (int i = 0; i < 4; ++i)
        EXPECT_TRUE(queue.push(i));
    EXPECT_FALSE(queue.push(4));
    int out = -1;
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(queue.pop(out));
        EXPECT_EQ(out, i);
    }
    EXPECT_FALSE(queue.pop(out));
    EXPECT_TRUE(queue.push(9));
    EXPECT_TRUE(queue.pop(out));
    EXPECT_EQ(out, 9);
}

TEST(MpscQueue, ManyProducersLoseNothingAndKeepTheirOrder) {
    constexpr std::uint32_t kProducers = 4;
    constexpr std::uint32_t kEach = 20000;
    MpscQueue<std::uint32_t> queue(64);
    std::vector<std::thread> producers;
    for (std::uint32_t p = 0; p < kProducers; ++p) {
        producers.emplace_back([&queue, p] {
            for (std::uint32_t i = 0; i < kEach; ++i) {
                while (!queue.push(p * kEach + i))
                    std::this_thread::yield();
            }
        });
    }
    std::array<std::uint32_t, kProducers> next{};
    for (std::uint32_t got = 0; got < kProducers * kEach;) {
        std::uint32_t value = 0;
        if (!queue.pop(value)) {
            std::this_thread::yield();
            continue;
        }
        ++got;
        const std::uint32_t producer = value / kEach;
        ASSERT_LT(producer, kProducers);
        ASSERT_EQ(value % kEach, next[producer]++);
    }
    for (std::thread& thread : producers)
        thread.join();
}

}  // namespace
}  // namespace nfsrdma
