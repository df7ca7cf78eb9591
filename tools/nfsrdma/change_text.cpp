#include "tools/nfsrdma/change_text.hpp"

#include <array>
#include <charconv>
#include <ctime>
#include <grp.h>
#include <pwd.h>
#include <string>
#include <vector>

namespace nfsrdma::tool {
namespace {

template <class T>
bool parse_number(std::string_view text, T& out, int base = 10) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out, base);
    return !text.empty() && error == std::errc{} && end == text.data() + text.size();
}

// The bits of "ugoa" up to the operator; where nobody is named, all.
std::uint32_t take_who(std::string_view& text) {
    std::uint32_t who = 0;
    for (; !text.empty(); text.remove_prefix(1)) {
        if (text.front() == 'u') {
            who |= 04700u;
        } else if (text.front() == 'g') {
            who |= 02070u;
        } else if (text.front() == 'o') {
            who |= 01007u;
        } else if (text.front() == 'a') {
            who |= 07777u;
        } else {
            break;
        }
    }
    return who == 0 ? 07777u : who;
}

// Nothing for a letter that is none.
std::optional<std::uint32_t> bits_of(std::string_view letters, bool any_x) {
    std::uint32_t bits = 0;
    for (const char letter : letters) {
        if (letter == 'r') {
            bits |= 0444u;
        } else if (letter == 'w') {
            bits |= 0222u;
        } else if (letter == 'x') {
            bits |= 0111u;
        } else if (letter == 'X') {
            bits |= any_x ? 0111u : 0u;
        } else if (letter == 's') {
            bits |= 06000u;
        } else if (letter == 't') {
            bits |= 01000u;
        } else {
            return std::nullopt;
        }
    }
    return bits;
}

bool apply(std::string_view clause, bool directory, std::uint32_t& mode) {
    const std::uint32_t who = take_who(clause);
    if (clause.empty()) return false;
    while (!clause.empty()) {
        const char how = clause.front();
        clause.remove_prefix(1);
        const std::size_t end = clause.find_first_of("+-=");
        const bool any_x = directory || (mode & 0111u) != 0;
        const auto bits = bits_of(clause.substr(0, end), any_x);
        clause = end == std::string_view::npos ? std::string_view{} : clause.substr(end);
        if (!bits) return false;
        if (how == '+') {
            mode |= *bits & who;
        } else if (how == '-') {
            mode &= ~(*bits & who);
        } else if (how == '=') {
            mode = (mode & ~(who & 0777u)) | (*bits & who);
        } else {
            return false;
        }
    }
    return true;
}

template <class Entry>
using LookUp = int (*)(const char*, Entry*, char*, std::size_t, Entry**);

template <class Entry>
bool look_up(const std::string& name, LookUp<Entry> function, Entry& out) {
    std::vector<char> room(16384);
    Entry* found = nullptr;
    return function(name.c_str(), &out, room.data(), room.size(), &found) == 0 && found != nullptr;
}

std::optional<std::uint32_t> user_id(const std::string& text) {
    std::uint32_t id = 0;
    if (parse_number(text, id)) return id;
    passwd entry{};
    if (!look_up<passwd>(text, ::getpwnam_r, entry)) return std::nullopt;
    return entry.pw_uid;
}

std::optional<std::uint32_t> group_id(const std::string& text) {
    std::uint32_t id = 0;
    if (parse_number(text, id)) return id;
    group entry{};
    if (!look_up<group>(text, ::getgrnam_r, entry)) return std::nullopt;
    return entry.gr_gid;
}

std::optional<nfstime3> parse_epoch(std::string_view text) {
    const std::size_t point = text.find('.');
    nfstime3 time{};
    if (!parse_number(text.substr(0, point), time.seconds)) return std::nullopt;
    if (point == std::string_view::npos) return time;
    std::string digits(text.substr(point + 1));
    if (digits.empty() || digits.size() > 9) return std::nullopt;
    digits.resize(9, '0');
    if (!parse_number(std::string_view(digits), time.nseconds)) return std::nullopt;
    return time;
}

}  // namespace

std::optional<std::uint32_t> changed_mode(std::string_view text, std::uint32_t mode,
                                          bool directory) {
    std::uint32_t octal = 0;
    if (parse_number(text, octal, 8)) {
        if (octal > 07777u) return std::nullopt;
        return octal;
    }
    mode &= 07777u;
    if (text.empty()) return std::nullopt;
    while (!text.empty()) {
        const std::size_t comma = text.find(',');
        if (!apply(text.substr(0, comma), directory, mode)) return std::nullopt;
        text = comma == std::string_view::npos ? std::string_view{} : text.substr(comma + 1);
    }
    return mode;
}

std::optional<Owner> parse_owner(std::string_view text) {
    const std::size_t colon = text.find(':');
    const std::string user(text.substr(0, colon));
    const std::string group_name(colon == std::string_view::npos ? "" : text.substr(colon + 1));
    if (user.empty() && group_name.empty()) return std::nullopt;
    Owner owner;
    if (!user.empty() && !(owner.uid = user_id(user))) return std::nullopt;
    if (!group_name.empty() && !(owner.gid = group_id(group_name))) return std::nullopt;
    return owner;
}

std::optional<std::uint64_t> parse_size(std::string_view text) {
    constexpr std::string_view kUnits = "KMGTP";
    std::uint32_t shift = 0;
    if (!text.empty()) {
        const std::size_t unit = kUnits.find(text.back());
        if (unit != std::string_view::npos) {
            shift = 10 * (static_cast<std::uint32_t>(unit) + 1);
            text.remove_suffix(1);
        }
    }
    std::uint64_t number = 0;
    if (!parse_number(text, number) || number > (std::uint64_t{INT64_MAX} >> shift))
        return std::nullopt;
    return number << shift;
}

std::optional<nfstime3> parse_time(std::string_view text) {
    if (!text.empty() && text.front() == '@') return parse_epoch(text.substr(1));
    const std::string copy(text);
    for (const char* format : {"%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M",
                               "%Y-%m-%dT%H:%M", "%Y-%m-%d"}) {
        std::tm local{};
        local.tm_isdst = -1;
        const char* const end = ::strptime(copy.c_str(), format, &local);
        if (end == nullptr || *end != '\0') continue;
        const std::time_t seconds = std::mktime(&local);
        if (seconds < 0 || seconds > UINT32_MAX) return std::nullopt;
        return nfstime3{static_cast<unsigned>(seconds), 0};
    }
    return std::nullopt;
}

}  // namespace nfsrdma::tool
