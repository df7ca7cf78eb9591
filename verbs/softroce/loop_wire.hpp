#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/loop.hpp"
#include "verbs/softroce/fault_spec.hpp"
#include "verbs/softroce/wire.hpp"

// A network in one process on one loop: hosts exchange frames through timers, with seeded faults.
// In simulated time a run is a function of its seed.
namespace nfsrdma::verbs::softroce {

using LoopFaults = LinkFaults;

struct LoopNetOptions {
    std::uint32_t frames = 4096;  // under way and received, in all; beyond: lost
    std::uint32_t receive_window =
        1024 * 1024;  // bytes of each host's receive buffer; beyond: lost
    std::uint32_t mtu = 4096;
};

struct LoopNetCounters {
    std::uint64_t sent = 0, delivered = 0, lost = 0, duplicated = 0, reordered = 0, corrupted = 0;
    std::uint64_t overflows = 0;  // no frame, or no room in the receive buffer
    std::uint64_t unreachable = 0;
};

// One frame on its way, for a test to see, to change or to drop. The ICRC is made behind the tap.
struct LoopFrame {
    SockAddr from, to;
    std::span<std::byte> bytes;  // BTH to the last pad byte
};

class LoopTap {
  public:
    // False: the frame is lost.
    virtual bool on_frame(LoopFrame& frame) noexcept = 0;

  protected:
    ~LoopTap() = default;
};

class LoopHost;

class LoopNet {
  public:
    LoopNet(Loop& loop, std::uint64_t seed, const LoopFaults& faults,
            const LoopNetOptions& options = {});
    ~LoopNet();
    LoopNet(const LoopNet&) = delete;
    LoopNet& operator=(const LoopNet&) = delete;

    // A host at `address`, which no other host has. The net outlives its wires.
    std::unique_ptr<Wire> add_host(const SockAddr& address);
    void set_faults(const LoopFaults& faults) noexcept { faults_ = faults; }
    void set_tap(LoopTap* tap) noexcept { tap_ = tap; }  // nullptr: none
    // Sends a frame (BTH to the last pad byte) as if `from` had; a right ICRC is added, no fault
    // hits it, no tap sees it.
    void inject(const SockAddr& from, const SockAddr& to,
                std::span<const std::byte> bytes) noexcept;
    const LoopNetCounters& counters() const noexcept { return counters_; }
    std::uint32_t frames_in_use() const noexcept;

  private:
    friend class LoopHost;
    struct Frame {
        SockAddr from, to;
        LoopHost* host = nullptr;
        std::uint32_t size = 0;  // with the ICRC
        std::byte* data = nullptr;
    };
    struct Due {
        std::uint64_t at_ns = 0, sequence = 0;
        std::uint32_t frame = 0;
    };
    struct NetTimer : Timer {
        NetTimer(Fire f, LoopNet& n) noexcept : Timer(f), net(n) {}
        LoopNet& net;
    };
    static bool later(const Due& a, const Due& b) noexcept;
    void send(LoopHost& from, const SockAddr& to, const TxPacket& packet) noexcept;
    bool take_frame(std::uint32_t& index) noexcept;
    void free_frame(std::uint32_t index) noexcept;
    void seal(Frame& frame) noexcept;
    void schedule(std::uint32_t index, std::uint64_t at_ns) noexcept;
    void copy_frame(std::uint32_t index, std::uint64_t at_ns) noexcept;
    void corrupt(Frame& frame, std::uint64_t draw) noexcept;
    void deliver_due() noexcept;
    LoopHost* host_at(const SockAddr& address) noexcept;
    void forget(LoopHost& host) noexcept;

    Loop& loop_;
    FaultDice dice_;
    LoopFaults faults_;
    LoopNetOptions options_;
    LoopTap* tap_ = nullptr;
    LoopNetCounters counters_;
    std::unique_ptr<std::byte[]> memory_;  // touched as it is used
    std::vector<Frame> frames_;
    std::vector<std::uint32_t> free_;
    std::vector<Due> due_;  // a heap
    std::vector<LoopHost*> hosts_;
    std::uint64_t sequence_ = 0;
    NetTimer timer_;
};

}  // namespace nfsrdma::verbs::softroce
