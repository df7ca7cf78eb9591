#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nfsrdma::tool {

// nfs://HOST[:PORT]/EXPORT/PATH; an IPv6 address stands in brackets, %XX is a byte (RFC 2224, RFC
// 3986).
struct Url {
    std::string host;
    std::uint16_t port = 20049;
    std::string path;            // begins with '/'; as it is on the server, decoded
    std::string server() const;  // "host:port"
    std::string text() const { return "nfs://" + server() + path; }  // for people
    bool same_server(const Url& other) const { return host == other.host && port == other.port; }
    bool ends_in_slash() const { return !path.empty() && path.back() == '/'; }
};

bool looks_like_url(std::string_view text) noexcept;
// Nothing when it is none; `why` then says what is wrong.
std::optional<Url> parse_url(std::string_view text, std::string& why);

// A server alone: HOST, HOST:PORT, an address in brackets, or any URL.
std::optional<Url> parse_server(std::string_view text, std::string& why);

// "/srv/data" is a prefix of "/srv/data/x" and of itself, not of "/srv/database"; "/" is of all.
// `path` is normal: see below.
bool is_path_prefix(std::string_view prefix, std::string_view path) noexcept;
// "//a/./b/" -> "/a/b": no empty components and no "."; ".." stays.
std::string normal_path(std::string_view path);
std::string last_component(std::string_view path);  // "" for "/"

}  // namespace nfsrdma::tool
