#include "tools/nfsrdma/json.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace nfsrdma::tool {
namespace {

std::uint8_t byte_at(std::string_view text, std::size_t at) {
    return at < text.size() ? static_cast<std::uint8_t>(text[at]) : std::uint8_t{0};
}

// Bytes of the well-formed UTF-8 sequence at `at` (Unicode 15, table 3-7); 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t at) {
    const std::uint8_t first = byte_at(text, at), second = byte_at(text, at + 1);
    const auto follows = [&](std::size_t i) { return (byte_at(text, at + i) & 0xc0u) == 0x80u; };
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return follows(1) ? 2 : 0;
    if (first >= 0xe0 && first <= 0xef) {
        if (!follows(1) || !follows(2)) return 0;
        if (first == 0xe0 && second < 0xa0) return 0;  // a longer way to write it
        if (first == 0xed && second > 0x9f) return 0;  // a surrogate
        return 3;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        if (!follows(1) || !follows(2) || !follows(3)) return 0;
        if (first == 0xf0 && second < 0x90) return 0;
        if (first == 0xf4 && second > 0x8f) return 0;
        return 4;
    }
    return 0;
}

std::string escape(unsigned code) {
    std::array<char, 8> out{};
    (void)std::snprintf(out.data(), out.size(), "\\u%04x", code);
    return out.data();
}

}  // namespace

std::string json_string(std::string_view text) {
    std::string out = "\"";
    for (std::size_t at = 0; at < text.size();) {
        const std::uint8_t byte = byte_at(text, at);
        const std::size_t length = utf8_length(text, at);
        if (length == 0) {
            out += escape(0xdc00u + byte);
        } else if (byte == '"' || byte == '\\') {
            out += '\\';
            out += text[at];
        } else if (byte < 0x20 || byte == 0x7f) {
            out += escape(byte);
        } else {
            out += text.substr(at, length);
        }
        at += length == 0 ? 1 : length;
    }
    return out + "\"";
}

JsonObject& JsonObject::add(std::string_view name, double number) {
    std::array<char, 48> out{};
    // JSON has no infinity.
    (void)std::snprintf(out.data(), out.size(), "%.6f", std::isfinite(number) ? number : 0.0);
    return add_raw(name, out.data());
}

JsonObject& JsonObject::add_raw(std::string_view name, std::string_view value) {
    if (!members_.empty()) members_ += ",";
    members_ += json_string(name) + ":";
    members_ += value;
    return *this;
}

}  // namespace nfsrdma::tool
