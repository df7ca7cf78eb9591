#include "verbs/softroce/udp_socket.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace nfsrdma::verbs::softroce {
namespace {

// IP, UDP, BTH, the longest extended headers and ICRC, generously, as Linux reckons them.
constexpr std::uint32_t kHeadroom = 96;

Error last_error(const char* what) noexcept {
    return Error{Errc::system, errno, what};
}

template <class T>
bool set_option(int fd, int level, int name, const T& value) noexcept {
    return ::setsockopt(fd, level, name, &value, sizeof value) == 0;
}

bool in_subnet(const SockAddr& address, const ifaddrs& entry) noexcept {
    if (entry.ifa_addr == nullptr || entry.ifa_netmask == nullptr) return false;
    if (entry.ifa_addr->sa_family != address.family()) return false;
    const auto a = address.gid(), b = SockAddr::from(entry.ifa_addr).gid();
    const auto mask = SockAddr::from(entry.ifa_netmask).gid();
    for (std::size_t i = address.is_v4() ? 12 : 0; i < a.size(); ++i) {
        if (((a[i] ^ b[i]) & mask[i]) != std::byte{0}) return false;
    }
    return true;
}

// The largest RoCE path MTU, 256 to 4096, whose packets fit into IP packets of `mtu`.
std::uint32_t roce_mtu(std::uint32_t mtu) noexcept {
    std::uint32_t roce = 256;
    while (roce < 4096 && roce * 2 + kHeadroom <= mtu)
        roce *= 2;
    return roce;
}

std::uint32_t interface_mtu(int fd, const char* name) noexcept {
    ifreq request{};
    std::strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    if (::ioctl(fd, SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
    return static_cast<std::uint32_t>(request.ifr_mtu);
}

// The RoCE path MTU that fits into the interface of `bound`; of any address, into every interface
// that is up.
std::uint32_t path_mtu(int fd, const SockAddr& bound) noexcept {
    ifaddrs* list = nullptr;
    std::uint32_t mtu = 1u << 16;
    bool found = false;
    if (::getifaddrs(&list) != 0) return 1024;
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
        if ((entry->ifa_flags & IFF_UP) == 0) continue;
        if (!bound.is_any() && !in_subnet(bound, *entry)) continue;
        if (const std::uint32_t own = interface_mtu(fd, entry->ifa_name)) {
            mtu = std::min(mtu, own);
            found = true;
        }
    }
    ::freeifaddrs(list);
    if (!found) return 1024;
    return roce_mtu(mtu);
}

// What SO_RCVBUF really gave. The kernel reports twice the bytes asked for, and charges each packet
// with its own overhead: half of what it reports holds even for packets of one page.
std::uint32_t set_receive_buffer(int fd, std::uint32_t wanted) noexcept {
    const int bytes = static_cast<int>(std::min(wanted, 1u << 30));
    if (!set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, bytes)) {
        set_option(fd, SOL_SOCKET, SO_RCVBUF, bytes);
    }
    int given = 0;
    socklen_t size = sizeof given;
    if (::getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &given, &size) != 0 || given < 0) return 64 * 1024;
    return static_cast<std::uint32_t>(given) / 2;
}

Result<void> set_ip_options(int fd, const SockAddr& bound) noexcept {
    const int on = 1;
    const int level = bound.is_v4() ? IPPROTO_IP : IPPROTO_IPV6;
    const int discover = IP_PMTUDISC_DO;  // one value for both families
    static_assert(IP_PMTUDISC_DO == IPV6_PMTUDISC_DO);
    if (!set_option(fd, level, bound.is_v4() ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, discover)) {
        return last_error("UDP socket: path MTU discovery");
    }
    if (bound.is_v6() && !set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, on)) {
        return last_error("UDP socket: IPv6 only");
    }
    if (bound.is_any() &&
        !set_option(fd, level, bound.is_v4() ? IP_PKTINFO : IPV6_RECVPKTINFO, on)) {
        return last_error("UDP socket: packet information");
    }
    // Old kernels lack it, and then hand over packet by packet.
    set_option(fd, IPPROTO_UDP, UDP_GRO, on);
    set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, on);  // for a counter only
    return {};
}

