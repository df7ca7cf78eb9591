#include "tools/mount_nfsrdma/routes.hpp"

#include <cstring>
#include <linux/fuse.h>
#include <unistd.h>

#include "tools/mount_nfsrdma/mount.hpp"

namespace nfsrdma::mount {

int Routes::take_over(fuse_session* session, int first) {
    fuse_custom_io io{};
    io.writev = write;
    io.read = read;
    const int status = fuse_session_custom_io(session, &io, first);
    if (status == 0) first_ = first;
    return -status;
}

void Routes::note(std::uint64_t unique, std::uint32_t opcode, int fd) {
    if (first_ < 0 || fd == first_) return;
    if (opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET || opcode == FUSE_INTERRUPT) return;
    const std::lock_guard guard(lock_);
    by_request_.emplace(unique, fd);
}

int Routes::take(std::uint64_t unique) noexcept {
    const std::lock_guard guard(lock_);
    // Odd: of an interrupt that libfuse hands back for later. Its request has the number before,
    // and is not answered by this.
    const auto found = by_request_.find(unique & ~std::uint64_t{1});
    if (found == by_request_.end()) return first_;
    const int fd = found->second;
    if ((unique & 1) == 0) by_request_.erase(found);
    return fd;
}

ssize_t Routes::write(int /*fd*/, iovec* parts, int count, void* mount) {
    fuse_out_header header{};
    std::memcpy(&header, parts[0].iov_base, sizeof header);
    return ::writev(static_cast<Mount*>(mount)->routes.take(header.unique), parts, count);
}

ssize_t Routes::read(int fd, void* buffer, std::size_t size, void* /*mount*/) {
    return ::read(fd, buffer, size);
}

}  // namespace nfsrdma::mount
