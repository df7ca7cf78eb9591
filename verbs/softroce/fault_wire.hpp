#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/loop.hpp"
#include "verbs/softroce/fault_spec.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/wire.hpp"

namespace nfsrdma::verbs::softroce {

// A wire with faults: every packet that goes through it, either way, meets the dice. Segmentation
// offload stays in use: what is lost is left out of a batch before it is sent, or of one that came.
//
// Operation: a packet to be sent is passed on, lost, or copied into a frame that is sent later; one
// that came likewise. A corrupted one has a turned bit: of the frame that came, before its ICRC is
// checked, or of the ICRC of one that is sent.
//
// Ownership: frames are of a fixed pool, made with the wire. What goes out of a frame is lent to
// the wire below until the flush, after which the frame is free.
//
// Errors: none; what finds no frame is lost and counted.
class FaultWire final : public Wire, private RxSink, private RxTamper {
  public:
    // `dice` and `counters` outlive the wire.
    FaultWire(Loop& loop, std::unique_ptr<Wire> below, const FaultSpec& spec, FaultDice& dice,
              FaultCounters& counters);
    ~FaultWire() override;
    FaultWire(const FaultWire&) = delete;
    FaultWire& operator=(const FaultWire&) = delete;

    void send(const Path& path, const TxPacket& packet) noexcept override;
    void flush() noexcept override;
    std::uint32_t poll(RxSink& sink) noexcept override;
    Result<SockAddr> local_towards(const SockAddr& peer) noexcept override {
        return below_->local_towards(peer);
    }
    std::uint32_t mtu() const noexcept override { return below_->mtu(); }
    std::uint32_t receive_window() const noexcept override { return below_->receive_window(); }
    std::uint16_t port() const noexcept override { return below_->port(); }
    int fd() const noexcept override { return below_->fd(); }
    const WireCounters& counters() const noexcept override { return below_->counters(); }
    std::uint32_t frames_in_use() const noexcept;

  private:
    static constexpr std::uint32_t kFrames = 2048;
    static constexpr std::uint32_t kFrameMax = kHeaderMax + 4096 + 4;
    struct Frame {
        Path path;  // sent: as it was; received: local is where it came to, peer where it came from
        std::uint32_t header_size = 0, size = 0;  // size: with the header
        std::uint32_t icrc_xor = 0;
        std::uint8_t pad = 0;
        std::byte* data = nullptr;
    };
    struct Due {
        std::uint64_t at_ns = 0, sequence = 0;
        std::uint32_t frame = 0;
    };
    // What is on its way in one direction.
    struct Way {
        std::vector<Due> due;  // a heap
        std::uint64_t last_ns = 0, line_free_ns = 0;
    };
    struct WakeTimer : Timer {
        WakeTimer() noexcept : Timer([](Timer&) noexcept {}) {}  // waking the loop is all
    };

    void on_packet(const RxPacket& packet) noexcept override;
    void on_raw(std::span<std::byte> bytes) noexcept override;
    static bool later(const Due& a, const Due& b) noexcept;
    std::uint64_t in_order(Way& way, const PacketFate& fate, std::size_t size) noexcept;
    bool lost_for_room(const Way& way, const PacketFate& fate, std::size_t size) noexcept;
    bool take_frame(std::uint32_t& index) noexcept;
    void hold(Way& way, std::uint32_t index, std::uint64_t at_ns) noexcept;
    void hold_sent(const Path& path, const TxPacket& packet, std::uint64_t at_ns) noexcept;
    void hold_received(const RxPacket& packet, std::uint64_t at_ns) noexcept;
    bool take_due(Way& way, std::uint64_t now, std::uint32_t& index) noexcept;
    bool manage(const Path& path, std::span<const std::byte> mad, bool sent) noexcept;
    void reject(const Path& path, std::span<const std::byte> mad, bool sent) noexcept;
    void arm() noexcept;

    Loop& loop_;
    std::unique_ptr<Wire> below_;
    const FaultSpec spec_;
    FaultDice& dice_;
    FaultCounters& faults_;
    RxSink* sink_ = nullptr;               // during poll()
    std::unique_ptr<std::byte[]> memory_;  // touched as it is used
    std::vector<Frame> frames_;
    std::vector<std::uint32_t> free_, lent_;
    Way out_, in_;
    std::uint64_t sequence_ = 0;
    WakeTimer timer_;
};

}  // namespace nfsrdma::verbs::softroce
