#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace nfsrdma::sunrpc {

inline constexpr std::uint32_t kAuthBodyMax = 400;      // RFC 5531 s8.2
inline constexpr std::uint32_t kAuthSysGroupsMax = 16;  // RFC 5531 appendix A
inline constexpr std::uint32_t kMachineNameMax = 255;

enum class AuthFlavor : std::uint32_t { none = 0, sys = 1, shorthand = 2, gss = 6 };

// AUTH_SYS parameters. A value without allocation.
struct AuthSys {
    std::uint32_t stamp = 0;
    std::array<char, kMachineNameMax + 1> machine{};  // zero-terminated
    std::uint32_t uid = 0, gid = 0;
    std::uint32_t group_count = 0;
    std::array<std::uint32_t, kAuthSysGroupsMax> groups{};
    // Of this process: effective uid and gid and the first 16 groups; `truncated` tells that there
    // were more.
    static AuthSys of_process(bool& truncated);
};

}  // namespace nfsrdma::sunrpc
