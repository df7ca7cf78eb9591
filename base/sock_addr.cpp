#include "base/sock_addr.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <optional>

#include "base/bytes.hpp"

namespace nfsrdma {

namespace {

constexpr Error kNotAnAddress{Errc::invalid_argument, 0, "not a numeric address"};

std::optional<std::uint32_t> parse_number(std::string_view text, std::uint32_t max) noexcept {
    std::uint32_t value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec != std::errc{} || end != text.data() + text.size() || value > max) return std::nullopt;
    return value;
}

std::optional<SockAddr> parse_v4(std::string_view text, std::uint16_t port) {
    in_addr address{};
    if (::inet_pton(AF_INET, std::string(text).c_str(), &address) != 1) return std::nullopt;
    return SockAddr::v4(ntohl(address.s_addr), port);
}

// A scope is an interface's name or its number.
std::optional<SockAddr> parse_v6(std::string_view text, std::uint16_t port) {
    std::uint32_t scope = 0;
    if (const auto percent = text.find('%'); percent != std::string_view::npos) {
        const std::string name(text.substr(percent + 1));
        scope = ::if_nametoindex(name.c_str());
        if (scope == 0) scope = parse_number(name, UINT32_MAX).value_or(0);
        if (scope == 0) return std::nullopt;
        text = text.substr(0, percent);
    }
    in6_addr address{};
    if (::inet_pton(AF_INET6, std::string(text).c_str(), &address) != 1) return std::nullopt;
    return SockAddr::v6(address, port, scope);
}

bool has_v4_mapped_prefix(const std::byte* gid) noexcept {
    constexpr std::array<unsigned char, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::memcmp(gid, kPrefix.data(), kPrefix.size()) == 0;
}

}  // namespace

SockAddr SockAddr::v4(std::uint32_t host_order_address, std::uint16_t port) noexcept {
    SockAddr out;
    out.storage_.sin = sockaddr_in{};
    out.storage_.sin.sin_family = AF_INET;
    out.storage_.sin.sin_port = htons(port);
    out.storage_.sin.sin_addr.s_addr = htonl(host_order_address);
    return out;
}

SockAddr SockAddr::v6(const in6_addr& address, std::uint16_t port, std::uint32_t scope) noexcept {
    SockAddr out;
    out.storage_.sin6.sin6_family = AF_INET6;
    out.storage_.sin6.sin6_port = htons(port);
    out.storage_.sin6.sin6_addr = address;
    out.storage_.sin6.sin6_scope_id = scope;
    return out;
}

SockAddr SockAddr::from(const sockaddr* sa) noexcept {
    // memcpy, for `sa` may stand at any alignment inside a control message.
    if (sa->sa_family == AF_INET) {
        sockaddr_in sin{};
        std::memcpy(&sin, sa, sizeof sin);
        return v4(ntohl(sin.sin_addr.s_addr), ntohs(sin.sin_port));
    }
    if (sa->sa_family == AF_INET6) {
        sockaddr_in6 sin6{};
        std::memcpy(&sin6, sa, sizeof sin6);
        return v6(sin6.sin6_addr, ntohs(sin6.sin6_port), sin6.sin6_scope_id);
    }
    return {};
}

Result<SockAddr> SockAddr::parse(std::string_view text, std::uint16_t default_port) {
    std::string_view host = text;
    std::string_view port_text;
    bool bracketed = false;
    bool has_port = false;
    if (text.starts_with('[')) {
        const auto close = text.find(']');
        if (close == std::string_view::npos) return kNotAnAddress;
        host = text.substr(1, close - 1);
        bracketed = true;
        const std::string_view rest = text.substr(close + 1);
        if (!rest.empty()) {
            if (rest.front() != ':') return kNotAnAddress;
            port_text = rest.substr(1);
            has_port = true;
        }
    } else if (std::count(text.begin(), text.end(), ':') == 1) {
        const auto colon = text.find(':');
        host = text.substr(0, colon);
        port_text = text.substr(colon + 1);
        has_port = true;
    }
    std::uint16_t port = default_port;
    if (has_port) {
        const auto number = parse_number(port_text, 65535);
        if (!number) return Error{Errc::invalid_argument, 0, "port is not a number of 0 to 65535"};
        port = static_cast<std::uint16_t>(*number);
    }
    if (host.find('\0') != std::string_view::npos) return kNotAnAddress;
    if (host.empty() && has_port && !bracketed) return v4(INADDR_ANY, port);
    if (!bracketed) {
        if (const auto address = parse_v4(host, port)) return *address;
    }
    if (bracketed || !has_port) {
        if (const auto address = parse_v6(host, port)) return *address;
    }
    return kNotAnAddress;
}

