#include "tools/mount_nfsrdma/attributes.hpp"

#include <algorithm>
#include <sys/sysmacros.h>

#include "base/clock.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::uint32_t kSector = 512;

std::uint64_t nanoseconds(double seconds) noexcept {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(kNsPerSec));
}

mode_t type_bits(ftype3 type) noexcept {
    switch (type) {
        case NF3REG:
            return S_IFREG;
        case NF3DIR:
            return S_IFDIR;
        case NF3BLK:
            return S_IFBLK;
        case NF3CHR:
            return S_IFCHR;
        case NF3LNK:
            return S_IFLNK;
        case NF3SOCK:
            return S_IFSOCK;
        case NF3FIFO:
            return S_IFIFO;
    }
    return 0;
}

timespec to_timespec(const nfstime3& time) noexcept {
    timespec out{};
    // 32 bits without a sign (RFC 1813 s2.5): from 1970 to 2106.
    out.tv_sec = time.seconds;
    out.tv_nsec = time.nseconds < kNsPerSec ? time.nseconds : 0;
    return out;
}

bool same_data(const fattr3& a, const fattr3& b) noexcept {
    return a.size == b.size && is_same(a.mtime, b.mtime);
}

}  // namespace

Before::Before(const pre_op_attr& told) noexcept : known(told.attributes_follow != FALSE) {
    if (!known) return;
    const wcc_attr& attributes = told.pre_op_attr_u.attributes;
    size = attributes.size;
    mtime = attributes.mtime;
    ctime = attributes.ctime;
}

bool is_same(const nfstime3& a, const nfstime3& b) noexcept {
    return a.seconds == b.seconds && a.nseconds == b.nseconds;
}

bool is_newer(const nfstime3& a, const nfstime3& b) noexcept {
    if (a.seconds == b.seconds) return a.nseconds > b.nseconds;
    return static_cast<std::int32_t>(a.seconds - b.seconds) > 0;
}

CacheRange cache_range(const MountOptions& options, ftype3 type) noexcept {
    if (options.no_ac) return {};
    const CacheTimes& times = options.times;
    if (type == NF3DIR) return {nanoseconds(times.dir_min), nanoseconds(times.dir_max)};
    return {nanoseconds(times.reg_min), nanoseconds(times.reg_max)};
}

std::uint64_t Attributes::valid_for_ns(std::uint64_t now_ns) const noexcept {
    return fresh(now_ns) ? expires_ns_ - now_ns : 0;
}

Change Attributes::take(const fattr3& told, std::uint64_t order, std::uint64_t now_ns,
                        const CacheRange& range, const Before& before) noexcept {
    if (!known_) {
        known_ = true;
        now_ = told;
        order_ = order;
        told_ns_ = now_ns;
        timeout_ns_ = range.min_ns;
        expires_ns_ = now_ns + timeout_ns_;
        return Change::none;
    }
    // Sent before the call that told what is known: newer only when the object says so.
    if (order < order_ && !is_newer(told.ctime, now_.ctime)) return Change::none;
    const bool same = same_data(told, now_) && is_same(told.ctime, now_.ctime);
    // Asked for while a call of ours changed it, and answered before or after that, who knows: the
    // next who asks asks anew.
    if (!same && order <= own_until_ && !before.known && !is_newer(told.ctime, now_.ctime)) {
        expires_ns_ = 0;
        return Change::none;
    }
    Change change = Change::none;
    if (!same_data(told, now_)) {
        // By the time of data alone: the size may be what we are about to write, and ctime moves
        // with the names of it that we make.
        const bool explained = before.known && is_same(before.mtime, now_.mtime);
        // The call that tells what it found is under way itself.
        const bool among_ours = order <= own_until_ || changing_ > (before.known ? 1U : 0U);
        change = explained || among_ours ? Change::ours : Change::foreign;
    }
    if (!same) {
        timeout_ns_ = range.min_ns;
    } else if (now_ns - told_ns_ >= timeout_ns_) {
        // Unchanged for as long as it was believed: believed for longer.
        timeout_ns_ = std::min(timeout_ns_ * 2, range.max_ns);
    }
    timeout_ns_ = std::clamp(timeout_ns_, range.min_ns, std::max(range.min_ns, range.max_ns));
    if (!same || now_ns >= expires_ns_) told_ns_ = now_ns;
    now_ = told;
    order_ = std::max(order_, order);
    expires_ns_ = now_ns + timeout_ns_;
    return change;
}

void Attributes::end_change(std::uint64_t next_order) noexcept {
    --changing_;
    own_until_ = std::max(own_until_, next_order);
}

void Attributes::note_written(std::uint64_t end) noexcept {
    if (end > now_.size) now_.size = end;
}

struct stat to_stat(const fattr3& attributes, std::uint32_t block) noexcept {
    struct stat out {};
    out.st_ino = attributes.fileid;
    out.st_mode = type_bits(attributes.type) | (attributes.mode & 07777);
    out.st_nlink = attributes.nlink;
    out.st_uid = attributes.uid;
    out.st_gid = attributes.gid;
    if (attributes.type == NF3BLK || attributes.type == NF3CHR)
        out.st_rdev = makedev(attributes.rdev.specdata1, attributes.rdev.specdata2);
    out.st_size = static_cast<off_t>(std::min<std::uint64_t>(attributes.size, INT64_MAX));
    out.st_blksize = static_cast<blksize_t>(block);
    out.st_blocks = static_cast<blkcnt_t>(
        attributes.used / kSector + static_cast<std::uint64_t>(attributes.used % kSector != 0));
    out.st_atim = to_timespec(attributes.atime);
    out.st_mtim = to_timespec(attributes.mtime);
    out.st_ctim = to_timespec(attributes.ctime);
    return out;
}

}  // namespace nfsrdma::mount
