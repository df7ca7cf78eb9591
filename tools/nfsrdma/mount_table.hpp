#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

// What is mounted where, as the kernel tells it (proc(5), mountinfo): no file system is asked.
namespace nfsrdma::tool {

struct MountEntry {
    std::uint32_t major = 0, minor = 0;  // of the device
    std::string root;                    // what of the file system is seen: "/" but for bind mounts
    std::string directory, type, source;
    std::string options, super_options;  // of this mount; of the file system
    std::uint32_t owner = 0;             // user_id= of a FUSE mount

    bool is_ours() const noexcept { return type == "fuse.nfsrdma"; }
};

// In the kernel's order; lines that are none are left out.
std::vector<MountEntry> parse_mount_table(std::string_view text);
// Of this process. Errc::system.
Result<std::vector<MountEntry>> read_mount_table();

// The one that is seen at `directory` (absolute, no symbolic links), or nullptr: the last one
// there.
const MountEntry* mount_at(const std::vector<MountEntry>& table, std::string_view directory);
// The one that `path` is in.
const MountEntry* mount_of(const std::vector<MountEntry>& table, std::string_view path);

}  // namespace nfsrdma::tool