Result<SockAddr> SockAddr::resolve(const std::string& host, std::uint16_t port) {
    if (auto numeric = parse(host, port)) return *numeric;
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_DGRAM;
    addrinfo* found = nullptr;
    const int rc = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
    if (rc == EAI_SYSTEM) return Error{Errc::system, errno, "resolve host name"};
    if (rc == EAI_AGAIN) return Error{Errc::again, 0, "resolve host name: no answer"};
    if (rc != 0) return Error{Errc::invalid_argument, 0, "host name is not known"};
    for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
        const SockAddr address = from(at->ai_addr);
        if (address.family() != AF_UNSPEC) return address.with_port(port);
    }
    return Error{Errc::invalid_argument, 0, "host name has no IP address"};
}

bool SockAddr::is_loopback() const noexcept {
    if (is_v4()) return ntohl(storage_.sin.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return is_v6() && IN6_IS_ADDR_LOOPBACK(&storage_.sin6.sin6_addr);
}

bool SockAddr::is_any() const noexcept {
    if (is_v4()) return storage_.sin.sin_addr.s_addr == INADDR_ANY;
    return is_v6() && IN6_IS_ADDR_UNSPECIFIED(&storage_.sin6.sin6_addr);
}

std::uint16_t SockAddr::port() const noexcept {
    if (is_v4()) return ntohs(storage_.sin.sin_port);
    return is_v6() ? ntohs(storage_.sin6.sin6_port) : std::uint16_t{0};
}

SockAddr SockAddr::with_port(std::uint16_t port) const noexcept {
    SockAddr out = *this;
    if (is_v4()) out.storage_.sin.sin_port = htons(port);
    if (is_v6()) out.storage_.sin6.sin6_port = htons(port);
    return out;
}

std::array<std::byte, 16> SockAddr::gid() const noexcept {
    std::array<std::byte, 16> out{};
    if (is_v4()) {
        out[10] = out[11] = std::byte{0xff};
        std::memcpy(&out[12], &storage_.sin.sin_addr, sizeof storage_.sin.sin_addr);
    } else if (is_v6()) {
        std::memcpy(out.data(), &storage_.sin6.sin6_addr, out.size());
    }
    return out;
}

SockAddr SockAddr::from_gid(const std::array<std::byte, 16>& gid, std::uint16_t port) noexcept {
    if (has_v4_mapped_prefix(gid.data())) return v4(load_be32(&gid[12]), port);
    in6_addr address{};
    std::memcpy(&address, gid.data(), gid.size());
    return v6(address, port);
}

std::string SockAddr::address_to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (is_v4()) {
        return ::inet_ntop(AF_INET, &storage_.sin.sin_addr, text.data(), text.size());
    }
    if (!is_v6()) return "unspecified";
    std::string out = ::inet_ntop(AF_INET6, &storage_.sin6.sin6_addr, text.data(), text.size());
    if (storage_.sin6.sin6_scope_id != 0) {
        std::array<char, IF_NAMESIZE> name{};
        const char* known = ::if_indextoname(storage_.sin6.sin6_scope_id, name.data());
        out += '%';
        out += known != nullptr ? std::string(known) : std::to_string(storage_.sin6.sin6_scope_id);
    }
    return out;
}

std::string SockAddr::to_string() const {
    if (is_v6()) return '[' + address_to_string() + "]:" + std::to_string(port());
    if (is_v4()) return address_to_string() + ':' + std::to_string(port());
    return address_to_string();
}

bool SockAddr::same_address(const SockAddr& other) const noexcept {
    if (family() != other.family()) return false;
    if (is_v4()) return storage_.sin.sin_addr.s_addr == other.storage_.sin.sin_addr.s_addr;
    if (!is_v6()) return true;
    return IN6_ARE_ADDR_EQUAL(&storage_.sin6.sin6_addr, &other.storage_.sin6.sin6_addr) &&
           storage_.sin6.sin6_scope_id == other.storage_.sin6.sin6_scope_id;
}

bool SockAddr::operator==(const SockAddr& other) const noexcept {
    return same_address(other) && port() == other.port();
}

}  // namespace nfsrdma
