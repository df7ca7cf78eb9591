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
// Makes it, or takes the one that is there and sees to it that its owner may write into it.
Result<UniqueFd> make_directory(int at, const std::string& name);
// Names in the directory, without "." and "..", sorted. The descriptor stays open. `directories`:
// those of them that are, as far as the file system tells at once; or nullptr.
Result<std::vector<std::string>> names_in(int fd, std::vector<std::string>* directories = nullptr);
Result<UniqueFd> open_source(int at, const std::string& name, bool follow_link);

// What a local copy is to become.
struct CopyWish {
    std::uint64_t size = 0;
    nfstime3 mtime{};
    bool resume = false;        // take over what an earlier copy has left
    bool readable = false;      // it will be read back
    std::uint64_t overlap = 0;  // of a broken copy, so many bytes at its end are not trusted
};
// The file to copy into.
struct CopyFile {
    UniqueFd fd;
    bool created = false;     // it was not there before
    bool complete = false;    // size and time are those of the source: nothing is to be copied
    std::uint64_t begin = 0;  // bytes that are there
};
// A regular file of mode 0600 for now: a new one, or one that is there, cut to `begin` bytes.
Result<CopyFile> open_copy(int at, const std::string& name, const CopyWish& wish);
// Where a broken copy of `size` bytes goes on: 0 when it began before the source was changed last,
// or is shorter than the overlap.
std::uint64_t resume_offset(std::uint64_t size, const nfstime3& written, const CopyWish& wish);

// In the place of a link that is there, but of nothing else.
Result<void> make_symlink(int at, const std::string& name, const std::string& target,
                          const nfstime3& mtime);
Result<std::string> read_symlink(int at, const std::string& name);
Result<void> set_mode_and_times(int fd, std::uint32_t mode, const nfstime3& atime,
                                const nfstime3& mtime);

bool answers_from_memory(int fd) noexcept;  // tmpfs: FileOp::in_line
bool is_zero(const std::byte* data, std::size_t size) noexcept;
nfstime3 to_nfstime(const timespec& time) noexcept;  // clamped to what 32 bits hold
// Equal as far as the coarser of both file systems can tell.
bool same_time(const nfstime3& a, const nfstime3& b) noexcept;
bool is_before(const nfstime3& a, const nfstime3& b) noexcept;
// Whether a local file is another than it was when `before` was asked for.
bool has_changed(int fd, const struct stat& before) noexcept;

std::uint32_t permitted_by_umask(std::uint32_t mode) noexcept;
// As many descriptors as this process may have: deep trees hold one a level.
void raise_descriptor_limit() noexcept;

}  // namespace nfsrdma::tool
