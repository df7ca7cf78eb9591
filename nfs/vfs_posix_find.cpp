// Finding objects. See vfs_posix.cpp for what is asked of them.
//
// Operation. A handle names an object by fileid and generation. Open ones are found in PosixFiles.
// Others are opened by the kernel's handle, where the process has the privilege and the file system
// has handles; else name by name from an ancestor that is open, by the places that PosixHandles
// knows. What was opened must be the object that the handle names, on the export's mount, and lie
// inside the export.
//
// Ownership. PosixFiles owns every descriptor but the root's; a PosixPin keeps one from being
// closed.
//
// Errors. What cannot be found, or is no longer inside, is NFS3ERR_STALE; the client looks it up
// anew. A shortage of descriptors is NFS3ERR_JUKEBOX.
#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "nfs/handle_open.hpp"
#include "nfs/status.hpp"
#include "nfs/vfs_posix.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kDepthMax = 4096;  // directories between an object and an open ancestor

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

// Some milliseconds old, for a tenth of the price.
std::uint64_t coarse_ns() noexcept {
    struct timespec now {};
    static_cast<void>(::clock_gettime(CLOCK_MONOTONIC_COARSE, &now));
    return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSec +
           static_cast<std::uint64_t>(now.tv_nsec);
}

// File systems that have what is open in memory. Of others it is not known, or known that they ask
// a server each time.
bool has_inodes_here(std::uint64_t type) noexcept {
    constexpr std::uint64_t kZfs = 0x2fc12fc1;
    constexpr std::array<std::uint64_t, 6> kLocal = {EXT4_SUPER_MAGIC,      XFS_SUPER_MAGIC,
                                                     BTRFS_SUPER_MAGIC,     F2FS_SUPER_MAGIC,
                                                     OVERLAYFS_SUPER_MAGIC, kZfs};
    return std::ranges::find(kLocal, type) != kLocal.end();
}

}  // namespace

