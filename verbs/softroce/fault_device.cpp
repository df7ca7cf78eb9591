#include "verbs/softroce/fault_device.hpp"

#include "verbs/softroce/device.hpp"
#include "verbs/softroce/fault_wire.hpp"

namespace nfsrdma::verbs::softroce {

DeviceFaults::KillTimer::KillTimer(DeviceFaults& f) noexcept
    : Timer([](Timer& timer) noexcept { static_cast<KillTimer&>(timer).faults.kill(); }),
      faults(f) {}

DeviceFaults::DeviceFaults(Loop& loop, const FaultSpec& spec, std::uint64_t seed)
    : loop_(loop), spec_(spec), dice_(seed), kill_timer_(*this) {}

std::unique_ptr<Wire> DeviceFaults::around(std::unique_ptr<Wire> wire) {
    if (!spec_.on_packets()) return wire;
    return std::make_unique<FaultWire>(loop_, std::move(wire), spec_, dice_, counters_);
}

void DeviceFaults::start(SoftDevice& device) noexcept {
    device_ = &device;
    const std::uint64_t now = loop_.now_ns();
    rnr_from_ns_ = dice_.after(now, spec_.rnr.every_ns);
    hold_kills(false);
}

void DeviceFaults::hold_kills(bool held) noexcept {
    if (spec_.qp_kill_ns == 0) return;
    if (held) {
        loop_.disarm(kill_timer_);
    } else {
        loop_.arm(kill_timer_, dice_.after(loop_.now_ns(), spec_.qp_kill_ns));
    }
}

bool DeviceFaults::withhold_receive(std::uint64_t now_ns) noexcept {
    if (now_ns < rnr_from_ns_) return false;
    if (now_ns - rnr_from_ns_ >= spec_.rnr.for_ns) {
        ++counters_.rnr_spells;
        rnr_from_ns_ = dice_.after(now_ns, spec_.rnr.every_ns);
        return false;
    }
    ++counters_.rnr_refused;
    return true;
}

void DeviceFaults::kill() noexcept {
    counters_.qps_killed += device_->kill_qp(dice_.next());
    hold_kills(false);
}

}  // namespace nfsrdma::verbs::softroce
