#include "tools/rpcrdma_dump/hex_text.hpp"

#include <algorithm>

namespace nfsrdma::rpcrdma_dump {

namespace {

int digit(char c) noexcept {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

bool is_space(char c) noexcept {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':';
}

}  // namespace

Result<std::vector<std::byte>> parse_hex(std::string_view text, std::size_t& line) {
    std::vector<std::byte> bytes;
    line = 1;
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] == '#') {
            i = std::min(text.find('\n', i), text.size());
            continue;
        }
        if (is_space(text[i])) {
            line += text[i] == '\n' ? 1 : 0;
            ++i;
            continue;
        }
        if (text[i] == '0' && i + 1 < text.size() && (text[i + 1] == 'x' || text[i + 1] == 'X')) {
            i += 2;
            if (i == text.size() || digit(text[i]) < 0)
                return Error{Errc::invalid_argument, 0, "0x without digits"};
            continue;
        }
        if (digit(text[i]) < 0) return Error{Errc::invalid_argument, 0, "not a hexadecimal digit"};
        if (i + 1 == text.size() || digit(text[i + 1]) < 0) {
            return Error{Errc::invalid_argument, 0, "an odd number of digits"};
        }
        bytes.push_back(static_cast<std::byte>(digit(text[i]) * 16 + digit(text[i + 1])));
        i += 2;
    }
    return bytes;
}

}  // namespace nfsrdma::rpcrdma_dump
