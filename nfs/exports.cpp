#include "nfs/exports.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kNoId = std::numeric_limits<std::uint32_t>::max();

constexpr unsigned kMappedBits = 96;  // before an IPv4 address in its mapped form

bool is_mapped(const std::array<std::byte, 16>& address) noexcept {
    constexpr std::array<std::uint8_t, 12> kPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return std::equal(kPrefix.begin(), kPrefix.end(), address.begin(),
                      [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
}

char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// One element of a pattern against one character; `used` are the pattern's characters.
bool element_matches(std::string_view pattern, char c, std::size_t& used) noexcept {
    used = 1;
    if (pattern.front() == '?') return true;
    const std::size_t end = pattern.front() == '[' ? pattern.find(']', 2) : pattern.npos;
    if (end == pattern.npos) return lower(pattern.front()) == lower(c);
    used = end + 1;
    std::string_view set = pattern.substr(1, end - 1);
    const bool inverted = set.front() == '!' || set.front() == '^';
    if (inverted) set.remove_prefix(1);
    bool in = false;
    while (!set.empty()) {
        const bool range = set.size() >= 3 && set[1] == '-';
        const char last = range ? set[2] : set.front();
        in = in || (lower(c) >= lower(set.front()) && lower(c) <= lower(last));
        set.remove_prefix(range ? 3 : 1);
    }
    return in != inverted;
}

bool holds(const HostPattern& host, const std::array<std::byte, 16>& address) noexcept {
    return std::ranges::any_of(host.networks,
                               [&](const auto& network) { return network.holds(address); });
}

}  // namespace

bool name_matches(std::string_view pattern, std::string_view name) noexcept {
    // Only the last '*' is ever taken back: what an earlier one could match, it can as well.
    std::string_view star_pattern, star_name;
    bool starred = false;
    for (;;) {
        std::size_t used = 0;
        if (!pattern.empty() && pattern.front() == '*') {
            pattern.remove_prefix(1);
            starred = true;
            star_pattern = pattern;
            star_name = name;
        } else if (name.empty() && pattern.empty()) {
            return true;
        } else if (!pattern.empty() && !name.empty() &&
                   element_matches(pattern, name.front(), used)) {
            pattern.remove_prefix(used);
            name.remove_prefix(1);
        } else if (starred && !star_name.empty()) {
            star_name.remove_prefix(1);
            pattern = star_pattern;
            name = star_name;
        } else {
            return false;
        }
    }
}

std::string normal_export_name(std::string_view name) {
    std::string out = "/";
    for (const char c : name) {
        if (c != '/' || out.back() != '/') out.push_back(c);
    }
    if (out.size() > 1 && out.back() == '/') out.pop_back();
    return out;
}

Cred squashed(const Cred& caller, const ClientOptions& options) noexcept {
    Cred out;
    out.known = true;
    out.uid = options.anon_uid;
    out.gid = options.anon_gid;
    if (!caller.known || options.squash == Squash::all) return out;
    const auto is_anonymous = [&](std::uint32_t id) {
        return id == kNoId || (id == 0 && options.squash == Squash::root);
    };
    if (!is_anonymous(caller.uid)) out.uid = caller.uid;
    if (!is_anonymous(caller.gid)) out.gid = caller.gid;
    const std::size_t count = std::min<std::size_t>(caller.group_count, caller.groups.size());
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint32_t group = caller.groups[i];
        if (group == kNoId) continue;
        out.groups[out.group_count++] = is_anonymous(group) ? options.anon_gid : group;
    }
    return out;
}

bool HostPattern::Network::holds(const std::array<std::byte, 16>& other) const noexcept {
    if (prefix < kMappedBits && is_mapped(other)) return false;
    const std::size_t whole = std::min<std::size_t>(prefix / 8u, address.size());
    if (std::memcmp(address.data(), other.data(), whole) != 0) return false;
    const unsigned left = whole == address.size() ? 0 : prefix % 8u;
    return left == 0 || ((address[whole] ^ other[whole]) >> (8 - left)) == std::byte{0};
}

ExportRules ExportRules::open() {
    ClientRule all;
    all.options.read_only = false;
    all.options.secure = false;
    all.options.squash = Squash::none;
    return {{all}};
}

const ClientRule* ExportRules::find(const SockAddr& peer, const std::vector<std::string>* names,
                                    bool& need_names) const noexcept {
    const std::array<std::byte, 16> address = peer.gid();
    const ClientRule* best = nullptr;
    need_names = false;
    for (const ClientRule& rule : clients) {
        if (best != nullptr && best->host.kind <= rule.host.kind) continue;
        bool matches = false;
        switch (rule.host.kind) {
            case HostPattern::Kind::host:
            case HostPattern::Kind::network:
                matches = holds(rule.host, address);
                break;
            case HostPattern::Kind::names:
                need_names = need_names || names == nullptr;
                matches = names != nullptr && std::ranges::any_of(*names, [&](const auto& name) {
                              return name_matches(rule.host.text, name);
                          });
                break;
            case HostPattern::Kind::any:
                matches = true;
                break;
        }
        if (matches) best = &rule;
    }
    // What was found already is more particular than any name.
    if (best != nullptr && best->host.kind < HostPattern::Kind::names) need_names = false;
    return best;
}

}  // namespace nfsrdma::nfs
