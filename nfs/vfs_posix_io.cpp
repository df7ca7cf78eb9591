// File IO of VfsPosix: descriptors for the loop's FileOp. Opened at first need and kept with the
// object.
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

#include "nfs/status.hpp"
#include "nfs/vfs_posix.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr int kFlags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

bool fits_file(std::uint64_t offset, std::size_t bytes) noexcept {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    return offset <= kMax && bytes <= kMax - offset;
}

}  // namespace

// The owner of a file may read and write it whatever its mode says: the client checked when it was
// opened, and a server cannot see that (RFC 1813 s4.4). Where no privilege helps, the mode is
// widened for the moment of opening, one thread at a time, so that none takes the wide mode for the
// true one.
UniqueFd VfsPosix::open_as_owner(PosixFile& file, int flags) noexcept {
    const std::lock_guard lock(owner_mutex_);
    const ProcPath path(file.path_fd);
    Attr attr;
    if (stat_fd(file.path_fd, attr) != NFS3_OK ||
        ::fchmodat(AT_FDCWD, path.c_str(), attr.mode | S_IRUSR | S_IWUSR, 0) != 0) {
        errno = EACCES;
        return {};
    }
    UniqueFd fd(::open(path.c_str(), flags | kFlags));
    const int error = errno;
    const bool restored = ::fchmodat(AT_FDCWD, path.c_str(), attr.mode, 0) == 0;
    if (!restored) fd.reset();
    errno = error;
    return fd;
}

// Whether a caller whom the mode keeps out is let in by RFC 1813 s4.4: the owner, and for reading
// who may execute (the client has to read a program to run it). Leaves the thread as the caller.
bool VfsPosix::has_right(const Cred& cred, const PosixFile& file, const Attr& attr,
                         IoUse use) noexcept {
    const std::uint32_t uid = switches() ? identity_->uid_of(cred) : ::geteuid();
    if (attr.uid == uid) return true;
    if (use != IoUse::read || act_as(cred) != NFS3_OK) return false;
    return ::faccessat(file.path_fd, "", X_OK, AT_EACCESS | AT_EMPTY_PATH) == 0;
}

// Who writes to a program takes away its right to run as another (unless it is root, who may give
// that): the system does this for the thread that writes, which need not be the caller's.
void VfsPosix::drop_set_id(const PosixFile& file, std::uint32_t mode) noexcept {
    std::uint32_t kept = mode & ~static_cast<std::uint32_t>(S_ISUID);
    if ((mode & S_IXGRP) != 0) kept &= ~static_cast<std::uint32_t>(S_ISGID);
    if (kept == mode) return;
    act_as_self();
    static_cast<void>(::fchmodat(AT_FDCWD, ProcPath(file.path_fd).c_str(), kept, 0));
}

// A descriptor that was opened for one caller lets no other through: each call is checked.
nfsstat3 VfsPosix::may_use(const Cred& cred, const PosixFile& file, IoUse use) noexcept {
    if (!switches() || identity_->overrides(cred)) return NFS3_OK;
    Attr attr;
    std::uint64_t birth = 0;
    nfsstat3 status = stat_at(file.path_fd, "", attr, birth);
    if (status != NFS3_OK) return status;
    if (attr.uid != identity_->uid_of(cred)) {
        status = act_as(cred);
        if (status != NFS3_OK) return status;
        const int wanted = use == IoUse::read ? R_OK : W_OK;
        if (::faccessat(file.path_fd, "", wanted, AT_EACCESS | AT_EMPTY_PATH) != 0) {
            const int error = errno;
            if (!has_right(cred, file, attr, use)) return status_of(error);
        }
    }
    if (use == IoUse::write) drop_set_id(file, attr.mode);
    return NFS3_OK;
}

UniqueFd VfsPosix::open_as_caller(const Cred& cred, PosixFile& file, const Attr& attr,
                                  IoUse use) noexcept {
    const int flags = use == IoUse::write ? O_WRONLY : O_RDONLY;
    const ProcPath path(file.path_fd);
    UniqueFd fd(::open(path.c_str(), flags | kFlags));
    if (fd || errno != EACCES) return fd;
    if (!has_right(cred, file, attr, use)) {
        errno = EACCES;
        return {};
    }
    act_as_self();
    if (switches()) fd = UniqueFd(::open(path.c_str(), flags | kFlags));
    if (fd || errno != EACCES || act_as(cred) != NFS3_OK) return fd;
    return open_as_owner(file, flags);
}

