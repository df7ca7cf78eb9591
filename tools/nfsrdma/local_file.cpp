#include "tools/nfsrdma/local_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/bytes.hpp"

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
    const bool made = ::mkdirat(at, name.c_str(), 0700) == 0;
    if (!made && errno != EEXIST) return system_error("make directory");
    Result<UniqueFd> fd = open_directory(at, name, false);
    if (!fd || made) return fd;
    struct stat st {};
    if (::fstat(fd->get(), &st) == 0 && (st.st_mode & 0300u) != 0300u && st.st_uid == ::geteuid())
        (void)::fchmod(fd->get(), (st.st_mode | 0700u) & 07777u);
    return fd;
}

std::uint64_t resume_offset(std::uint64_t size, const nfstime3& written, const CopyWish& wish) {
    if (!wish.resume || size > wish.size || size <= wish.overlap) return 0;
    if (is_before(written, wish.mtime)) return 0;
    return align_down(size - wish.overlap, std::uint64_t{4096});
}

namespace {

// The file that is there; one that its owner may not write to is replaced.
Result<UniqueFd> open_existing(int at, const std::string& name, int access) {
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    // Without O_NONBLOCK opening a fifo that is there would wait for its reader.
    UniqueFd fd(::openat(at, name.c_str(), access | flags));
    if (fd) return fd;
    if (errno == ELOOP) return Error{Errc::system, ELOOP, "a symbolic link is in its place"};
    if (errno != EACCES) return system_error("open the local file");
    struct stat st {};
    if (::fstatat(at, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode) ||
        ::unlinkat(at, name.c_str(), 0) != 0) {
        errno = EACCES;
        return system_error("open the local file");
    }
    fd.reset(::openat(at, name.c_str(), access | flags | O_CREAT | O_EXCL, 0600));
    if (!fd) return system_error("replace the local file");
    return fd;
}

}  // namespace

Result<CopyFile> open_copy(int at, const std::string& name, const CopyWish& wish) {
    const int access = wish.readable ? O_RDWR : O_WRONLY;
    CopyFile file;
    struct stat st {};
    if (wish.resume && ::fstatat(at, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(st.st_mode) && static_cast<std::uint64_t>(st.st_size) == wish.size &&
        same_time(to_nfstime(st.st_mtim), wish.mtime)) {
        file.complete = true;
        if (wish.readable) {
            NR_TRY_ASSIGN(file.fd, open_source(at, name, false));
        }
        return file;
    }
    file.fd.reset(
        ::openat(at, name.c_str(), access | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.fd) {
        file.created = true;
        return file;
    }
    if (errno != EEXIST) return system_error("create the local file");
    NR_TRY_ASSIGN(file.fd, open_existing(at, name, access));
    if (::fstat(file.fd.get(), &st) != 0) return system_error("open the local file");
    if (!S_ISREG(st.st_mode))
        return Error{Errc::system, EEXIST, "something else than a file is in its place"};
    file.begin =
        resume_offset(static_cast<std::uint64_t>(st.st_size), to_nfstime(st.st_mtim), wish);
    const bool longer = static_cast<std::uint64_t>(st.st_size) > file.begin;
    if (longer && ::ftruncate(file.fd.get(), static_cast<off_t>(file.begin)) != 0)
        return system_error("cut the local file");
    return file;
}

Result<UniqueFd> open_source(int at, const std::string& name, bool follow_link) {
    UniqueFd fd(::openat(at, name.c_str(),
                         O_RDONLY | O_NONBLOCK | O_CLOEXEC | (follow_link ? 0 : O_NOFOLLOW)));
    if (!fd) return system_error("open");
    return fd;
}

Result<std::vector<std::string>> names_in(int fd, std::vector<std::string>* directories) {
    const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
    DIR* const dir = copy < 0 ? nullptr : ::fdopendir(copy);
    if (dir == nullptr) {
        const int error = errno;
        if (copy >= 0) ::close(copy);
        return Error{Errc::system, error, "read directory"};
    }
    std::vector<std::string> names;
    errno = 0;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): this stream is ours alone
    while (const dirent* const entry = ::readdir(dir)) {
        const std::string_view name = entry->d_name;
        if (name != "." && name != "..") {
            names.emplace_back(name);
            if (directories != nullptr && entry->d_type == DT_DIR) directories->emplace_back(name);
        }
        errno = 0;
    }
    const int error = errno;
    ::closedir(dir);
    if (error != 0) return Error{Errc::system, error, "read directory"};
    std::sort(names.begin(), names.end());
    return names;
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

Result<void> set_mode_and_times(int fd, std::uint32_t mode, const nfstime3& atime,
                                const nfstime3& mtime) {
    // Never set-uid: it would be this user's, by a server's word.
    if (::fchmod(fd, static_cast<mode_t>(mode & 01777)) != 0) return system_error("set the mode");
    const std::array<timespec, 2> times{to_timespec(atime), to_timespec(mtime)};
    if (::futimens(fd, times.data()) != 0) return system_error("set the times");
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

bool same_time(const nfstime3& a, const nfstime3& b) noexcept {
    if (a.seconds != b.seconds) return false;
    if (a.nseconds == b.nseconds || a.nseconds == 0 || b.nseconds == 0) return true;
    // File systems of microseconds, or of the 100 ns of NTFS, cut off what they cannot keep.
    for (const std::uint32_t grain : {100u, 1000u}) {
        const bool is_grain = a.nseconds % grain == 0 || b.nseconds % grain == 0;
        if (is_grain && a.nseconds / grain == b.nseconds / grain) return true;
    }
    return false;
}

bool is_before(const nfstime3& a, const nfstime3& b) noexcept {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.nseconds < b.nseconds;
}

bool has_changed(int fd, const struct stat& before) noexcept {
    struct stat now {};
    if (::fstat(fd, &now) != 0) return true;
    return now.st_size != before.st_size || now.st_mtim.tv_sec != before.st_mtim.tv_sec ||
           now.st_mtim.tv_nsec != before.st_mtim.tv_nsec;
}

std::uint32_t permitted_by_umask(std::uint32_t mode) noexcept {
    const mode_t mask = ::umask(0);
    ::umask(mask);
    return mode & ~static_cast<std::uint32_t>(mask);
}

void raise_descriptor_limit() noexcept {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace nfsrdma::tool
