// What is asked of objects without changing them: see vfs_posix_find.cpp for how they are found,
// vfs_posix_change.cpp for changes and vfs_posix_io.cpp for file IO.
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

constexpr std::size_t kListBytes = std::size_t{32} << 10;

}  // namespace

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
      handles_(options.places_max),
      files_(options.open_files) {}

VfsPosix::~VfsPosix() = default;

nfsstat3 VfsPosix::enter(const Cred& cred, const DirName& where, Dir& dir, Wcc& wcc) noexcept {
    nfsstat3 status = resolve(where.dir, dir.pin);
    if (status != NFS3_OK) return status;
    dir.id = where.dir;
    Attr attr;
    status = stat_fd(dir.pin.fd(), attr);
    if (status != NFS3_OK) return status;
    wcc.before = wcc.after = attr;
    if (attr.type != NF3DIR) return NFS3ERR_NOTDIR;
    // Whoever may rename directories on the server may have moved it out meanwhile.
    if (!is_inside(*dir.pin.get(), true)) return NFS3ERR_STALE;
    if (where.name == "." || where.name == "..") return NFS3ERR_INVAL;
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
        return lookup_parent(dir.pin, what.dir, out);
    }
    status = stat_name(dir.pin.fd(), dir.name, out);
    if (status == NFS3_OK) learn(out.id, what.dir, what.name);
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
    const nfsstat3 status = list(cred, what, sink, eof);
    handles_.flush();
    return status;
}

nfsstat3 VfsPosix::list(const Cred& cred, const ReadDir& what, DirSink& sink, bool& eof) noexcept {
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
    } else if (entry.name == ".." && self.id == root_) {
        entry.fileid = root_.fileid;  // the kernel's number is of a directory outside
    } else if (entry.name == "..") {
        // The kernel's number will do.
    } else if (want_node && stat_name(dir.fd(), entry.name.data(), node) == NFS3_OK) {
        entry.node = &node;
    }
    if (!sink.add(entry)) return false;
    if (entry.node == &node) learn(node.id, self.id, entry.name, true);
    return true;
}

}  // namespace nfsrdma::nfs
