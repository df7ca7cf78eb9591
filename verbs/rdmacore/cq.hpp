#pragma once
#include <cstdint>
#include <vector>

#include <infiniband/verbs.h>

#include "base/list.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/lower.hpp"

namespace nfsrdma::verbs::rdmacore {

class RdmaDevice;
class RdmaQp;

// Tag of the list of queue pairs whose work requests are flushed by us, not by the device.
struct FlushList;

// A completion queue of the device and its place on the device's completion channel. Each work
// request of its queue pairs has room for its completion: there is room to spare for the last one
// of one queue pair, and beyond that it grows when a queue pair is made.
class RdmaCq final : public CompletionQueue {
  public:
    // Errc::system: the device has none left.
    static Result<std::unique_ptr<RdmaCq>> create(RdmaDevice& device, std::uint32_t entries);
    ~RdmaCq() override;
    RdmaCq(const RdmaCq&) = delete;
    RdmaCq& operator=(const RdmaCq&) = delete;
    std::uint32_t poll() noexcept override;
    // Asks for an event at the next completion; false when it is to be polled once more.
    bool arm() noexcept override;
    bool failed() const noexcept override { return failed_; }

    RdmaDevice& device() const noexcept { return device_; }
    ibv_cq& handle() const noexcept { return *cq_; }
    // The work request ids of `qp` begin with what this returns. `wrs`: how many completions it may
    // have waiting. Errc::too_big: more than the device's queues can hold. Errc::unsupported: it
    // would have to grow, and queues of this device cannot: it was made with too few entries.
    // Errc::reconnect: it is in error.
    Result<WrId> attach(RdmaQp& qp, std::uint32_t wrs);
    void detach(const WrId& id, std::uint32_t wrs) noexcept;
    // From now on poll() flushes what is left of `qp`.
    void flush_later(RdmaQp& qp) noexcept;
    void stop_flush(RdmaQp& qp) noexcept;
    void on_event() noexcept { armed_ = false; }  // of the completion channel
    // The device says that it is in error: nothing comes from it any more. Its queue pairs end.
    void on_error() noexcept;
    std::uint32_t entries() const noexcept { return entries_; }  // room, in completions

  private:
    static constexpr std::uint32_t kBatch = 32;
    struct Slot {
        RdmaQp* qp = nullptr;
        std::uint16_t generation = 0;
    };
    RdmaCq(RdmaDevice& device, std::uint32_t entries) noexcept;
    Result<void> grow(std::uint32_t entries) noexcept;
    std::uint32_t flush_some() noexcept;
    void deliver(const ibv_wc& wc) noexcept;

    RdmaDevice& device_;
    ibv_cq* cq_ = nullptr;
    std::vector<Slot> slots_;
    List<RdmaQp, FlushList> flushing_;
    std::uint32_t entries_, reserved_ = 0, qps_ = 0;
    bool armed_ = false;
    bool failed_ = false;  // nothing comes from it any more
};

}  // namespace nfsrdma::verbs::rdmacore
