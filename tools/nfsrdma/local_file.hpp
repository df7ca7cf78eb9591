#pragma once
#include <cstdint>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "nfs/nfs3_types.hpp"

// The local side of copies. Names that came from a server are only ever used relative to a
// directory that is open, and no symbolic link is followed there: nothing is written outside of the
// target.
namespace nfsrdma::tool {

// Errc::system with errno in all of these.
Result<UniqueFd> open_directory(int at, const std::string& name, bool follow_link);
// Makes it, or takes the one that is there.
Result<UniqueFd> make_directory(int at, const std::string& name);
Result<UniqueFd> create_file(int at, const std::string& name);  // empty, mode 0600 for now
Result<UniqueFd> open_source(int at, const std::string& name, bool follow_link);
// In the place of a link that is there, but of nothing else.
Result<void> make_symlink(int at, const std::string& name, const std::string& target,
                          const nfstime3& mtime);
Result<std::string> read_symlink(int at, const std::string& name);
Result<void> set_mode_and_mtime(int fd, std::uint32_t mode, const nfstime3& mtime);

bool answers_from_memory(int fd) noexcept;  // tmpfs: FileOp::in_line
bool is_zero(const std::byte* data, std::size_t size) noexcept;
nfstime3 to_nfstime(const timespec& time) noexcept;  // clamped to what 32 bits hold

// As many descriptors as this process may have: deep trees hold one a level.
void raise_descriptor_limit() noexcept;

}  // namespace nfsrdma::tool
