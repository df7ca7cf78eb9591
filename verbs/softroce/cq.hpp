#pragma once
#include <cstdint>
#include <vector>

#include "verbs/device.hpp"

namespace nfsrdma::verbs::softroce {

class SoftDevice;
class SoftQp;

// A ring of completions. Every queue pair reserves a place for each work request that it can hold,
// so the ring cannot overflow; it grows when a queue pair is made, never afterwards.
class SoftCq final : public CompletionQueue {
  public:
    SoftCq(SoftDevice& device, std::uint32_t entries);
    ~SoftCq() override;
    SoftCq(const SoftCq&) = delete;
    SoftCq& operator=(const SoftCq&) = delete;
    std::uint32_t poll() noexcept override;
    bool arm() noexcept override { return head_ == tail_; }

    SoftDevice& device() const noexcept { return device_; }
    void attach(std::uint32_t wrs);  // a queue pair that can hold `wrs` work requests
    void detach(const SoftQp& qp, std::uint32_t wrs) noexcept;  // forgets the completions of `qp`
    struct Entry {
        SoftQp* qp = nullptr;
        Cqe* cqe = nullptr;
        Wc wc;
        std::uint32_t retired = 0;  // send work requests that it accounts for; 0: a Receive
    };
    void push(const Entry& entry) noexcept;

  private:
    Entry& at(std::uint32_t index) noexcept { return ring_[index & (ring_.size() - 1)]; }
    SoftDevice& device_;
    std::vector<Entry> ring_;
    std::uint32_t head_ = 0, tail_ = 0;
    std::uint32_t reserved_ = 0;
    std::uint32_t qps_ = 0;
};

}  // namespace nfsrdma::verbs::softroce
