// The procedures of VfsPosix that change something. Each enters its directory (pinned, attributes
// before), does one system call on one name, keeps the handle database true, and leaves (attributes
// after).
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <string>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "nfs/handle_open.hpp"
#include "nfs/posix_dir.hpp"
#include "nfs/status.hpp"
#include "nfs/vfs_posix.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kPermissions = 0777, kModeBits = 07777;

struct timespec to_timespec(const SetTime& set) noexcept {
    switch (set.how) {
        case SET_TO_SERVER_TIME:
            return {0, UTIME_NOW};
        case SET_TO_CLIENT_TIME:
            return {set.time.seconds, static_cast<long>(set.time.nseconds)};
        case DONT_CHANGE:
            break;
    }
    return {0, UTIME_OMIT};
}

// An exclusive create keeps its verifier in the times, as servers do. 31 bits of each half go to
// the seconds and the rest to the nanoseconds, so that file systems whose time ends in 2038 keep
// all 64.
SetAttr attr_of_verifier(std::uint64_t verifier) noexcept {
    const auto half = [](std::uint64_t bits) {
        SetTime set;
        set.how = SET_TO_CLIENT_TIME;
        set.time.seconds = static_cast<std::int64_t>(bits & 0x7fffffffu);
        set.time.nseconds = static_cast<std::uint32_t>((bits >> 31) & 1u);
        return set;
    };
    SetAttr set;
    set.atime = half(verifier >> 32);
    set.mtime = half(verifier & 0xffffffffu);
    return set;
}

// A file that is there with its verifier or not at all: a server that was killed between the two
// would not know it again. EOPNOTSUPP where the file system has no files without a name.
UniqueFd create_with_verifier(int dir, const char* name, mode_t mode,
                              std::uint64_t verifier) noexcept {
    UniqueFd fd(::openat(dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC | O_NONBLOCK, mode));
    if (!fd) {
        if (errno == EISDIR || errno == EINVAL) errno = EOPNOTSUPP;
        return fd;
    }
    const SetAttr set = attr_of_verifier(verifier);
    const std::array<struct timespec, 2> times = {to_timespec(set.atime), to_timespec(set.mtime)};
    if (::futimens(fd.get(), times.data()) != 0) return UniqueFd();
    // Without a capability a descriptor gets a name by its path only.
    const ProcPath path(fd.get());
    if (::linkat(AT_FDCWD, path.c_str(), dir, name, AT_SYMLINK_FOLLOW) == 0) return fd;
    if (errno == ENOENT) errno = EOPNOTSUPP;
    return UniqueFd();
}

bool has_verifier(const Attr& attr, std::uint64_t verifier) noexcept {
    const SetAttr wanted = attr_of_verifier(verifier);
    return attr.atime == wanted.atime.time && attr.mtime == wanted.mtime.time;
}

std::uint32_t format_of(ftype3 type) noexcept {
    switch (type) {
        case NF3FIFO:
            return S_IFIFO;
        case NF3SOCK:
            return S_IFSOCK;
        case NF3CHR:
            return S_IFCHR;
        case NF3BLK:
            return S_IFBLK;
        case NF3REG:
        case NF3DIR:
        case NF3LNK:
            break;
    }
    return 0;
}

}  // namespace

nfsstat3 VfsPosix::apply_size(const Cred& cred, PosixFile& file, ftype3 type,
                              std::uint64_t size) noexcept {
    if (type != NF3REG) return type == NF3DIR ? NFS3ERR_ISDIR : NFS3ERR_INVAL;
    if (size > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max())) return NFS3ERR_FBIG;
    int fd = -1;
    nfsstat3 status = io_fd(cred, file, IoUse::write, fd);
    if (status == NFS3_OK) status = act_as(cred);
    if (status != NFS3_OK) return status;
    return ::ftruncate(fd, static_cast<off_t>(size)) == 0 ? NFS3_OK : status_of(errno);
}

