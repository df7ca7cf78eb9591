#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/result.hpp"

namespace nfsrdma {

// An IPv4 or IPv6 address with a port. A value; compares by family, address, scope and port.
class SockAddr {
  public:
    SockAddr() = default;  // family unspecified
    static SockAddr v4(std::uint32_t host_order_address, std::uint16_t port) noexcept;
    static SockAddr v6(const in6_addr& address, std::uint16_t port,
                       std::uint32_t scope = 0) noexcept;
    // Any other family gives an unspecified address.
    static SockAddr from(const sockaddr* sa) noexcept;
    // Numeric only: "127.0.0.1", "127.0.0.1:20049", "::1", "[::1]:20049", "fe80::1%eth0", ":20049"
    // (any address). Errc::invalid_argument when it is none of these.
    static Result<SockAddr> parse(std::string_view text, std::uint16_t default_port);
    // Numeric as above, else a name by getaddrinfo(3) (may block); the first address wins.
    static Result<SockAddr> resolve(const std::string& host, std::uint16_t port);

    bool is_v4() const noexcept { return family() == AF_INET; }
    bool is_v6() const noexcept { return family() == AF_INET6; }
    bool is_loopback() const noexcept;
    bool is_any() const noexcept;
    int family() const noexcept { return storage_.sin6.sin6_family; }
    std::uint16_t port() const noexcept;  // host order
    SockAddr with_port(std::uint16_t port) const noexcept;
    // 16 bytes, network order, IPv4 mapped (::ffff:a.b.c.d): a RoCEv2 GID.
    std::array<std::byte, 16> gid() const noexcept;
    static SockAddr from_gid(const std::array<std::byte, 16>& gid, std::uint16_t port) noexcept;

    const sockaddr* sa() const noexcept { return &storage_.sa; }
    socklen_t sa_len() const noexcept {
        return is_v4() ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    }
    std::string to_string() const;          // "127.0.0.1:20049", "[::1]:20049"
    std::string address_to_string() const;  // without the port
    bool same_address(const SockAddr& other) const noexcept;
    bool operator==(const SockAddr& other) const noexcept;

  private:
    union Storage {
        sockaddr sa;
        sockaddr_in sin;
        sockaddr_in6 sin6;
    } storage_{.sin6 = {}};
};

}  // namespace nfsrdma
