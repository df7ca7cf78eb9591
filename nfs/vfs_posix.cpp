// Finding and describing objects: see vfs_posix_change.cpp for changes and vfs_posix_io.cpp for
// file IO.
//
// Operation. A handle names an object by fileid and generation. Open ones are found in PosixFiles;
// others are opened name by name from an ancestor that is open, by the places that PosixHandles
// knows, and what was opened must be the object that the handle names.
//
// Ownership. PosixFiles owns every descriptor but the root's; a PosixPin keeps one from being
// closed.
//
// Errors. What cannot be found where it was last seen is NFS3ERR_STALE; the client looks it up
// anew. A shortage of descriptors is NFS3ERR_JUKEBOX.
#include "nfs/vfs_posix.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <limits>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/bytes.hpp"
#include "nfs/posix_dir.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kDepthMax = 4096;  // directories between an object and an open ancestor
constexpr int kOpenPath = O_PATH | O_NOFOLLOW | O_CLOEXEC;
constexpr std::size_t kListBytes = std::size_t{32} << 10;
constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

ftype3 type_of(std::uint32_t mode) noexcept {
    switch (mode & S_IFMT) {
        case S_IFDIR:
            return NF3DIR;
        case S_IFLNK:
            return NF3LNK;
        case S_IFBLK:
            return NF3BLK;
        case S_IFCHR:
            return NF3CHR;
        case S_IFSOCK:
            return NF3SOCK;
        case S_IFIFO:
            return NF3FIFO;
        default:
            return NF3REG;
    }
}

Time to_time(const struct statx_timestamp& t) noexcept {
    return {t.tv_sec, t.tv_nsec};
}

Attr to_attr(const struct statx& from, std::uint64_t fsid) noexcept {
    Attr out;
    out.type = type_of(from.stx_mode);
    out.mode = from.stx_mode & 07777u;
    out.nlink = from.stx_nlink;
    out.uid = from.stx_uid;
    out.gid = from.stx_gid;
    out.size = from.stx_size;
    out.used = from.stx_blocks * 512;
    out.rdev_major = from.stx_rdev_major;
    out.rdev_minor = from.stx_rdev_minor;
    out.fsid = fsid;
    out.fileid = from.stx_ino;
    out.atime = to_time(from.stx_atime);
    out.mtime = to_time(from.stx_mtime);
    out.ctime = to_time(from.stx_ctime);
    return out;
}

std::uint64_t hash_of(std::uint64_t hash, std::span<const unsigned char> bytes) noexcept {
    for (const unsigned char byte : bytes)
        hash = (hash ^ byte) * 1099511628211ull;  // FNV-1a
    return hash;
}

// The kernel's handle of an object; errno when there is none.
int kernel_handle(int fd, const char* name, std::uint64_t& hash) noexcept {
    constexpr std::size_t kBytes = sizeof(struct file_handle) + MAX_HANDLE_SZ;
    alignas(struct file_handle) std::array<unsigned char, kBytes> room{};
    auto* handle = static_cast<struct file_handle*>(static_cast<void*>(room.data()));
    handle->handle_bytes = MAX_HANDLE_SZ;
    int mount_id = 0;
    if (::name_to_handle_at(fd, name, handle, &mount_id, *name == '\0' ? AT_EMPTY_PATH : 0) != 0) {
        return errno;
    }
    hash = hash_of(14695981039346656037ull + static_cast<std::uint32_t>(handle->handle_type),
                   {handle->f_handle, handle->handle_bytes});
    return 0;
}

}  // namespace

ProcPath::ProcPath(int fd) noexcept {
    constexpr std::string_view kPrefix = "/proc/self/fd/";
    std::memcpy(text, kPrefix.data(), kPrefix.size());
    *std::to_chars(text + kPrefix.size(), text + sizeof text - 1, fd).ptr = '\0';
}

Result<std::unique_ptr<VfsPosix>> VfsPosix::create(const std::string& path,
                                                   const VfsPosixOptions& options) {
    UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!root) return Error{Errc::system, errno, "open the exported directory"};
    auto vfs = std::unique_ptr<VfsPosix>(new VfsPosix(std::move(root), options));
    NR_TRY(vfs->start());
    return vfs;
}

VfsPosix::VfsPosix(UniqueFd root_fd, const VfsPosixOptions& options)
    : root_fd_(std::move(root_fd)),
      options_(options),
      identity_(options.identity),
      files_(options.open_files) {}

VfsPosix::~VfsPosix() = default;

