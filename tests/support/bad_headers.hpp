#pragma once
#include <cstdint>
#include <vector>

#include "tests/support/raw_peer.hpp"

namespace nfsrdma::test {

// Messages that no client sends, of the size that a server takes inline, and what is the answer to
// each: ERR_VERS, ERR_CHUNK, or nothing. Their XID is kBadXid where they have one.
struct BadHeader {
    const char* name;
    Bytes bytes;
    bool vers = false, chunk = false;  // neither: dropped
};
inline constexpr std::uint32_t kBadXid = 0xBAD;
std::vector<BadHeader> bad_headers();

}  // namespace nfsrdma::test
