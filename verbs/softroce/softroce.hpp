#pragma once
#include <cstdint>
#include <memory>

#include "base/loop.hpp"
#include "verbs/device.hpp"
#include "verbs/softroce/fault_spec.hpp"
#include "verbs/softroce/wire.hpp"

// A RoCEv2 RC device in user space. It needs no kernel RDMA, no hardware and no privilege; it
// speaks the standard wire protocol (InfiniBand volume 1 chapters 9 and 12, RoCEv2 annex A17, RDMA
// IP CM annex A11).
namespace nfsrdma::verbs::softroce {

struct SoftOptions {
    std::uint64_t seed = 0;             // QPNs, PSNs and first key bytes; 0: from getrandom(2)
    std::uint8_t ack_timeout_exp = 14;  // 4.096 us x 2^n: 67 ms
    std::uint32_t min_rnr_timer_us = 640;
    std::uint16_t peer_port = kRoceV2Port;  // UDP port of the devices that we connect to
    std::uint32_t loop_index = 0,
                  loop_count =
                      1;  // QPN steering: low byte of the QPN modulo loop_count == loop_index
    // An acknowledgement that nothing goes with waits for one more turn of the loop, or for two
    // when a local operation ran in the first: where answers, and next requests, are made between
    // turns, it goes with them.
    bool acks_wait = false;
    FaultSpec faults{};            // of this device and its way to others; none by default
    std::uint64_t fault_seed = 1;  // of what is drawn for them
};

struct SoftCounters {
    std::uint64_t rx_payload_bytes =
        0;                              // payload of accepted SEND, WRITE and READ response packets
    std::uint64_t rx_copied_bytes = 0;  // of which copied inside the device, after the system call
    std::uint64_t tx_copied_bytes = 0;  // payload copied before the system call: 0
    std::uint64_t tx_payload_bytes = 0;
    std::uint64_t retransmits = 0, duplicates = 0, naks_sent = 0, rnr_naks_sent = 0,
                  rnr_naks_received = 0;
    std::uint64_t rx_dropped = 0;      // not for a queue pair of ours, or malformed
    std::uint64_t access_refused = 0;  // remote accesses refused by key, state, right or range
    std::uint64_t mads_received = 0, mads_dropped = 0;
};

// Of the faults that SoftOptions::faults asks for: what happened.
struct FaultCounters {
    std::uint64_t lost = 0, duplicated = 0, reordered = 0, corrupted = 0, delayed = 0;
    std::uint64_t overflows = 0;  // lost because too much was delayed at once
    std::uint64_t cm_dropped = 0, cm_rejected = 0;
    std::uint64_t rnr_spells = 0, rnr_refused = 0;  // messages that found no Receive
    std::uint64_t qps_killed = 0;
    std::uint64_t all() const noexcept {
        return lost + duplicated + reordered + corrupted + delayed + overflows + cm_dropped +
               cm_rejected + rnr_refused + qps_killed;
    }
};

class SoftDevice;

// One device over one wire on one loop; adds itself to the loop. In a process with several loops,
// make one device a loop with DeviceGroup (group.hpp). The device outlives everything
// made from it.
Result<std::unique_ptr<Device>> create_device(Loop& loop, std::unique_ptr<Wire> wire,
                                              const SoftOptions& options);
const SoftCounters& counters(const Device& device) noexcept;  // `device` is one of ours
const WireCounters& wire_counters(const Device& device) noexcept;
FaultCounters fault_counters(const Device& device) noexcept;  // zeros where no faults are asked for
// FaultSpec::qp_kill_ns rests while `held`, and begins anew afterwards: for work that is to begin
// and to end whole. On the device's loop.
void hold_kills(Device& device, bool held) noexcept;

}  // namespace nfsrdma::verbs::softroce