Result<void> bind_to(int fd, const SockAddr& address, std::uint32_t patience_ms) noexcept {
    constexpr std::uint32_t kStepMs = 10;
    for (std::uint32_t waited = 0;; waited += kStepMs) {
        if (::bind(fd, address.sa(), address.sa_len()) == 0) return {};
        if (errno != EADDRINUSE || waited >= patience_ms) return last_error("bind UDP socket");
        (void)::poll(nullptr, 0, kStepMs);
    }
}

Result<void> bind_below_entropy(int fd, SockAddr& address, std::uint32_t patience_ms) noexcept {
    if (address.port() != 0) return bind_to(fd, address, patience_ms);
    // The kernel's own choice may be a port that means flow entropy; ours goes round from a place
    // of this process.
    constexpr std::uint32_t kFirst = 0x4000, kCount = kFirstEntropyPort - kFirst;
    const auto start = static_cast<std::uint32_t>(::getpid()) * 61;
    for (std::uint32_t i = 0; i < kCount; ++i) {
        const SockAddr at =
            address.with_port(static_cast<std::uint16_t>(kFirst + (start + i) % kCount));
        if (::bind(fd, at.sa(), at.sa_len()) == 0) {
            address = at;
            return {};
        }
        if (errno != EADDRINUSE) break;
    }
    return last_error("bind UDP socket");
}

}  // namespace

Result<UdpSocket> open_udp_socket(const UdpOptions& options, const SockAddr& address,
                                  Sharing sharing) noexcept {
    const int on = 1;
    UdpSocket made;
    made.bound = address;
    UniqueFd& fd = made.fd;
    fd.reset(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) return last_error("UDP socket");
    NR_TRY(set_ip_options(fd.get(), address));
    if (sharing == Sharing::joins && !set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, on)) {
        return last_error("UDP socket: share the port");
    }
    made.window = set_receive_buffer(fd.get(), options.receive_buffer_bytes);
    const int send_buffer = 4 << 20;
    set_option(fd.get(), SOL_SOCKET, SO_SNDBUF, send_buffer);
    NR_TRY(bind_below_entropy(fd.get(), made.bound, options.bind_patience_ms));
    if (sharing == Sharing::first && !set_option(fd.get(), SOL_SOCKET, SO_REUSEPORT, on)) {
        return last_error("UDP socket: share the port");
    }
    made.mtu = std::min(path_mtu(fd.get(), made.bound), roce_mtu(options.path_mtu_max + kHeadroom));
    return made;
}

Result<Route> route_towards(const SockAddr& from, const SockAddr& peer) noexcept {
    if (peer.family() != from.family()) return Error{Errc::system, EAFNOSUPPORT, "route to peer"};
    // A socket that is thrown away again asks the kernel for the route.
    const UniqueFd probe(::socket(peer.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!probe) return last_error("route to peer");
    const SockAddr own = from.with_port(0);
    if (::bind(probe.get(), own.sa(), own.sa_len()) != 0) return last_error("route to peer");
    if (::connect(probe.get(), peer.sa(), peer.sa_len()) != 0) return last_error("route to peer");
    sockaddr_storage name{};
    socklen_t size = sizeof name;
    if (::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
        return last_error("route to peer");
    }
    int mtu = 0;
    size = sizeof mtu;
    const bool v4 = peer.is_v4();
    const bool known = ::getsockopt(probe.get(), v4 ? IPPROTO_IP : IPPROTO_IPV6,
                                    v4 ? IP_MTU : IPV6_MTU, &mtu, &size) == 0;
    return Route{SockAddr::from(reinterpret_cast<const sockaddr*>(&name)).with_port(0),
                 known && mtu > 0 ? roce_mtu(static_cast<std::uint32_t>(mtu)) : 4096};
}

Result<void> steer_by_qpn(int fd, std::uint32_t count) noexcept {
    std::array<sock_filter, 3> code{{{BPF_LD | BPF_B | BPF_ABS, 0, 0, 7},
                                     {BPF_ALU | BPF_MOD | BPF_K, 0, 0, count},
                                     {BPF_RET | BPF_A, 0, 0, 0}}};
    const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
    if (!set_option(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, program)) {
        return last_error("UDP socket: steer by queue pair");
    }
    return {};
}

}  // namespace nfsrdma::verbs::softroce
