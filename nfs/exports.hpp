#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "nfs/vfs.hpp"

// Whom an export is for, and as whom they act there: the rules of exports(5) as values. Pure.
namespace nfsrdma::nfs {

inline constexpr std::uint32_t kNobody = 65534;

enum class Squash : std::uint8_t {
    none,
    root,  // uid 0 and gid 0 are the anonymous ones
    all,   // everybody is anonymous
};

// What one client may do. The defaults are those of exports(5).
struct ClientOptions {
    bool read_only = true;
    bool secure = true;  // over TCP and UDP: only from a port below 1024; any RDMA peer passes
    Squash squash = Squash::root;
    std::uint32_t anon_uid = kNobody, anon_gid = kNobody;
    bool operator==(const ClientOptions&) const = default;
};

// The caller as the export sees it; always `known`. A caller without AUTH_SYS is anonymous, and so
// is the uid or gid -1, which no user has.
Cred squashed(const Cred& caller, const ClientOptions& options) noexcept;

// Whom a rule is for. IPv4 addresses are kept as mapped ones, so that ::ffff:a.b.c.d is a.b.c.d.
struct HostPattern {
    enum class Kind : std::uint8_t {
        host,     // one machine: `networks` has its addresses
        network,  // address and prefix
        names,    // a wildcard over host names
        any,      // "*"
    };
    struct Network {
        std::array<std::byte, 16> address{};
        std::uint8_t prefix = 128;  // bits
        // An IPv6 network holds no IPv4 addresses: those of "::/0" are not among its own.
        bool holds(const std::array<std::byte, 16>& other) const noexcept;
    };
    Kind kind = Kind::any;
    std::string text = "*";  // as it was written
    std::vector<Network> networks;
};

struct ClientRule {
    HostPattern host;
    ClientOptions options;
};

struct ExportRules {
    std::vector<ClientRule> clients;

    // Everybody may change everything as the user that they say they are.
    static ExportRules open();
    // The rule for this peer: a single host before a network, a network before a wildcard, a
    // wildcard before "*"; of equals the first. `names`: the peer's host names, nullptr while they
    // are not known; then `need_names` tells that they decide.
    const ClientRule* find(const SockAddr& peer, const std::vector<std::string>* names,
                           bool& need_names) const noexcept;
};

// "a//b/" -> "/a/b"; "" and "/" -> "/".
std::string normal_export_name(std::string_view name);

// "*.example.org" and the like: '*', '?' and "[...]"; they match dots as well, as in exports(5), so
// that a.b.example.org is one of these. Case does not matter.
bool name_matches(std::string_view pattern, std::string_view name) noexcept;

}  // namespace nfsrdma::nfs
