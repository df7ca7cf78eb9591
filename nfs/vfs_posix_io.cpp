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
// opened, and a server cannot see that. The mode is widened for the moment of opening, one thread
// at a time, so that none takes the wide mode for the true one.
UniqueFd VfsPosix::open_as_owner(PosixFile& file, int flags) noexcept {
    const std::lock_guard lock(owner_mutex_);
    const ProcPath path(file.path_fd);
    Attr attr;
    if (stat_fd(file.path_fd, attr) != NFS3_OK || attr.uid != ::geteuid()) {
        errno = EACCES;
        return {};
    }
    if (::fchmodat(AT_FDCWD, path.c_str(), attr.mode | S_IRUSR | S_IWUSR, 0) != 0) return {};
    UniqueFd fd(::open(path.c_str(), flags | kFlags));
    const int error = errno;
    const bool restored = ::fchmodat(AT_FDCWD, path.c_str(), attr.mode, 0) == 0;
    if (!restored) fd.reset();
    errno = error;
    return fd;
}

nfsstat3 VfsPosix::io_fd(PosixFile& file, IoUse use, int& out) noexcept {
    const bool write = use == IoUse::write;
    out = files_.io_fd(file, write || use == IoUse::sync);
    if (out >= 0) return NFS3_OK;
    if (use == IoUse::sync) out = files_.io_fd(file, false);
    if (out >= 0) return NFS3_OK;
    Attr attr;
    const nfsstat3 status = stat_fd(file.path_fd, attr);
    if (status != NFS3_OK) return status;
    if (attr.type != NF3REG) return attr.type == NF3DIR ? NFS3ERR_ISDIR : NFS3ERR_INVAL;
    const int flags = write ? O_WRONLY : O_RDONLY;
    UniqueFd fd(::open(ProcPath(file.path_fd).c_str(), flags | kFlags));
    if (!fd && errno == EACCES) fd = open_as_owner(file, flags);
    if (!fd) return status_of(errno);
    out = files_.set_io_fd(file, write, std::move(fd));
    return NFS3_OK;
}

nfsstat3 VfsPosix::open_io(const Cred& /*cred*/, NodeId node, IoUse use, IoFile& out) noexcept {
    PosixPin pin;
    nfsstat3 status = resolve(node, pin);
    if (status == NFS3_OK) status = io_fd(*pin.get(), use, out.fd);
    if (status != NFS3_OK) return status;
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
