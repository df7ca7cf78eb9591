#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "verbs/softroce/wire.hpp"

// RoCEv2 over an ordinary, unconnected UDP socket, with segmentation offload both ways.
//
// Operation: consecutive packets to one queue pair that have one size (the last may be shorter) are
// one sendmsg with UDP_SEGMENT, gathered from where they lie; the kernel numbers the IP
// identifications of its segments 0, 1, 2 ..., and the ICRCs are computed for these. UDP_GRO hands
// such a batch to the receiver as one.
//
// Ownership: payload is lent until flush; a received packet is valid during RxSink::on_packet.
//
// Errors: what the kernel will not take is dropped and counted, as loss on the wire that the queue
// pairs repair.
namespace nfsrdma::verbs::softroce {

struct UdpOptions {
    // Address and UDP port. Port 0 takes a free one below 0xC000, which is a return address for
    // peers of our own kind; a standard peer needs 4791. Any address (0.0.0.0, ::) is allowed.
    SockAddr bind;
    std::uint32_t receive_buffer_bytes = 4u << 20;  // wanted; see Wire::receive_window
    // How long to wait for a port that is taken: of a process that was killed the kernel lets go a
    // little late, when the socket was watched by io_uring.
    std::uint32_t bind_patience_ms = 500;
    std::uint32_t path_mtu_max = 4096;  // where the way is narrower than the interface
};

// Errc::system: no such address, port taken; Errc::invalid_argument: not an IP address, port at or
// above 0xC000.
Result<std::unique_ptr<Wire>> create_udp_wire(const UdpOptions& options);
// As create_udp_wire at the address of `options.bind`, whatever its port: at port 4791, to which a
// standard peer answers, or, where that is taken, at a free one, to which only devices of our own
// kind do. Does not wait for the port.
Result<std::unique_ptr<Wire>> create_udp_wire_at_address(UdpOptions options);
// The same for one who connects to `peer`, at the address of ours that leads there, so that other
// addresses stay free for servers. Errc::system: no route.
Result<std::unique_ptr<Wire>> create_udp_wire_towards(const SockAddr& peer);
// `count` wires on one address and port; the kernel gives wire k the packets whose destination QPN
// has a low byte that is k modulo `count`. Wire 1 modulo `count` gets connection management. Errors
// as above.
Result<std::vector<std::unique_ptr<Wire>>> create_udp_wires(const UdpOptions& options,
                                                            std::uint32_t count);

}  // namespace nfsrdma::verbs::softroce