int VfsPosix::cached_io_fd(const PosixFile& file, IoUse use) noexcept {
    const int fd = files_.io_fd(file, use != IoUse::read);
    return fd < 0 && use == IoUse::sync ? files_.io_fd(file, false) : fd;
}

nfsstat3 VfsPosix::io_fd(const Cred& cred, PosixFile& file, IoUse use, int& out) noexcept {
    out = cached_io_fd(file, use);
    if (out >= 0) return may_use(cred, file, use);
    Attr attr;
    nfsstat3 status = stat_fd(file.path_fd, attr);
    if (status != NFS3_OK) return status;
    if (attr.type != NF3REG) return attr.type == NF3DIR ? NFS3ERR_ISDIR : NFS3ERR_INVAL;
    status = act_as(cred);
    if (status != NFS3_OK) return status;
    UniqueFd fd = open_as_caller(cred, file, attr, use);
    // Who may only write flushes by a descriptor for that.
    if (!fd && errno == EACCES && use == IoUse::sync) return io_fd(cred, file, IoUse::write, out);
    if (!fd) return status_of(errno);
    if (use == IoUse::write && switches() && !identity_->overrides(cred)) {
        drop_set_id(file, attr.mode);
    }
    out = files_.set_io_fd(file, use == IoUse::write, std::move(fd));
    return NFS3_OK;
}

nfsstat3 VfsPosix::open_io(const Cred& cred, NodeId node, IoUse use, IoFile& out) noexcept {
    PosixPin pin;
    nfsstat3 status = resolve(node, pin);
    if (status == NFS3_OK) status = io_fd(cred, *pin.get(), use, out.fd);
    if (status != NFS3_OK) return status;
    out.id = node;
    out.in_line = in_memory_;
    out.pin = pin.release();
    return NFS3_OK;
}

// What is open already, for a caller who is known already, waits for nothing.
std::optional<nfsstat3> VfsPosix::open_io_at_once(const Cred& cred, NodeId node, IoUse use,
                                                  IoFile& out) noexcept {
    if (!blocks(cred)) return open_io(cred, node, use, out);
    if (!is_local_ || (identity_ != nullptr && !identity_->is_quick(cred))) return std::nullopt;
    PosixPin pin;
    if (!pin_open(node, pin)) return std::nullopt;
    const int fd = cached_io_fd(*pin.get(), use);
    if (fd < 0 || may_use(cred, *pin.get(), use) != NFS3_OK) return std::nullopt;
    out.fd = fd;
    out.id = node;
    out.in_line = in_memory_;
    out.pin = pin.release();
    return NFS3_OK;
}

void VfsPosix::close_io(IoFile& file) noexcept {
    NR_ASSERT(file.pin != nullptr);
    files_.unpin(*static_cast<PosixFile*>(file.pin));
    file = IoFile{};
}

nfsstat3 VfsPosix::io_attr(const IoFile& file, Attr& out) noexcept {
    std::uint64_t birth = 0;
    return stat_at(file.fd, "", out, birth);
}

// A hole that is read through a mapping takes memory: only files that have none are mapped.
const FileMapping* VfsPosix::mapping(const IoFile& file, const Attr& attr,
                                     std::uint32_t bytes) noexcept {
    if (!options_.map_files || !in_memory_) return nullptr;
    return files_.mapping(*static_cast<PosixFile*>(file.pin), attr.size, bytes,
                          attr.used >= attr.size);
}

nfsstat3 VfsPosix::read_now(const IoFile& file, std::uint64_t offset, std::span<std::byte> into,
                            std::uint32_t& moved) noexcept {
    moved = 0;
    if (!fits_file(offset, into.size())) return NFS3_OK;
    const ssize_t done = ::pread(file.fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (done < 0) return status_of(errno);
    moved = static_cast<std::uint32_t>(done);
    return NFS3_OK;
}

nfsstat3 VfsPosix::write_now(const IoFile& file, std::uint64_t offset,
                             std::span<const std::byte> from, std::uint32_t& moved) noexcept {
    moved = 0;
    if (!fits_file(offset, from.size())) return NFS3ERR_FBIG;
    const ssize_t done = ::pwrite(file.fd, from.data(), from.size(), static_cast<off_t>(offset));
    if (done < 0) return status_of(errno);
    moved = static_cast<std::uint32_t>(done);
    return NFS3_OK;
}

}  // namespace nfsrdma::nfs
