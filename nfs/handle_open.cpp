// Operation. The path of /proc/self/fd/N is where the kernel finds the object now, whatever it was
// opened by: it begins with the export's own path exactly when the object is inside. What was moved
// out of a bind mount, to where the mount does not show it, has the path "/", as has what never had
// a name (Linux 4.3 and later). A path that is too long is walked up by "..".
#include "nfs/handle_open.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <span>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#include <utility>

namespace nfsrdma::nfs {
namespace {

constexpr int kOpenPath = O_PATH | O_NOFOLLOW | O_CLOEXEC;
constexpr std::uint32_t kDepthMax = 65536;  // directories above each other

std::uint64_t hash_of(std::uint64_t hash, std::span<const unsigned char> bytes) noexcept {
    for (const unsigned char byte : bytes)
        hash = (hash ^ byte) * 1099511628211ull;  // FNV-1a
    return hash;
}

struct HandleRoom {
    struct file_handle* handle() noexcept {
        return static_cast<struct file_handle*>(static_cast<void*>(bytes.data()));
    }
    alignas(struct file_handle)
        std::array<unsigned char, sizeof(struct file_handle) + MAX_HANDLE_SZ> bytes{};
};

UniqueFd open_at2(int dir_fd, const char* path, std::uint64_t flags,
                  std::uint64_t resolve) noexcept {
    struct open_how how {};
    how.flags = flags;
    how.resolve = resolve;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, dir_fd, path, &how, sizeof how)));
}

bool same_object(int a, int b) noexcept {
    struct stat at_a {
    }, at_b{};
    return ::fstat(a, &at_a) == 0 && ::fstat(b, &at_b) == 0 && at_a.st_dev == at_b.st_dev &&
           at_a.st_ino == at_b.st_ino;
}

bool is_directory(int fd) noexcept {
    struct stat st {};
    return ::fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
}

Result<std::string> read_all(const char* path) {
    const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
    if (!fd) return Error{Errc::system, errno, "open"};
    std::string out;
    std::array<char, 16384> room{};
    for (;;) {
        const ssize_t got = ::read(fd.get(), room.data(), room.size());
        if (got < 0) return Error{Errc::system, errno, "read"};
        if (got == 0) return out;
        out.append(room.data(), static_cast<std::size_t>(got));
    }
}

// Takes the next word of a line off.
std::string_view next_word(std::string_view& line) noexcept {
    const std::size_t end = std::min(line.find(' '), line.size());
    const std::string_view word = line.substr(0, end);
    line.remove_prefix(std::min(line.size(), end + 1));
    return word;
}

// The path that the kernel gives, without the root's; nullptr when it is none below the root's.
const char* below_root(std::string_view path, const std::string& root) noexcept {
    if (root == "/") return path.data() + 1;
    if (path.substr(0, root.size()) != root) return nullptr;
    if (path.size() == root.size()) return path.data() + root.size();
    return path[root.size()] == '/' ? path.data() + root.size() + 1 : nullptr;
}

}  // namespace

ProcPath::ProcPath(int fd) noexcept {
    constexpr std::string_view kPrefix = "/proc/self/fd/";
    std::memcpy(text, kPrefix.data(), kPrefix.size());
    *std::to_chars(text + kPrefix.size(), text + sizeof text - 1, fd).ptr = '\0';
}

int kernel_handle(int fd, const char* name, KernelHandle& out, std::uint64_t& hash) noexcept {
    HandleRoom room;
    struct file_handle& handle = *room.handle();
    handle.handle_bytes = MAX_HANDLE_SZ;
    int mount_id = 0;
    const int flags = *name == '\0' ? AT_EMPTY_PATH : 0;
    if (::name_to_handle_at(fd, name, &handle, &mount_id, flags) != 0) return errno;
    hash = hash_of(14695981039346656037ull + static_cast<std::uint32_t>(handle.handle_type),
                   {handle.f_handle, handle.handle_bytes});
    out = KernelHandle{};
    if (handle.handle_bytes > KernelHandle::kMax || handle.handle_type < 0 ||
        handle.handle_type > UINT16_MAX) {
        return 0;
    }
    out.type = static_cast<std::uint16_t>(handle.handle_type);
    out.size = static_cast<std::uint8_t>(handle.handle_bytes);
    std::memcpy(out.bytes.data(), handle.f_handle, out.size);
    return 0;
}

UniqueFd open_kernel_handle(int mount_fd, const KernelHandle& handle) noexcept {
    HandleRoom room;
    struct file_handle& to = *room.handle();
    to.handle_bytes = handle.size;
    to.handle_type = handle.type;
    std::memcpy(to.f_handle, handle.bytes.data(), handle.size);
    return UniqueFd(::open_by_handle_at(mount_fd, &to, kOpenPath));
}

