#include "tools/nfsrdma/url.hpp"

#include <algorithm>
#include <charconv>

namespace nfsrdma::tool {
namespace {

constexpr std::string_view kScheme = "nfs://";

std::optional<unsigned> hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    return std::nullopt;
}

// A '%' that two hexadecimal digits do not follow stands for itself.
std::string decode_percent(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '%' && i + 2 < text.size()) {
            const auto high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
            if (high && low) {
                out.push_back(static_cast<char>(*high << 4 | *low));
                i += 2;
                continue;
            }
        }
        out.push_back(text[i]);
    }
    return out;
}

}  // namespace

std::string Url::server() const {
    const bool is_v6 = host.find(':') != std::string::npos;
    return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

bool looks_like_url(std::string_view text) noexcept {
    return text.substr(0, kScheme.size()) == kScheme;
}

std::optional<Url> parse_url(std::string_view text, std::string& why) {
    const auto fail = [&](const char* what) {
        why = "'" + std::string(text) + "' " + what + "; expected nfs://HOST[:PORT]/EXPORT/PATH";
        return std::nullopt;
    };
    if (!looks_like_url(text)) return fail("is not an NFS URL");
    std::string_view rest = text.substr(kScheme.size());
    const std::size_t slash = rest.find('/');
    if (slash == std::string_view::npos) return fail("has no path");
    std::string_view authority = rest.substr(0, slash);
    Url url;
    url.path = decode_percent(rest.substr(slash));
    if (url.path.find('\0') != std::string::npos) return fail("has a zero byte in its path");
    std::string_view port;
    if (!authority.empty() && authority.front() == '[') {
        const std::size_t close = authority.find(']');
        if (close == std::string_view::npos) return fail("has no ']' behind its address");
        url.host = authority.substr(1, close - 1);
        port = authority.substr(close + 1);
        if (!port.empty() && port.front() != ':') return fail("has something behind its address");
    } else {
        const std::size_t colon = authority.find(':');
        url.host = authority.substr(0, colon);
        if (colon != std::string_view::npos) port = authority.substr(colon);
    }
    if (url.host.empty()) return fail("has no host");
    if (!port.empty()) {
        port.remove_prefix(1);
        const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
        if (error != std::errc{} || end != port.data() + port.size() || url.port == 0) {
            return fail("has a port that is none");
        }
    }
    return url;
}

std::optional<Url> parse_server(std::string_view text, std::string& why) {
    if (looks_like_url(text)) {
        const bool has_path = text.find('/', kScheme.size()) != std::string_view::npos;
        return parse_url(has_path ? std::string(text) : std::string(text) + "/", why);
    }
    std::string url = std::string(kScheme);
    // An IPv6 address as it is, without brackets.
    const bool is_v6 = std::count(text.begin(), text.end(), ':') > 1 && text.front() != '[';
    url += is_v6 ? "[" + std::string(text) + "]" : std::string(text);
    std::optional<Url> parsed;
    if (text.find('/') == std::string_view::npos) parsed = parse_url(url + "/", why);
    if (!parsed) why = "'" + std::string(text) + "' is no server; expected HOST[:PORT]";
    return parsed;
}

bool is_path_prefix(std::string_view prefix, std::string_view path) noexcept {
    if (prefix == "/") return true;
    if (path.substr(0, prefix.size()) != prefix) return false;
    return path.size() == prefix.size() || path[prefix.size()] == '/';
}

std::string normal_path(std::string_view path) {
    std::string out;
    while (!path.empty()) {
        const std::size_t slash = path.find('/');
        const std::string_view part = path.substr(0, slash);
        path = slash == std::string_view::npos ? std::string_view{} : path.substr(slash + 1);
        if (part.empty() || part == ".") continue;
        out += '/';
        out += part;
    }
    return out.empty() ? "/" : out;
}

std::string last_component(std::string_view path) {
    const std::string normal = normal_path(path);
    return normal.substr(normal.rfind('/') + 1);
}

}  // namespace nfsrdma::tool