Result<void> VfsPosix::start() {
    struct statx st {};
    if (::statx(root_fd_.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS, &st) != 0) {
        return Error{Errc::system, errno, "stat of the exported directory"};
    }
    dev_major_ = st.stx_dev_major;
    dev_minor_ = st.stx_dev_minor;
    struct statfs fs {};
    if (::fstatfs(root_fd_.get(), &fs) != 0) {
        return Error{Errc::system, errno, "statfs of the exported directory"};
    }
    in_memory_ = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
    std::uint64_t hash = 0;
    has_handles_ = kernel_handle(root_fd_.get(), "", hash) == 0;
    umask_ = ::umask(0);
    ::umask(umask_);
    UniqueFd path_fd(::open(ProcPath(root_fd_.get()).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!path_fd) return Error{Errc::system, errno, "open through /proc/self/fd"};
    Node node;
    const nfsstat3 status = node_of_fd(path_fd.get(), node);
    if (status != NFS3_OK) return Error{Errc::system, EIO, "stat of the exported directory"};
    root_ = node.id;
    root_pin_ = PosixPin(files_, files_.insert(root_, std::move(path_fd)));
    return {};
}

nfsstat3 VfsPosix::stat_at(int fd, const char* name, Attr& out,
                           std::uint64_t& birth) const noexcept {
    constexpr int kFlags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    struct statx st {};
    if (::statx(fd, name, kFlags, STATX_BASIC_STATS | STATX_BTIME, &st) != 0) {
        return status_of(errno);
    }
    if (st.stx_dev_major != dev_major_ || st.stx_dev_minor != dev_minor_) return NFS3ERR_XDEV;
    out = to_attr(st, options_.fsid);
    birth = 0;
    if ((st.stx_mask & STATX_BTIME) != 0) {
        birth =
            static_cast<std::uint64_t>(st.stx_btime.tv_sec) * kNsPerSecond + st.stx_btime.tv_nsec;
    }
    return NFS3_OK;
}

nfsstat3 VfsPosix::stat_fd(int fd, Attr& out) const noexcept {
    std::uint64_t birth = 0;
    const nfsstat3 status = stat_at(fd, "", out, birth);
    return status == NFS3_OK && out.nlink == 0 ? NFS3ERR_STALE : status;
}

nfsstat3 VfsPosix::generation(int fd, const char* name, std::uint64_t birth,
                              std::uint64_t& out) const noexcept {
    out = birth;
    return has_handles_ ? status_of(kernel_handle(fd, name, out)) : NFS3_OK;
}

nfsstat3 VfsPosix::stat_name(int dir_fd, const char* name, Node& out) const noexcept {
    std::uint64_t birth = 0;
    const nfsstat3 status = stat_at(dir_fd, name, out.attr, birth);
    if (status != NFS3_OK) return status;
    out.id.fileid = out.attr.fileid;
    return generation(dir_fd, name, birth, out.id.generation);
}

nfsstat3 VfsPosix::node_of_fd(int fd, Node& out) const noexcept {
    return stat_name(fd, "", out);
}

nfsstat3 VfsPosix::open_at(const PosixPin& dir, const char* name, NodeId expected,
                           PosixPin& out) noexcept {
    UniqueFd fd(::openat(dir.fd(), name, kOpenPath));
    if (!fd) return status_of(errno);
    Node node;
    const nfsstat3 status = node_of_fd(fd.get(), node);
    if (status != NFS3_OK) return status;
    if (node.id != expected) return NFS3ERR_STALE;
    out = PosixPin(files_, files_.insert(expected, std::move(fd)));
    return out ? NFS3_OK : NFS3ERR_JUKEBOX;
}

nfsstat3 VfsPosix::resolve(NodeId node, PosixPin& out, std::uint32_t depth) noexcept {
    out = PosixPin(files_, files_.pin(node));
    if (out) return NFS3_OK;
    act_as_self();  // a handle is good for objects below directories that the caller may not search
    if (depth > kDepthMax) return NFS3ERR_STALE;
    std::uint64_t known = 0;
    const std::vector<PosixHandles::Place> places = handles_.places(node.fileid, known);
    if (known != node.generation) return NFS3ERR_STALE;
    for (const PosixHandles::Place& place : places) {
        NodeId parent{place.parent, 0};
        if (parent.fileid == root_.fileid) {
            parent = root_;
        } else if (!handles_.generation_of(parent.fileid, parent.generation)) {
            continue;
        }
        PosixPin dir;
        nfsstat3 status = resolve(parent, dir, depth + 1);
        if (status == NFS3_OK) status = open_at(dir, place.name.c_str(), node, out);
        if (status == NFS3_OK || status == NFS3ERR_JUKEBOX) return status;
    }
    return NFS3ERR_STALE;
}

nfsstat3 VfsPosix::enter(const Cred& cred, const DirName& where, Dir& dir, Wcc& wcc) noexcept {
    nfsstat3 status = resolve(where.dir, dir.pin);
    if (status != NFS3_OK) return status;
    dir.id = where.dir;
    Attr attr;
    status = stat_fd(dir.pin.fd(), attr);
    if (status != NFS3_OK) return status;
    wcc.before = wcc.after = attr;
    if (attr.type != NF3DIR) return NFS3ERR_NOTDIR;
    status = dir.set_name(where.name);
    return status == NFS3_OK ? act_as(cred) : status;
}

void VfsPosix::leave(const Dir& dir, Wcc& wcc) noexcept {
    Attr attr;
    wcc.after.reset();
    if (stat_fd(dir.pin.fd(), attr) == NFS3_OK) wcc.after = attr;
}

nfsstat3 VfsPosix::getattr(const Cred& /*cred*/, NodeId node, Attr& out) noexcept {
    PosixPin pin;
    const nfsstat3 status = resolve(node, pin);
    return status == NFS3_OK ? stat_fd(pin.fd(), out) : status;
}

nfsstat3 VfsPosix::lookup_parent(NodeId dir, Node& out) noexcept {
    NodeId parent = root_;
    if (dir != root_ && !handles_.parent_of(dir, parent)) {
        NodeId above{};  // a child of the root: the root itself has no place in the database
        std::uint64_t known = 0;
        const auto places = handles_.places(dir.fileid, known);
        if (places.empty() || known != dir.generation) return NFS3ERR_STALE;
        above.fileid = places.front().parent;
        if (above.fileid != root_.fileid) return NFS3ERR_STALE;
        parent = root_;
    }
    PosixPin pin;
    const nfsstat3 status = resolve(parent, pin);
    if (status != NFS3_OK) return status;
    out.id = parent;
    return stat_fd(pin.fd(), out.attr);
}

nfsstat3 VfsPosix::lookup(const Cred& cred, const DirName& what, Node& out) noexcept {
    Dir dir;
    nfsstat3 status = resolve(what.dir, dir.pin);
    if (status == NFS3_OK) status = dir.set_name(what.name);
    if (status == NFS3_OK) status = act_as(cred);
    if (status != NFS3_OK) return status;
    if (what.name == "." || what.name == "..") {
        out.id = what.dir;
        status = stat_fd(dir.pin.fd(), out.attr);
        if (status == NFS3_OK && out.attr.type != NF3DIR) status = NFS3ERR_NOTDIR;
        if (status != NFS3_OK) return status;
        // Every name needs the right to search, these too.
        if (::faccessat(dir.pin.fd(), ".", F_OK, AT_EACCESS) != 0) return status_of(errno);
        if (what.name == ".") return NFS3_OK;
        return lookup_parent(what.dir, out);
    }
    status = stat_name(dir.pin.fd(), dir.name, out);
    if (status == NFS3_OK) handles_.learn(out.id, what.dir.fileid, what.name);
    return status;
}

nfsstat3 VfsPosix::access(const Cred& cred, NodeId node, std::uint32_t wanted,
                          std::uint32_t& granted) noexcept {
    PosixPin pin;
    nfsstat3 status = resolve(node, pin);
    if (status != NFS3_OK) return status;
    Attr attr;
    status = stat_fd(pin.fd(), attr);
    if (status != NFS3_OK) return status;
    struct Row {
        std::uint32_t bits;
        int mode;
    };
    const bool is_dir = attr.type == NF3DIR;
    const std::array rows = {
        Row{ACCESS3_READ, R_OK},
        Row{ACCESS3_MODIFY | ACCESS3_EXTEND | (is_dir ? ACCESS3_DELETE : 0u), W_OK},
        Row{is_dir ? std::uint32_t{ACCESS3_LOOKUP} : std::uint32_t{ACCESS3_EXECUTE}, X_OK},
    };
    granted = 0;
    status = act_as(cred);
    if (status != NFS3_OK) return status;
    const ProcPath path(pin.fd());
    for (const Row& row : rows) {
        if ((wanted & row.bits) == 0) continue;
        if (::faccessat(AT_FDCWD, path.c_str(), row.mode, AT_EACCESS) == 0) {
            granted |= wanted & row.bits;
        }
    }
    return NFS3_OK;
}

nfsstat3 VfsPosix::readlink(const Cred& /*cred*/, NodeId node, std::span<char> room,
                            std::uint32_t& length) noexcept {
    PosixPin pin;
    const nfsstat3 status = resolve(node, pin);
    if (status != NFS3_OK) return status;
    const ssize_t size = ::readlinkat(pin.fd(), "", room.data(), room.size());
    if (size < 0) return errno == ENOENT ? NFS3ERR_INVAL : status_of(errno);  // ENOENT: no link
    length = static_cast<std::uint32_t>(size);
    return NFS3_OK;
}

nfsstat3 VfsPosix::statfs(const Cred& /*cred*/, NodeId node, StatFs& out) noexcept {
    PosixPin pin;
    const nfsstat3 status = resolve(node, pin);
    if (status != NFS3_OK) return status;
    struct statvfs fs {};
    if (::fstatvfs(pin.fd(), &fs) != 0) return status_of(errno);
    out.total_bytes = fs.f_blocks * fs.f_frsize;
    out.free_bytes = fs.f_bfree * fs.f_frsize;
    out.available_bytes = fs.f_bavail * fs.f_frsize;
    out.total_files = fs.f_files;
    out.free_files = fs.f_ffree;
    out.available_files = fs.f_favail;
    out.name_max = static_cast<std::uint32_t>(fs.f_namemax);
    const long links = ::fpathconf(pin.fd(), _PC_LINK_MAX);
    out.link_max = links > 0 ? static_cast<std::uint32_t>(std::min(links, 0xffffffffl)) : 1;
    out.max_file_bytes = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    return NFS3_OK;
}

namespace {

// One entry of getdents64 at `at`; its length in `size`, 0 when the kernel's answer makes no sense.
struct RawEntry {
    std::uint64_t fileid = 0;
    std::uint64_t next = 0;
    const char* name = nullptr;
    std::size_t size = 0;
};
RawEntry read_entry(std::span<const char> list) noexcept {
    constexpr std::size_t kNameAt = offsetof(struct dirent64, d_name);
    RawEntry entry;
    if (list.size() <= kNameAt) return entry;
    std::uint16_t size = 0;
    std::memcpy(&entry.fileid, list.data() + offsetof(struct dirent64, d_ino), 8);
    std::memcpy(&entry.next, list.data() + offsetof(struct dirent64, d_off), 8);
    std::memcpy(&size, list.data() + offsetof(struct dirent64, d_reclen), 2);
    entry.name = list.data() + kNameAt;
    if (size > kNameAt && size <= list.size()) entry.size = size;
    return entry;
}

}  // namespace

nfsstat3 VfsPosix::readdir(const Cred& cred, const ReadDir& what, DirSink& sink,
                           bool& eof) noexcept {
    eof = false;
    PosixPin pin;
    nfsstat3 status = resolve(what.dir, pin);
    if (status != NFS3_OK) return status;
    Node self{what.dir, {}};
    status = stat_fd(pin.fd(), self.attr);
    if (status == NFS3_OK) status = act_as(cred);
    if (status != NFS3_OK) return status;
    const UniqueFd fd(::open(ProcPath(pin.fd()).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return status_of(errno);
    const auto start = static_cast<off_t>(what.cookie);
    if (start < 0 || (start > 0 && ::lseek(fd.get(), start, SEEK_SET) < 0)) {
        return NFS3ERR_BAD_COOKIE;
    }
    std::array<char, kListBytes> room;
    for (;;) {
        const ssize_t got = ::getdents64(fd.get(), room.data(), room.size());
        if (got < 0) return status_of(errno);
        if (got == 0) break;
        std::span<const char> list(room.data(), static_cast<std::size_t>(got));
        while (!list.empty()) {
            const RawEntry raw = read_entry(list);
            if (raw.size == 0) return NFS3ERR_IO;
            list = list.subspan(raw.size);
            if (!offer_entry(pin, self, what.want_nodes, {raw.name, raw.fileid, raw.next, nullptr},
                             sink)) {
                return NFS3_OK;
            }
        }
    }
    eof = true;
    return NFS3_OK;
}

bool VfsPosix::offer_entry(const PosixPin& dir, const Node& self, bool want_node, DirEntry entry,
                           DirSink& sink) noexcept {
    Node node;
    if (entry.name == ".") {
        entry.fileid = self.id.fileid;
        if (want_node) entry.node = &self;
    } else if (entry.name == "..") {
        // The kernel's number would be one outside the export where the directory is the root.
        NodeId parent = root_;
        entry.fileid = root_.fileid;
        if (self.id != root_ && handles_.parent_of(self.id, parent)) entry.fileid = parent.fileid;
    } else if (want_node && stat_name(dir.fd(), entry.name.data(), node) == NFS3_OK) {
        entry.node = &node;
    }
    if (!sink.add(entry)) return false;
    if (entry.node == &node) handles_.learn(node.id, self.id.fileid, entry.name);
    return true;
}

}  // namespace nfsrdma::nfs
