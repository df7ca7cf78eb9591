#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "base/prng.hpp"
#include "verbs/device.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/wire.hpp"

// One soft device: the packets of one wire, given to the queue pairs and to connection management
// of one loop.
namespace nfsrdma::verbs::softroce {

class Cm;
class SoftQp;

inline constexpr std::uint32_t kMadSize = 256;
inline constexpr std::uint32_t kGsiQpn = 1;            // connection management
inline constexpr std::uint32_t kGsiQkey = 0x80010000;  // InfiniBand volume 1, 3.5.3

class SoftDevice final : public Device, public Pollable, public RxSink {
  public:
    // Adds itself to the loop. Errc::system when no entropy or no fd watch can be had.
    static Result<std::unique_ptr<SoftDevice>> create(Loop& loop, std::unique_ptr<Wire> wire,
                                                      const SoftOptions& options);
    ~SoftDevice() override;

    Loop& loop() noexcept override { return loop_; }
    const DeviceCaps& caps() const noexcept override { return caps_; }
    const char* name() const noexcept override { return "softroce"; }
    Result<std::unique_ptr<ProtectionDomain>> alloc_pd() override;
    Result<std::unique_ptr<CompletionQueue>> create_cq(std::uint32_t entries) override;
    Result<std::unique_ptr<CmId>> create_id(CmHandler& handler) override;
    Result<std::unique_ptr<Listener>> listen(const SockAddr& local,
                                             ListenHandler& handler) override;

    // For connection management.
    Wire& wire() noexcept { return *wire_; }
    const Wire& wire() const noexcept { return *wire_; }
    const SoftOptions& options() const noexcept { return options_; }
    SoftCounters& counters() noexcept { return counters_; }
    const SoftCounters& counters() const noexcept { return counters_; }
    Cm& cm() noexcept { return *cm_; }
    // For ids, PSNs, QPNs and keys: from getrandom(2), or seeded by the options.
    std::uint64_t random() noexcept;
    // A queue pair in the init state. `pd` and `cq` are of this device and outlive it.
    Result<std::unique_ptr<SoftQp>> create_qp(ProtectionDomain& pd, CompletionQueue& cq,
                                              const QpOptions& options);
    // UD SEND_ONLY from our QP 1 to the QP 1 of `path.peer`. Sent by the next flush; the MAD is
    // copied.
    void send_mad(const Path& path, std::span<const std::byte, kMadSize> mad) noexcept;

    // Pollable and RxSink.
    std::uint32_t poll() noexcept override;
    void flush() noexcept override;
    bool arm() noexcept override;
    void on_packet(const RxPacket& packet) noexcept override;

  private:
    SoftDevice(Loop& loop, std::unique_ptr<Wire> wire, const SoftOptions& options);

    Loop& loop_;
    std::unique_ptr<Wire> wire_;
    SoftOptions options_;
    DeviceCaps caps_;
    SoftCounters counters_;
    std::unique_ptr<Cm> cm_;
};

}  // namespace nfsrdma::verbs::softroce