nfsstat3 VfsPosix::apply(const Cred& cred, PosixFile& file, ftype3 type,
                         const SetAttr& set) noexcept {
    // The size first: it needs the right to write, and moves the time.
    if (set.size) {
        const nfsstat3 status = apply_size(cred, file, type, *set.size);
        if (status != NFS3_OK) return status;
    }
    if (set.uid || set.gid) {
        constexpr std::uint32_t kKeep = ~0u;
        const int done = ::fchownat(file.path_fd, "", set.uid.value_or(kKeep),
                                    set.gid.value_or(kKeep), AT_EMPTY_PATH);
        if (done != 0) return status_of(errno);
    }
    const ProcPath path(file.path_fd);
    if (set.mode && ::fchmodat(AT_FDCWD, path.c_str(), *set.mode & kModeBits, 0) != 0) {
        return status_of(errno);
    }
    if (set.atime.how != DONT_CHANGE || set.mtime.how != DONT_CHANGE) {
        const std::array<struct timespec, 2> times = {to_timespec(set.atime),
                                                      to_timespec(set.mtime)};
        int done = ::utimensat(file.path_fd, "", times.data(), AT_EMPTY_PATH);
        // Before Linux 5.8 there was no AT_EMPTY_PATH here.
        if (done != 0 && errno == EINVAL)
            done = ::utimensat(AT_FDCWD, path.c_str(), times.data(), 0);
        if (done != 0) return status_of(errno);
    }
    return NFS3_OK;
}

nfsstat3 VfsPosix::setattr(const Cred& cred, NodeId node, const SetAttr& set, const Time* guard,
                           Wcc& wcc) noexcept {
    PosixPin pin;
    nfsstat3 status = resolve(node, pin);
    if (status != NFS3_OK) return status;
    Attr attr;
    status = stat_fd(pin.fd(), attr);
    if (status != NFS3_OK) return status;
    wcc.before = attr;
    if (guard != nullptr && *guard != attr.ctime) {
        status = NFS3ERR_NOT_SYNC;
    } else {
        status = act_as(cred);
        if (status == NFS3_OK) status = apply(cred, *pin.get(), attr.type, set);
    }
    if (stat_fd(pin.fd(), attr) == NFS3_OK) wcc.after = attr;
    return status;
}

// What was just made in `dir`: opened, given the rest of its attributes, learned.
nfsstat3 VfsPosix::finish_new(const Cred& cred, Dir& dir, const SetAttr& attr, Node& out) noexcept {
    nfsstat3 status = stat_name(dir.pin.fd(), dir.name, out);
    if (status != NFS3_OK) return status;
    PosixPin pin;
    status = open_at(dir.pin, dir.name, out.id, pin);
    if (status != NFS3_OK) return status;
    learn(out.id, dir.id, dir.name);
    SetAttr rest = attr;
    rest.mode.reset();
    if (attr.mode && (*attr.mode & umask_ & kPermissions) != 0 && out.attr.type != NF3LNK) {
        // The process's umask is not the client's business: it has applied the user's.
        rest.mode = (out.attr.mode & ~kPermissions) | (*attr.mode & kPermissions);
    }
    if (out.attr.type == NF3LNK) rest.size.reset();
    status = apply(cred, *pin.get(), out.attr.type, rest);
    if (status == NFS3ERR_PERM && (rest.uid || rest.gid)) {
        // Only root may give files away: a new object is the caller's, as everywhere.
        rest.uid.reset();
        rest.gid.reset();
        status = apply(cred, *pin.get(), out.attr.type, rest);
    }
    if (status == NFS3_OK) status = stat_fd(pin.fd(), out.attr);
    return status;
}

