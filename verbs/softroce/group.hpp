#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/loop.hpp"
#include "verbs/loop_turns.hpp"
#include "verbs/softroce/cm_mad.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/udp_wire.hpp"

// One process, one address and port, several loops: a soft device on each.
//
// Operation: the kernel gives every packet to the loop that owns its queue pair. Queue pair 1 is on
// one fixed loop, the home; it hands the requests of each peer to the loops that listen, in turn,
// later MADs to the loop that the communication id names. Each loop's listener thus gets its share,
// on its own thread.
//
// Ownership: a MAD that is handed on is copied into a slot of its target, which is free again once
// it was handled.
namespace nfsrdma::verbs::softroce {

class CmGroup {
  public:
    explicit CmGroup(std::span<SoftDevice* const> devices);
    ~CmGroup() = default;
    CmGroup(const CmGroup&) = delete;
    CmGroup& operator=(const CmGroup&) = delete;

    std::uint32_t loops() const noexcept { return static_cast<std::uint32_t>(targets_.size()); }
    // The loop that is to answer this request: as before, if it comes again; else the peer's next
    // that listens; `fallback` when none does. On the home's thread only.
    std::uint32_t loop_for(const Path& path, const CmReq& req, std::uint32_t fallback) noexcept;
    // Runs Cm::on_forwarded_mad on loop `to`. False: all of its slots are taken, and the MAD is
    // lost. Any thread.
    bool forward(std::uint32_t to, const RxPacket& packet, std::span<const std::byte> mad) noexcept;
    void add_listener(std::uint32_t loop, const SockAddr& local);     // any thread
    void remove_listener(std::uint32_t loop, const SockAddr& local);  // any thread
    bool drained() const noexcept;  // no MAD is on its way from one loop to another

  private:
    static constexpr std::uint32_t kSlots = 128;       // of one target
    static constexpr std::uint32_t kRemembered = 512;  // requests

    // One MAD on its way.
    struct Forward : Task {
        Forward() noexcept;
        std::atomic<bool> taken{false};
        SoftDevice* device = nullptr;
        SockAddr from, to;
        Mad mad{};
    };
    struct Target {
        SoftDevice* device = nullptr;
        std::vector<Forward> slots{kSlots};
        std::atomic<std::uint32_t> next{0};
    };
    struct Remembered {
        SockAddr peer;
        std::uint32_t comm = 0, qpn = 0, loop = 0;
    };
    struct Entry {
        std::uint32_t loop;
        SockAddr local;
    };

    bool listens(std::uint32_t loop, const SockAddr& to, std::uint16_t port) noexcept;

    std::vector<std::unique_ptr<Target>> targets_;
    std::array<Remembered, kRemembered> remembered_{};  // by a hash: the latest wins
    LoopTurns turns_;
    std::mutex listeners_mutex_;  // listening is rare, and no part of the data path
    std::vector<Entry> listeners_;
};

// The devices of all loops. Dies after everything made from them, with no loop running; on the
// thread that made it.
class DeviceGroup {
  public:
    // Device k is of loop k. Errors are those of create_udp_wires and create_device.
    static Result<std::unique_ptr<DeviceGroup>> create(std::span<Loop* const> loops,
                                                       const UdpOptions& udp,
                                                       const SoftOptions& options);
    // Use create().
    DeviceGroup(const SockAddr& local, std::vector<std::unique_ptr<SoftDevice>> devices);
    ~DeviceGroup();
    DeviceGroup(const DeviceGroup&) = delete;
    DeviceGroup& operator=(const DeviceGroup&) = delete;

    std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(devices_.size()); }
    Device& device(std::uint32_t index) noexcept { return *devices_[index]; }
    SockAddr local() const noexcept { return local_; }  // the UDP address and port

  private:
    SockAddr local_;
    std::vector<std::unique_ptr<SoftDevice>> devices_;
    std::unique_ptr<CmGroup> cm_group_;
};

}  // namespace nfsrdma::verbs::softroce
