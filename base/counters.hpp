#pragma once
#include <atomic>
#include <cstdint>

namespace nfsrdma {

// A count that one thread (its loop) writes and any thread may read: as cheap as a plain integer,
// for the writer needs no locked instruction.
class Counter {
  public:
    void add(std::uint64_t n = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }
    Counter& operator++() noexcept {
        add();
        return *this;
    }

  private:
    std::atomic<std::uint64_t> value_{0};
};

}  // namespace nfsrdma
