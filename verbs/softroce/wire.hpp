#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"
#include "base/sock_addr.hpp"

// The seam below the soft device: RoCEv2 packets to and from peers. Two wires: UdpWire (sockets)
// and LoopWire (in process, seeded faults, virtual time). The wire owns the ICRC: it knows the IP
// header that the ICRC covers.
namespace nfsrdma::verbs::softroce {

inline constexpr std::uint32_t kHeaderMax =
    64;  // BTH and the extended headers of any opcode that we send
inline constexpr std::uint32_t kPayloadPieces = 8;
inline constexpr std::uint16_t kRoceV2Port = 4791;

// Where a peer's packets come from and go to.
struct Path {
    SockAddr local;  // our address; the wire's port
    SockAddr peer;   // its address; the port that it listens at (4791, or its own below 0xC000)
};

struct PayloadPiece {
    const std::byte* data = nullptr;
    std::uint32_t size = 0;
};

// One packet to send. `header` is copied by Wire::send; payload pieces are lent until Wire::flush
// returns.
struct TxPacket {
    std::span<const std::byte> header;
    std::span<const PayloadPiece> payload;
    std::uint8_t pad = 0;        // 0..3 zero bytes behind the payload
    std::uint32_t icrc_xor = 0;  // not 0: the packet is sent with a wrong ICRC (FaultWire)
};

// One received packet with a good ICRC: BTH to the last pad byte. Valid during the call.
struct RxPacket {
    SockAddr from;
    SockAddr to;
    std::span<const std::byte> bytes;
};

class RxSink {
  public:
    virtual void on_packet(const RxPacket& packet) noexcept = 0;

  protected:
    ~RxSink() = default;
};

// Sees, and may change, each packet that came, with its ICRC and before that is checked.
class RxTamper {
  public:
    virtual void on_raw(std::span<std::byte> bytes) noexcept = 0;

  protected:
    ~RxTamper() = default;
};

struct WireCounters {
    std::uint64_t tx_packets = 0, tx_calls = 0, tx_bytes = 0, tx_errors = 0;
    std::uint64_t rx_packets = 0, rx_calls = 0, rx_bytes = 0;
    std::uint64_t rx_bad_icrc = 0, rx_short = 0, rx_solved_ip_id = 0;
    std::uint64_t rx_overflows = 0;  // dropped by the socket: its receive buffer was full
};

class Wire {
  public:
    virtual ~Wire() = default;
    // Queues one packet; the wire may send earlier ones meanwhile. Order towards one peer is kept.
    virtual void send(const Path& path, const TxPacket& packet) noexcept = 0;
    virtual void flush() noexcept = 0;
    // Delivers at most a batch of received packets to `sink`; returns how many.
    virtual std::uint32_t poll(RxSink& sink) noexcept = 0;
    // Our address towards `peer`. Errc::system when there is no route.
    virtual Result<SockAddr> local_towards(const SockAddr& peer) noexcept = 0;
    virtual std::uint32_t mtu() const noexcept = 0;  // RoCE path MTU: 256..4096
    // Bytes that may be on their way to us before packets are dropped: from SO_RCVBUF as it was
    // really given.
    virtual std::uint32_t receive_window() const noexcept = 0;
    virtual std::uint16_t port() const noexcept = 0;
    virtual int fd() const noexcept = 0;  // to sleep on; -1: none (simulated)
    virtual const WireCounters& counters() const noexcept { return counters_; }
    void set_tamper(RxTamper* tamper) noexcept { tamper_ = tamper; }  // nullptr: none

  protected:
    RxTamper* tamper_ = nullptr;
    WireCounters counters_;
};

}  // namespace nfsrdma::verbs::softroce