nfsstat3 VfsPosix::create_new(const Cred& cred, Dir& dir, const CreateHow& how,
                              Node& out) noexcept {
    constexpr int kFlags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    constexpr std::uint32_t kExclusiveMode = 0600, kDefaultMode = 0644;
    const bool exclusive = how.mode == EXCLUSIVE;
    const std::uint32_t mode = exclusive ? kExclusiveMode : how.attr.mode.value_or(kDefaultMode);
    UniqueFd fd;
    if (exclusive) fd = create_with_verifier(dir.pin.fd(), dir.name, kExclusiveMode, how.verifier);
    if (!fd && exclusive && errno != EOPNOTSUPP) {
        // What forbids to make a file says nothing of one that is there: it may be this very one.
        const int why = errno;
        struct stat there {};
        const bool exists = ::fstatat(dir.pin.fd(), dir.name, &there, AT_SYMLINK_NOFOLLOW) == 0;
        return exists ? NFS3ERR_EXIST : status_of(why);
    }
    if (!fd) fd.reset(::openat(dir.pin.fd(), dir.name, kFlags, mode & kModeBits));
    if (!fd) return status_of(errno);
    // Kept for the writes to come: a mode without the right to write does not bind who created it.
    Node node;
    nfsstat3 status = node_of_fd(fd.get(), node);
    PosixPin pin;
    if (status == NFS3_OK) status = open_at(dir.pin, dir.name, node.id, pin);
    if (status != NFS3_OK) return status;
    files_.set_io_fd(*pin.get(), true, std::move(fd));
    return finish_new(cred, dir, exclusive ? attr_of_verifier(how.verifier) : how.attr, out);
}

nfsstat3 VfsPosix::create_existing(const Cred& cred, Dir& dir, const CreateHow& how,
                                   Node& out) noexcept {
    nfsstat3 status = stat_name(dir.pin.fd(), dir.name, out);
    if (status != NFS3_OK) return status;
    if (out.attr.type != NF3REG) return NFS3ERR_EXIST;
    learn(out.id, dir.id, dir.name);
    if (how.mode == EXCLUSIVE) {
        return has_verifier(out.attr, how.verifier) && out.attr.size == 0 ? NFS3_OK : NFS3ERR_EXIST;
    }
    if (!how.attr.size) return NFS3_OK;
    PosixPin pin;
    status = open_at(dir.pin, dir.name, out.id, pin);
    if (status == NFS3_OK) status = apply_size(cred, *pin.get(), NF3REG, *how.attr.size);
    if (status == NFS3_OK) status = stat_fd(pin.fd(), out.attr);
    return status;
}

nfsstat3 VfsPosix::create(const Cred& cred, const DirName& where, const CreateHow& how, Node& out,
                          Wcc& wcc) noexcept {
    Dir dir;
    nfsstat3 status = enter(cred, where, dir, wcc);
    if (status != NFS3_OK) return status;
    status = create_new(cred, dir, how, out);
    if (status == NFS3ERR_EXIST && how.mode != GUARDED)
        status = create_existing(cred, dir, how, out);
    leave(dir, wcc);
    return status;
}

nfsstat3 VfsPosix::mkdir(const Cred& cred, const DirName& where, const SetAttr& attr, Node& out,
                         Wcc& wcc) noexcept {
    constexpr std::uint32_t kDefaultMode = 0755;
    Dir dir;
    nfsstat3 status = enter(cred, where, dir, wcc);
    if (status != NFS3_OK) return status;
    const std::uint32_t mode = attr.mode.value_or(kDefaultMode) & kModeBits;
    status = ::mkdirat(dir.pin.fd(), dir.name, mode) == 0 ? finish_new(cred, dir, attr, out)
                                                          : status_of(errno);
    leave(dir, wcc);
    return status;
}

nfsstat3 VfsPosix::symlink(const Cred& cred, const DirName& where, std::string_view text, Node& out,
                           Wcc& wcc) noexcept {
    Dir dir;
    nfsstat3 status = enter(cred, where, dir, wcc);
    if (status != NFS3_OK) return status;
    const std::string target(text);
    if (target.empty()) {
        status = NFS3ERR_INVAL;
    } else if (::symlinkat(target.c_str(), dir.pin.fd(), dir.name) != 0) {
        status = status_of(errno);
    } else {
        status = finish_new(cred, dir, SetAttr{}, out);
    }
    leave(dir, wcc);
    return status;
}

nfsstat3 VfsPosix::make_special(Dir& dir, const Attr& like) noexcept {
    const std::uint32_t format = format_of(like.type);
    if (format == 0) return NFS3ERR_BADTYPE;
    const dev_t device = makedev(like.rdev_major, like.rdev_minor);
    const std::uint32_t mode = format | (like.mode & kModeBits);
    return ::mknodat(dir.pin.fd(), dir.name, mode, device) == 0 ? NFS3_OK : status_of(errno);
}

