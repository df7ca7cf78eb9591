#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace nfsrdma::rpcrdma_dump {

// Bytes of hex text: digits in pairs, with any spaces and newlines between pairs, an optional 0x
// before a run of them, and comments from '#' to the end of the line. Errc::invalid_argument for
// anything else; `line` is then the line number.
Result<std::vector<std::byte>> parse_hex(std::string_view text, std::size_t& line);

}  // namespace nfsrdma::rpcrdma_dump
