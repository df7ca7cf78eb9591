#pragma once
#include <atomic>
#include <cstdint>

namespace nfsrdma::svcrdma {

// How many bytes all loops and connections of a process may take together for payloads, messages,
// Receives and what belongs to each connection. Any thread.
class MemoryBudget {
  public:
    explicit MemoryBudget(std::uint64_t limit_bytes) noexcept : limit_(limit_bytes) {}
    ~MemoryBudget() = default;
    MemoryBudget(const MemoryBudget&) = delete;
    MemoryBudget& operator=(const MemoryBudget&) = delete;
    // False: that much is not left, and nothing was taken.
    bool take(std::uint64_t bytes) noexcept {
        std::uint64_t used = used_.load(std::memory_order_relaxed);
        do {
            if (bytes > limit_ - used) return false;
        } while (!used_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
        return true;
    }
    void give_back(std::uint64_t bytes) noexcept {
        used_.fetch_sub(bytes, std::memory_order_relaxed);
    }
    std::uint64_t limit() const noexcept { return limit_; }
    std::uint64_t used() const noexcept { return used_.load(std::memory_order_relaxed); }

  private:
    const std::uint64_t limit_;
    std::atomic<std::uint64_t> used_{0};
};

}  // namespace nfsrdma::svcrdma
