#include "nfs/exports_host.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <bit>
#include <charconv>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <optional>

#include "base/bytes.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint8_t kMappedBits = 96;  // before an IPv4 address in its mapped form
constexpr std::size_t kHostMax = 255;

bool is_name_char(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
}

// An address without port and without scope; the number of its own bits.
std::optional<HostPattern::Network> parse_address(const std::string& text, unsigned& bits) {
    std::array<std::byte, 4> v4{};
    in6_addr v6{};
    HostPattern::Network out;
    if (::inet_pton(AF_INET, text.c_str(), v4.data()) == 1) {
        bits = 32;
        out.address = SockAddr::v4(load_be32(v4.data()), 0).gid();
        return out;
    }
    if (::inet_pton(AF_INET6, text.c_str(), &v6) != 1) return std::nullopt;
    bits = 128;
    out.address = SockAddr::v6(v6, 0).gid();
    return out;
}

// "24", or "255.255.255.0" for an IPv4 network.
std::optional<unsigned> parse_prefix(const std::string& text, unsigned bits) {
    unsigned value = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (ec == std::errc{} && end == text.data() + text.size()) {
        return value <= bits ? std::optional(value) : std::nullopt;
    }
    std::array<std::byte, 4> mask{};
    if (bits != 32 || ::inet_pton(AF_INET, text.c_str(), mask.data()) != 1) return std::nullopt;
    const std::uint32_t ones = load_be32(mask.data());
    const auto count = static_cast<unsigned>(std::countl_one(ones));
    return count == static_cast<unsigned>(std::popcount(ones)) ? std::optional(count)
                                                               : std::nullopt;
}

bool parse_network(std::string_view text, HostPattern& out, std::string& why) {
    const std::size_t slash = text.find('/');
    unsigned bits = 0;
    auto network = parse_address(std::string(text.substr(0, slash)), bits);
    if (!network) {
        why = "is not ADDRESS/PREFIX or ADDRESS/NETMASK: no numeric address before the '/'";
        return false;
    }
    const auto prefix = parse_prefix(std::string(text.substr(slash + 1)), bits);
    if (!prefix) {
        why = bits == 32 ? "has a prefix that is neither 0 to 32 nor a netmask"
                         : "has a prefix that is not 0 to 128";
        return false;
    }
    network->prefix = static_cast<std::uint8_t>(bits == 32 ? kMappedBits + *prefix : *prefix);
    out.kind = HostPattern::Kind::network;
    out.networks = {*network};
    return true;
}

bool parse_wildcard(std::string_view text, HostPattern& out, std::string& why) {
    const auto is_wild = [](char c) { return std::strchr("*?[]!^", c) != nullptr; };
    if (!std::ranges::all_of(text, [&](char c) { return is_name_char(c) || is_wild(c); })) {
        why = "has a character that no host name has";
        return false;
    }
    if (std::ranges::none_of(
            text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }) &&
        text.find_first_of("0123456789") != text.npos) {
        why = "is a wildcard over addresses; wildcards match host names, write ADDRESS/PREFIX";
        return false;
    }
    if (std::ranges::count(text, '[') != std::ranges::count(text, ']')) {
        why = "has a '[' without ']'";
        return false;
    }
    out.kind = HostPattern::Kind::names;
    return true;
}

}  // namespace

bool parse_host(std::string_view text, HostPattern& out, std::string& why) {
    out = {};
    out.text = text;
    why.clear();
    if (text == "*") {
        out.kind = HostPattern::Kind::any;
        return true;
    }
    if (text.empty() || text.size() > kHostMax) {
        why = "is no host";
    } else if (text.front() == '@') {
        why = "is a netgroup; netgroups are not supported, name hosts, networks or wildcards";
    } else if (text.substr(0, 4) == "gss/") {
        why = "asks for Kerberos, which is not supported";
    } else if (text.front() == '-') {
        why = "are default options, which stand behind the path and nowhere else";
    }
    if (!why.empty()) return false;
    if (text.find('/') != text.npos) return parse_network(text, out, why);
    unsigned bits = 0;
    if (const auto address = parse_address(std::string(text), bits)) {
        out.kind = HostPattern::Kind::host;
        out.networks = {*address};
        return true;
    }
    if (text.find(':') != text.npos) {
        why = "is not an IPv6 address";
        return false;
    }
    if (text.find_first_of("*?[]") != text.npos) return parse_wildcard(text, out, why);
    if (!std::ranges::all_of(text, is_name_char)) {
        why = "has a character that no host name has";
        return false;
    }
    if (text.find_first_not_of("0123456789.") == text.npos) {
        why = "is not an IPv4 address";
        return false;
    }
    out.kind = HostPattern::Kind::host;
    return true;
}

std::vector<std::string> resolve_hosts(ExportRules& rules) {
    std::vector<std::string> out;
    for (ClientRule& rule : rules.clients) {
        HostPattern& host = rule.host;
        if (host.kind != HostPattern::Kind::host || !host.networks.empty()) continue;
        addrinfo hints{}, *list = nullptr;
        hints.ai_socktype = SOCK_STREAM;
        const int status = ::getaddrinfo(host.text.c_str(), nullptr, &hints, &list);
        const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
        for (const addrinfo* at = status == 0 ? list : nullptr; at != nullptr; at = at->ai_next) {
            host.networks.push_back({SockAddr::from(at->ai_addr).gid(), 128});
        }
        if (host.networks.empty()) {
            out.push_back(host.text + " has no address (" + ::gai_strerror(status) +
                          ") and gets no access");
        }
    }
    return out;
}

}  // namespace nfsrdma::nfs
