#include "tools/mount_nfsrdma/stats_note.hpp"

#include <cstring>
#include <fcntl.h>
#include <linux/fuse.h>
#include <optional>

#include "nfs/nfs3_types.hpp"

namespace nfsrdma::mount {
namespace {

// The kernel's own words (linux/fuse.h); nothing where nobody counts.
std::optional<Event> event_of(std::uint32_t opcode) noexcept {
    switch (opcode) {
        case FUSE_LOOKUP:
            return Event::vfs_lookup;
        case FUSE_GETATTR:
            return Event::inode_revalidate;
        case FUSE_SETATTR:
            return Event::vfs_setattr;
        case FUSE_ACCESS:
            return Event::vfs_access;
        case FUSE_OPEN:
        case FUSE_CREATE:
        case FUSE_OPENDIR:
            return Event::vfs_open;
        case FUSE_READ:
            return Event::vfs_read_pages;
        case FUSE_WRITE:
            return Event::vfs_write_pages;
        case FUSE_READDIR:
        case FUSE_READDIRPLUS:
            return Event::vfs_get_dents;
        case FUSE_FLUSH:
            return Event::vfs_flush;
        case FUSE_FSYNC:
        case FUSE_FSYNCDIR:
            return Event::vfs_fsync;
        case FUSE_RELEASE:
        case FUSE_RELEASEDIR:
            return Event::vfs_release;
        default:
            return std::nullopt;
    }
}

template <class T>
bool read_at(std::span<const std::byte> from, std::size_t offset, T& out) noexcept {
    if (from.size() < offset + sizeof out) return false;
    std::memcpy(&out, from.data() + offset, sizeof out);
    return true;
}

}  // namespace

void note_request(LoopStats& stats, std::span<const std::byte> request) noexcept {
    fuse_in_header header{};
    if (!read_at(request, 0, header)) return;
    if (const auto event = event_of(header.opcode)) stats.note(*event);
    fuse_read_in read{};
    if (header.opcode == FUSE_READ && read_at(request, sizeof header, read)) {
        const bool direct = (read.flags & O_DIRECT) != 0;
        stats.note(direct ? Bytes::direct_read : Bytes::normal_read, read.size);
    }
    fuse_write_in write{};
    if (header.opcode == FUSE_WRITE && read_at(request, sizeof header, write)) {
        const bool direct = (write.flags & O_DIRECT) != 0;
        stats.note(direct ? Bytes::direct_write : Bytes::normal_write, write.size);
    }
}

void note_payload(LoopStats& stats, const sunrpc::Call& call) noexcept {
    if (call.res == nullptr) return;
    if (call.proc_number == NFSPROC3_READ) {
        stats.note(Bytes::server_read,
                   static_cast<const READ3res*>(call.res)->READ3res_u.resok.count);
    } else if (call.proc_number == NFSPROC3_WRITE) {
        stats.note(Bytes::server_write,
                   static_cast<const WRITE3res*>(call.res)->WRITE3res_u.resok.count);
    }
}

}  // namespace nfsrdma::mount
