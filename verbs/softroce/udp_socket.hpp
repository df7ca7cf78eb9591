#pragma once
#include <cstdint>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"
#include "verbs/softroce/udp_wire.hpp"

// The sockets under a UdpWire: made, bound, steered, and what they say of the way to a peer.
namespace nfsrdma::verbs::softroce {

inline constexpr std::uint16_t kFirstEntropyPort =
    0xC000;  // source ports from here on are flow entropy

// Whether other sockets of this process share the port. The first one becomes sharable only once it
// is bound, so that it never joins the sockets of another process.
enum class Sharing : std::uint8_t { alone, first, joins };

struct UdpSocket {
    UniqueFd fd;
    SockAddr bound;            // with the port
    std::uint32_t mtu = 1024;  // RoCE path MTU
    std::uint32_t window = 0;  // bytes of packets that it holds unread
};

// Errc::system.
Result<UdpSocket> open_udp_socket(const UdpOptions& options, const SockAddr& address,
                                  Sharing sharing) noexcept;
struct Route {
    SockAddr local;     // port 0
    std::uint32_t mtu;  // RoCE path MTU of the route, as far as the kernel knows it
};
// The way to `peer` from an address of ours that may be `from` (any address: whichever the kernel
// takes). Errc::system: no route.
Result<Route> route_towards(const SockAddr& from, const SockAddr& peer) noexcept;
// Gives each packet to socket (low byte of the destination QPN) modulo `count`, in the order in
// which they were bound.
Result<void> steer_by_qpn(int fd, std::uint32_t count) noexcept;

}  // namespace nfsrdma::verbs::softroce
