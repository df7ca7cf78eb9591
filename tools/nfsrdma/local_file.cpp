#include "tools/nfsrdma/local_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace nfsrdma::tool {
namespace {

Error system_error(const char* what) noexcept {
    return Error{Errc::system, errno, what};
}

timespec to_timespec(const nfstime3& time) noexcept {
    timespec out{};
    out.tv_sec = static_cast<time_t>(time.seconds);
    // A nanosecond count that is none would fail the call.
    out.tv_nsec = std::min<long>(static_cast<long>(time.nseconds), 999'999'999);
    return out;
}

}  // namespace

Result<UniqueFd> open_directory(int at, const std::string& name, bool follow_link) {
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow_link ? 0 : O_NOFOLLOW);
    UniqueFd fd(::openat(at, name.c_str(), flags));
    if (!fd) return system_error("open directory");
    return fd;
}

Result<UniqueFd> make_directory(int at, const std::string& name) {
    // Ours to write into until everything is there; the mode comes last.
    if (::mkdirat(at, name.c_str(), 0700) != 0 && errno != EEXIST)
        return system_error("make directory");
    return open_directory(at, name, false);
}

Result<UniqueFd> create_file(int at, const std::string& name) {
    // Without O_NONBLOCK opening a fifo that is there would wait for its reader.
    UniqueFd fd(::openat(at, name.c_str(),
                         O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
    if (!fd) return system_error("create file");
    struct stat st {};
    if (::fstat(fd.get(), &st) != 0) return system_error("create file");
    if (!S_ISREG(st.st_mode)) {
        errno = EEXIST;
        return system_error("create file: something else is there");
    }
    return fd;
}

Result<UniqueFd> open_source(int at, const std::string& name, bool follow_link) {
    UniqueFd fd(::openat(at, name.c_str(),
                         O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follow_link ? 0 : O_NOFOLLOW)));
    if (!fd) return system_error("open");
    return fd;
}

Result<void> make_symlink(int at, const std::string& name, const std::string& target,
                          const nfstime3& mtime) {
    if (::symlinkat(target.c_str(), at, name.c_str()) != 0) {
        if (errno != EEXIST) return system_error("make symbolic link");
        struct stat st {};
        if (::fstatat(at, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
            return system_error("make symbolic link");
        if (!S_ISLNK(st.st_mode)) {
            errno = EEXIST;
            return system_error("make symbolic link");
        }
        if (::unlinkat(at, name.c_str(), 0) != 0 ||
            ::symlinkat(target.c_str(), at, name.c_str()) != 0) {
            return system_error("replace symbolic link");
        }
    }
    const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, to_timespec(mtime)};
    (void)::utimensat(at, name.c_str(), times.data(),
                      AT_SYMLINK_NOFOLLOW);  // not every file system can
    return {};
}

Result<std::string> read_symlink(int at, const std::string& name) {
    std::array<char, PATH_MAX + 1> text{};
    const ssize_t size = ::readlinkat(at, name.c_str(), text.data(), text.size());
    if (size < 0) return system_error("read symbolic link");
    return std::string(text.data(), static_cast<std::size_t>(size));
}

Result<void> set_mode_and_mtime(int fd, std::uint32_t mode, const nfstime3& mtime) {
    // Never set-uid: it would be this user's, by a server's word.
    if (::fchmod(fd, static_cast<mode_t>(mode & 01777)) != 0) return system_error("set mode");
    const std::array<timespec, 2> times{timespec{0, UTIME_OMIT}, to_timespec(mtime)};
    if (::futimens(fd, times.data()) != 0) return system_error("set time");
    return {};
}

bool answers_from_memory(int fd) noexcept {
    struct statfs fs {};
    if (::fstatfs(fd, &fs) != 0) return false;
    return fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
}

bool is_zero(const std::byte* data, std::size_t size) noexcept {
    return size == 0 || (data[0] == std::byte{0} && std::memcmp(data, data + 1, size - 1) == 0);
}

nfstime3 to_nfstime(const timespec& time) noexcept {
    nfstime3 out{};
    out.seconds = static_cast<unsigned>(std::clamp<std::int64_t>(time.tv_sec, 0, UINT32_MAX));
    out.nseconds = static_cast<unsigned>(time.tv_nsec);
    return out;
}

void raise_descriptor_limit() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace nfsrdma::tool
