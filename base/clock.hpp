#pragma once
#include <chrono>
#include <cstdint>

namespace nfsrdma {

inline constexpr std::uint64_t kNsPerUs = 1'000;
inline constexpr std::uint64_t kNsPerMs = 1'000'000;
inline constexpr std::uint64_t kNsPerSec = 1'000'000'000;

// Monotonic nanoseconds. Everything that waits asks this, so that a simulation can own time.
class Clock {
  public:
    virtual ~Clock() = default;
    virtual std::uint64_t now_ns() const noexcept = 0;
};

class RealClock final : public Clock {
  public:
    std::uint64_t now_ns() const noexcept override {
        return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                              std::chrono::steady_clock::now().time_since_epoch())
                                              .count());
    }
};

class ManualClock final : public Clock {
  public:
    std::uint64_t now_ns() const noexcept override { return now_ns_; }
    void advance_to(std::uint64_t ns) noexcept {
        if (ns > now_ns_) now_ns_ = ns;
    }

  private:
    std::uint64_t now_ns_ = kNsPerSec;  // 0 means "never" to some callers
};

}  // namespace nfsrdma
