#pragma once
#include <algorithm>
#include <cstdint>

namespace nfsrdma::rpcrdma {

// The client's side of flow control (RFC 8166 s3.3): one credit until the first reply, then what
// the server grants.
class CreditWindow {
  public:
    explicit CreditWindow(std::uint32_t max) noexcept : max_(max) {}
    bool take() noexcept {
        if (in_flight_ >= granted_) return false;
        ++in_flight_;
        return true;
    }
    void give_back() noexcept { --in_flight_; }
    // 0 is taken as 1; never more than our own maximum.
    void on_grant(std::uint32_t credits) noexcept { granted_ = std::clamp(credits, 1u, max_); }
    void reset() noexcept {
        granted_ = 1;
        in_flight_ = 0;
    }
    std::uint32_t requested() const noexcept { return max_; }
    std::uint32_t granted() const noexcept { return granted_; }
    std::uint32_t in_flight() const noexcept { return in_flight_; }
    std::uint32_t max() const noexcept { return max_; }

  private:
    std::uint32_t max_;
    std::uint32_t granted_ = 1;
    std::uint32_t in_flight_ = 0;
};

// The server's side: never above the Receives that are really posted, never 0.
constexpr std::uint32_t credits_to_grant(std::uint32_t requested, std::uint32_t receives_posted,
                                         std::uint32_t max) noexcept {
    return std::max(1u, std::min({std::max(requested, 1u), receives_posted, max}));
}

}  // namespace nfsrdma::rpcrdma
