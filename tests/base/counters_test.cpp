#include "base/counters.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace nfsrdma {
namespace {

TEST(Counter, MayBeReadFromAnotherThread) {
    Counter counter;
    constexpr std::uint64_t kCount = 100'000;
    std::thread writer([&] {
        for (std::uint64_t i = 0; i < kCount; ++i)
            ++counter;
    });
    std::uint64_t last = 0;
    while (last < kCount) {
        const std::uint64_t now = counter.get();
        ASSERT_GE(now, last);
        last = now;
        std::this_thread::yield();
    }
    writer.join();
    counter.add(5);
    EXPECT_EQ(counter.get(), kCount + 5);
}

}  // namespace
}  // namespace nfsrdma