nfsstat3 VfsPosix::mknod(const Cred& cred, const DirName& where, const Attr& like, Node& out,
                         Wcc& wcc) noexcept {
    Dir dir;
    nfsstat3 status = enter(cred, where, dir, wcc);
    if (status != NFS3_OK) return status;
    status = make_special(dir, like);
    SetAttr attr;
    attr.mode = like.mode;
    if (status == NFS3_OK) status = finish_new(cred, dir, attr, out);
    leave(dir, wcc);
    return status;
}

void VfsPosix::forget_name(const Node& node, const Dir& dir) noexcept {
    if (node.attr.type != NF3DIR && node.attr.nlink > 1) {
        handles_.forget_place(node.id.fileid, dir.id.fileid, dir.name);
        return;
    }
    handles_.forget(node.id.fileid);
    files_.drop(node.id.fileid);
}

nfsstat3 VfsPosix::remove_name(const Cred& cred, const DirName& what, int flags,
                               Wcc& wcc) noexcept {
    Dir dir;
    nfsstat3 status = enter(cred, what, dir, wcc);
    if (status != NFS3_OK) return status;
    Node node;
    const bool known = stat_name(dir.pin.fd(), dir.name, node) == NFS3_OK;
    if (::unlinkat(dir.pin.fd(), dir.name, flags) == 0) {
        if (known) forget_name(node, dir);
    } else {
        status = status_of(errno);
        const bool is_dir = known && node.attr.type == NF3DIR;
        if (status == NFS3ERR_PERM && flags == 0 && is_dir) status = NFS3ERR_ISDIR;  // POSIX
        if (status == NFS3ERR_EXIST) status = NFS3ERR_NOTEMPTY;
    }
    leave(dir, wcc);
    return status;
}

nfsstat3 VfsPosix::remove(const Cred& cred, const DirName& what, Wcc& wcc) noexcept {
    return remove_name(cred, what, 0, wcc);
}

nfsstat3 VfsPosix::rmdir(const Cred& cred, const DirName& what, Wcc& wcc) noexcept {
    return remove_name(cred, what, AT_REMOVEDIR, wcc);
}

nfsstat3 VfsPosix::rename(const Cred& cred, const DirName& from, const DirName& to, Wcc& from_wcc,
                          Wcc& to_wcc) noexcept {
    Dir source, target;
    nfsstat3 status = enter(cred, from, source, from_wcc);
    const nfsstat3 to_status = enter(cred, to, target, to_wcc);
    if (status == NFS3_OK) status = to_status;
    if (status != NFS3_OK) return status;
    Node node, old;
    const bool known = stat_name(source.pin.fd(), source.name, node) == NFS3_OK;
    const bool replaces = stat_name(target.pin.fd(), target.name, old) == NFS3_OK;
    if (::renameat(source.pin.fd(), source.name, target.pin.fd(), target.name) != 0) {
        status = status_of(errno);
        if (status == NFS3ERR_EXIST) status = NFS3ERR_NOTEMPTY;
    } else if (known && !(replaces && old.id == node.id)) {
        if (replaces) forget_name(old, target);
        learn(node.id, target.id, target.name);
        handles_.forget_place(node.id.fileid, source.id.fileid, source.name);
    }
    leave(source, from_wcc);
    leave(target, to_wcc);
    return status;
}

nfsstat3 VfsPosix::link(const Cred& cred, NodeId file, const DirName& where, Wcc& wcc) noexcept {
    Dir dir;
    nfsstat3 status = enter(cred, where, dir, wcc);
    if (status != NFS3_OK) return status;
    PosixPin pin;
    status = resolve(file, pin);
    if (status == NFS3_OK) status = act_as(cred);
    if (status == NFS3_OK) {
        const ProcPath path(pin.fd());
        if (::linkat(AT_FDCWD, path.c_str(), dir.pin.fd(), dir.name, AT_SYMLINK_FOLLOW) == 0) {
            learn(file, dir.id, dir.name);
        } else {
            status = errno == ENOENT ? NFS3ERR_STALE : status_of(errno);  // it has no name left
        }
    }
    leave(dir, wcc);
    return status;
}

}  // namespace nfsrdma::nfs