UniqueFd open_beneath(int dir_fd, const char* name) noexcept {
    UniqueFd fd =
        open_at2(dir_fd, name, kOpenPath, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    // Sandboxes that do not know the call say EPERM, which opening by O_PATH does not.
    if (!fd && (errno == ENOSYS || errno == EPERM)) fd.reset(::openat(dir_fd, name, kOpenPath));
    return fd;
}

std::string mounted_directory(std::string_view mountinfo, std::uint64_t id) {
    while (!mountinfo.empty()) {
        const std::size_t end = std::min(mountinfo.find('\n'), mountinfo.size());
        std::string_view line = mountinfo.substr(0, end);
        mountinfo.remove_prefix(std::min(mountinfo.size(), end + 1));
        const std::string_view word = next_word(line);
        std::uint64_t its_id = 0;
        const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), its_id);
        if (error != std::errc{} || at != word.data() + word.size() || its_id != id) continue;
        next_word(line);  // the parent's id
        next_word(line);  // the device
        return std::string(next_word(line));
    }
    return {};
}

Result<std::unique_ptr<Subtree>> Subtree::create(int root_fd) {
    auto subtree = std::unique_ptr<Subtree>(new Subtree(root_fd));
    NR_TRY(subtree->start());
    return subtree;
}

Result<void> Subtree::start() {
    struct statx st {};
    constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_MNT_ID;
    if (::statx(root_fd_, "", AT_EMPTY_PATH, kWanted, &st) != 0) {
        return Error{Errc::system, errno, "stat of the exported directory"};
    }
    root_ino_ = st.stx_ino;
    dev_major_ = st.stx_dev_major;
    dev_minor_ = st.stx_dev_minor;
    struct statfs fs {};
    if (::fstatfs(root_fd_, &fs) != 0) {
        return Error{Errc::system, errno, "statfs of the exported directory"};
    }
    // A btrfs subvolume is a device of its own, and this is its root, however it is mounted.
    constexpr std::uint64_t kBtrfsRoot = 256;
    whole_ = fs.f_type == BTRFS_SUPER_MAGIC && root_ino_ == kBtrfsRoot;
    bool shows_whole = false;  // the mount is not one of a directory only
    if ((st.stx_mask & STATX_MNT_ID) != 0) {
        if (auto mounts = read_all("/proc/self/mountinfo"); mounts) {
            shows_whole = mounted_directory(*mounts, st.stx_mnt_id) == "/";
        }
    }
    const bool is_mount_root = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
    whole_ = whole_ || (is_mount_root && shows_whole);
    root_path_ = root_path();
    if (root_path_.empty()) return Error{Errc::system, errno, "readlink of /proc/self/fd"};
    return {};
}

std::string Subtree::root_path() const {
    std::array<char, PATH_MAX> room;
    const ssize_t size = ::readlink(ProcPath(root_fd_).c_str(), room.data(), room.size());
    return size <= 0 ? std::string{} : std::string(room.data(), static_cast<std::size_t>(size));
}

Subtree::Answer Subtree::where(int fd) const noexcept {
    if (whole_) return Answer::inside;
    std::array<char, PATH_MAX + 1> room;
    const ssize_t size = ::readlink(ProcPath(fd).c_str(), room.data(), PATH_MAX);
    if (size <= 0 || size == PATH_MAX) {
        if (!is_directory(fd)) return Answer::unknown;
        return is_below(fd) ? Answer::inside : Answer::outside;
    }
    room[static_cast<std::size_t>(size)] = '\0';
    const std::string_view path(room.data(), static_cast<std::size_t>(size));
    // The kernel says so of a name that is gone; there may be a name that ends so, too. The object
    // may live on by another name, which need not be inside.
    const bool gone = path.ends_with(" (deleted)");
    if (path.find_first_not_of('/') == path.npos && !is_directory(fd)) return Answer::unknown;
    // The root may have been renamed since its path was taken.
    for (int turn = 0; turn < 2; ++turn) {
        const char* rest = nullptr;
        {
            const std::lock_guard lock(mutex_);
            if (turn == 1) root_path_ = root_path();
            rest = below_root(path, root_path_);
        }
        if (rest == nullptr) continue;
        if (*rest == '\0' ? same_object(fd, root_fd_) : !gone || leads_to(rest, fd)) {
            return Answer::inside;
        }
    }
    return Answer::outside;
}

// From the root, by names only, to the object of `fd`. Where openat2 is not to be had there is no
// such walk, and a directory is walked up.
bool Subtree::leads_to(const char* relative, int fd) const noexcept {
    const UniqueFd found = open_at2(root_fd_, relative, kOpenPath,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV);
    if (found) return same_object(fd, found.get());
    return (errno == ENOSYS || errno == EPERM) && is_below(fd);
}

bool Subtree::is_below(int fd) const noexcept {
    UniqueFd above;
    for (std::uint32_t depth = 0; depth < kDepthMax; ++depth) {
        struct stat st {};
        if (::fstat(depth == 0 ? fd : above.get(), &st) != 0) return false;
        if (!S_ISDIR(st.st_mode) || st.st_nlink == 0 || gnu_dev_major(st.st_dev) != dev_major_ ||
            gnu_dev_minor(st.st_dev) != dev_minor_) {
            return false;
        }
        if (st.st_ino == root_ino_) return true;
        UniqueFd next(::openat(depth == 0 ? fd : above.get(), "..", kOpenPath | O_DIRECTORY));
        struct stat next_st {};
        if (!next || ::fstat(next.get(), &next_st) != 0) return false;
        if (next_st.st_ino == st.st_ino && next_st.st_dev == st.st_dev) return false;  // the top
        above = std::move(next);
    }
    return false;
}

}  // namespace nfsrdma::nfs
