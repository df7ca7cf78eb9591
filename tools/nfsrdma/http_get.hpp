#pragma once
#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/sock_addr.hpp"

namespace nfsrdma::tool {

// The body that `server` answers to GET `path` with; blocks. Errc::system, Errc::timed_out,
// Errc::too_big (more than kHttpBodyMax bytes), Errc::bad_message (no answer of status 200).
Result<std::string> http_get(const SockAddr& server, const std::string& path, double timeout_s);
inline constexpr std::size_t kHttpBodyMax = std::size_t{16} << 20;

}  // namespace nfsrdma::tool
