#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/result.hpp"
#include "tools/nfsrdma/mount_table.hpp"

// How the counters of a mount are asked for: the process that serves it listens on an abstract
// socket (unix(7)) whose name has the mount's device number, which mountinfo tells without asking
// the file system. The question is one line, "text" or "json"; the answer ends with the connection.
namespace nfsrdma::tool {

// Who has taken the name of somebody else's mount is passed over: so many names are tried.
inline constexpr std::uint32_t kStatsNames = 4;
inline constexpr std::size_t kStatsMax = std::size_t{1} << 20;

struct StatsAddress {
    sockaddr_un address{};
    socklen_t size = 0;
    const sockaddr* sa() const noexcept;
};
StatsAddress stats_address(std::uint32_t major, std::uint32_t minor, std::uint32_t try_number);

// Asks the process of `mount`, and believes only one of root or of the mount's owner. Errc::system,
// Errc::timed_out, Errc::too_big, Errc::refused (none is there: of another network namespace, or
// ended).
Result<std::string> ask_mount(const MountEntry& mount, bool json, double timeout_s);

// The mount of ours that a user means by `path`, by its name alone where possible: nothing is asked
// of file systems unless symbolic links are to be followed, and then only above `path`. nullptr:
// there is none.
const MountEntry* find_mount(const std::vector<MountEntry>& table, const std::string& path);

}  // namespace nfsrdma::tool
