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
#include "verbs/softroce/mr.hpp"
#include "verbs/softroce/qp.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/wire.hpp"

// One soft device: the packets of one wire, given to the queue pairs and to connection management
// of one loop.
namespace nfsrdma::verbs::softroce {

class Cm;
class DeviceFaults;
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
    SoftDevice(const SoftDevice&) = delete;
    SoftDevice& operator=(const SoftDevice&) = delete;

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

    // For the queue pairs.
    std::uint64_t now_ns() const noexcept { return now_ns_; }  // of this turn of the loop
    KeyTable& keys() noexcept { return keys_; }
    void schedule(SoftQp& qp) noexcept;      // has something to send
    void add_event(SoftQp& qp) noexcept;     // has something to tell its owner
    void wait_to_read(SoftQp& qp) noexcept;  // until READ responses of others have come
    // READ response bytes that all queue pairs of this device may ask for at once, and how many
    // they have.
    std::uint32_t read_window() const noexcept { return read_window_; }
    std::uint64_t read_bytes() const noexcept { return read_bytes_; }
    void add_read_bytes(std::uint32_t bytes) noexcept { read_bytes_ += bytes; }
    void release_read_bytes(std::uint32_t bytes) noexcept;
    void remove(SoftQp& qp) noexcept;
    // A fault: Receives are there, and none is given out.
    bool receives_withheld() noexcept;
    // A fault: one connected queue pair, chosen by `draw`, fails as if the device had lost it.
    // False: there is none.
    bool kill_qp(std::uint64_t draw) noexcept;
    const DeviceFaults* faults() const noexcept { return faults_.get(); }
    DeviceFaults* faults() noexcept { return faults_.get(); }

  private:
    SoftQp* find_qp(std::uint32_t qpn) const noexcept;
    std::uint32_t draw_qpn() noexcept;
    void on_gsi_packet(const RxPacket& packet, const Bth& bth) noexcept;
    bool deliver_events() noexcept;
    struct WireWatch : FdWatch {
        WireWatch() noexcept;
    };
    static constexpr std::uint32_t kMadSlots = 16;
    static constexpr std::uint32_t kQpBuckets = 1024;
    static constexpr std::uint32_t kRetiredQpns = 1024;

    SoftDevice(Loop& loop, std::unique_ptr<Wire> wire, const SoftOptions& options);

    Loop& loop_;
    std::unique_ptr<DeviceFaults> faults_;  // nullptr: none
    std::unique_ptr<Wire> wire_;
    SoftOptions options_;
    DeviceCaps caps_;
    SoftCounters counters_;
    Prng prng_;
    std::array<std::uint64_t, 32> entropy_{};
    std::uint32_t entropy_left_ = 0;
    KeyTable keys_;
    WireWatch watch_;
    std::uint32_t qp_count_ = 0;
    std::array<SoftQp*, kQpBuckets> qps_{};
    std::array<std::uint32_t, kRetiredQpns> retired_qpns_{};  // not given again soon
    std::uint32_t retired_count_ = 0;
    List<SoftQp, WorkList> work_;
    List<SoftQp, ReadWaitList> read_waiters_;
    List<SoftQp, EventList> events_;
    std::uint64_t now_ns_ = 0;
    bool more_ = false;  // the last flush stopped for lack of budget
    std::uint32_t read_window_ = 0;
    std::uint64_t read_bytes_ = 0;
    std::array<std::array<std::byte, kMadSize>, kMadSlots>
        mads_{};  // lent to the wire until its flush
    std::uint32_t mads_used_ = 0;
    std::uint32_t mad_psn_ = 0;
    std::unique_ptr<Cm> cm_;
};

}  // namespace nfsrdma::verbs::softroce
