#pragma once
#include <cstdint>
#include <memory>

#include "base/loop.hpp"
#include "verbs/softroce/fault_spec.hpp"
#include "verbs/softroce/softroce.hpp"

namespace nfsrdma::verbs::softroce {

// The faults of one soft device: its packets' by a FaultWire, and those of its queue pairs. Made
// only where faults are asked for; all else of the device sees one null pointer.
class DeviceFaults {
  public:
    DeviceFaults(Loop& loop, const FaultSpec& spec, std::uint64_t seed);
    ~DeviceFaults() = default;
    DeviceFaults(const DeviceFaults&) = delete;
    DeviceFaults& operator=(const DeviceFaults&) = delete;

    // `wire` with faults; itself when packets have none.
    std::unique_ptr<Wire> around(std::unique_ptr<Wire> wire);
    void start(SoftDevice& device) noexcept;
    // Whether a message that has come is to find no Receive.
    bool withhold_receive(std::uint64_t now_ns) noexcept;
    void hold_kills(bool held) noexcept;
    const FaultCounters& counters() const noexcept { return counters_; }

  private:
    struct KillTimer : Timer {
        explicit KillTimer(DeviceFaults& f) noexcept;
        DeviceFaults& faults;
    };
    void kill() noexcept;

    Loop& loop_;
    const FaultSpec spec_;
    FaultDice dice_;
    FaultCounters counters_;
    SoftDevice* device_ = nullptr;
    std::uint64_t rnr_from_ns_ = 0;  // the next spell without Receives, or the present one
    KillTimer kill_timer_;
};

}  // namespace nfsrdma::verbs::softroce