Result<void> VfsPosix::start() {
    struct statx st {};
    if (::statx(root_fd_.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_MNT_ID, &st) != 0) {
        return Error{Errc::system, errno, "stat of the exported directory"};
    }
    dev_major_ = st.stx_dev_major;
    dev_minor_ = st.stx_dev_minor;
    if ((st.stx_mask & STATX_MNT_ID) != 0) mount_id_ = st.stx_mnt_id;
    struct statfs fs {};
    if (::fstatfs(root_fd_.get(), &fs) != 0) {
        return Error{Errc::system, errno, "statfs of the exported directory"};
    }
    in_memory_ = fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC;
    is_local_ = in_memory_ || has_inodes_here(static_cast<std::uint64_t>(fs.f_type));
    KernelHandle handle;
    std::uint64_t hash = 0;
    has_handles_ = kernel_handle(root_fd_.get(), "", handle, hash) == 0;
    by_kernel_ = options_.kernel_handles && has_handles_ && handle.size != 0 &&
                 static_cast<bool>(open_kernel_handle(root_fd_.get(), handle));
    umask_ = ::umask(0);
    ::umask(umask_);
    UniqueFd path_fd(::open(ProcPath(root_fd_.get()).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!path_fd) return Error{Errc::system, errno, "open through /proc/self/fd"};
    Node node;
    const nfsstat3 status = node_of_fd(path_fd.get(), node);
    if (status != NFS3_OK) return Error{Errc::system, EIO, "stat of the exported directory"};
    NR_TRY_ASSIGN(subtree_, Subtree::create(root_fd_.get()));
    root_ = node.id;
    if (!by_kernel_ && !options_.state_dir.empty()) {
        // Another directory under the same name is another matter.
        const std::string file = fmt::format("{}/places-{:08x}-{:016x}", options_.state_dir,
                                             options_.fsid, root_.generation ^ root_.fileid);
        auto opened = HandleJournal::open(file, handles_);
        if (opened) {
            journal_ = *std::move(opened);
            handles_.set_log(journal_.get());
        } else if (opened.error().code == Errc::again) {
            // Exports were reloaded, and calls of the old one are in progress.
            log::warn("{}: in use still; handles that are new survive no restart", file);
        } else {
            return opened.error();
        }
    }
    root_pin_ = PosixPin(files_, files_.insert(root_, std::move(path_fd)));
    return {};
}

const char* VfsPosix::handles_by() const noexcept {
    if (by_kernel_) return "the kernel's handles";
    return journal_ != nullptr ? "the state directory" : "memory";
}

nfsstat3 VfsPosix::stat_at(int fd, const char* name, Attr& out,
                           std::uint64_t& birth) const noexcept {
    constexpr int kFlags = AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT;
    constexpr unsigned kWanted = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID;
    struct statx st {};
    if (::statx(fd, name, kFlags, kWanted, &st) != 0) return status_of(errno);
    if (st.stx_dev_major != dev_major_ || st.stx_dev_minor != dev_minor_) return NFS3ERR_XDEV;
    // The same device may be mounted in more than one place.
    if (mount_id_ != 0 && (st.stx_mask & STATX_MNT_ID) != 0 && st.stx_mnt_id != mount_id_) {
        return NFS3ERR_XDEV;
    }
    out = to_attr(st, options_.fsid);
    birth = 0;
    if ((st.stx_mask & STATX_BTIME) != 0) {
        birth = static_cast<std::uint64_t>(st.stx_btime.tv_sec) * kNsPerSec + st.stx_btime.tv_nsec;
    }
    return NFS3_OK;
}

nfsstat3 VfsPosix::stat_fd(int fd, Attr& out) const noexcept {
    std::uint64_t birth = 0;
    const nfsstat3 status = stat_at(fd, "", out, birth);
    return status == NFS3_OK && out.nlink == 0 ? NFS3ERR_STALE : status;
}

nfsstat3 VfsPosix::stat_name(int dir_fd, const char* name, Node& out) const noexcept {
    std::uint64_t birth = 0;
    const nfsstat3 status = stat_at(dir_fd, name, out.attr, birth);
    if (status != NFS3_OK) return status;
    out.id = {out.attr.fileid, birth};
    if (!has_handles_) return NFS3_OK;
    return status_of(kernel_handle(dir_fd, name, out.id.kernel, out.id.generation));
}

nfsstat3 VfsPosix::node_of_fd(int fd, Node& out) const noexcept {
    return stat_name(fd, "", out);
}

bool VfsPosix::is_inside(PosixFile& file, bool now) noexcept {
    if (subtree_->is_whole() || file.id == root_) return true;
    const std::uint64_t time_ns = coarse_ns();
    const std::uint64_t checked_ns = file.checked_ns.load(std::memory_order_relaxed);
    if (!now && time_ns - checked_ns < options_.recheck_ns) return true;
    const Subtree::Answer answer = subtree_->where(file.path_fd);
    // What was opened by name had one.
    if (answer == Subtree::Answer::outside) return false;
    if (answer == Subtree::Answer::unknown && !by_kernel_) return false;
    file.checked_ns.store(time_ns, std::memory_order_relaxed);
    return true;
}

bool VfsPosix::pin_open(NodeId node, PosixPin& out) noexcept {
    out = PosixPin(files_, files_.pin(node));
    if (!out || is_inside(*out.get(), false)) return static_cast<bool>(out);
    // It may have a name inside by which it can be found anew.
    files_.drop(node.fileid);
    out.reset();
    return false;
}

nfsstat3 VfsPosix::keep(NodeId node, UniqueFd fd, PosixPin& out) noexcept {
    out = PosixPin(files_, files_.insert(node, std::move(fd)));
    return out ? NFS3_OK : NFS3ERR_JUKEBOX;
}

nfsstat3 VfsPosix::open_at(const PosixPin& dir, const char* name, NodeId expected,
                           PosixPin& out) noexcept {
    UniqueFd fd = open_beneath(dir.fd(), name);
    if (!fd) return status_of(errno);
    Node node;
    const nfsstat3 status = node_of_fd(fd.get(), node);
    if (status != NFS3_OK) return status;
    return node.id == expected ? keep(node.id, std::move(fd), out) : NFS3ERR_STALE;
}

// An object that has lost the name that the kernel knew (Answer::unknown) is let in on the word of
// the handle: it was inside when the handle was made, and no other object has the same.
nfsstat3 VfsPosix::open_by_kernel(NodeId id, PosixPin& out) noexcept {
    UniqueFd fd = open_kernel_handle(root_fd_.get(), id.kernel);
    if (!fd) {
        const bool shortage = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
        return shortage ? NFS3ERR_JUKEBOX : NFS3ERR_STALE;
    }
    Node node;
    const nfsstat3 status = node_of_fd(fd.get(), node);
    if (status != NFS3_OK || node.id != id || node.attr.nlink == 0) return NFS3ERR_STALE;
    if (subtree_->where(fd.get()) == Subtree::Answer::outside) return NFS3ERR_STALE;
    return keep(node.id, std::move(fd), out);
}

nfsstat3 VfsPosix::resolve(NodeId node, PosixPin& out, std::uint32_t depth) noexcept {
    if (pin_open(node, out)) return NFS3_OK;
    act_as_self();  // a handle is good for objects below directories that the caller may not search
    if (by_kernel_ && node.kernel.size != 0) return open_by_kernel(node, out);
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

// By the kernel's "..", which may be outside when somebody moves the directory at this moment.
nfsstat3 VfsPosix::lookup_parent(const PosixPin& dir, NodeId id, Node& out) noexcept {
    if (id == root_) {
        out.id = root_;
        return stat_fd(root_pin_.fd(), out.attr);
    }
    UniqueFd fd(::openat(dir.fd(), "..", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return status_of(errno);
    const nfsstat3 status = node_of_fd(fd.get(), out);
    if (status != NFS3_OK) return status == NFS3ERR_XDEV ? NFS3ERR_STALE : status;
    if (subtree_->where(fd.get()) != Subtree::Answer::inside) return NFS3ERR_STALE;
    PosixPin kept;
    return keep(out.id, std::move(fd), kept);
}

void VfsPosix::learn(NodeId node, NodeId dir, std::string_view name, bool more) noexcept {
    if (by_kernel_ && node.kernel.size != 0) return;
    handles_.learn(node, dir.fileid, name, more);
}

void VfsPosix::tidy() noexcept {
    files_.close_idle_writers();
    if (journal_ != nullptr) journal_->tidy(handles_);
}

}  // namespace nfsrdma::nfs
