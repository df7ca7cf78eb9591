#include "nfs/server/convert.hpp"

#include "base/bytes.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kNsPerSecond = 1'000'000'000;

nfsstat3 set_time(const time_how& how, const nfstime3& time, SetTime& to) noexcept {
    switch (wire_value(how)) {
        case DONT_CHANGE:
            return NFS3_OK;
        case SET_TO_SERVER_TIME:
            to.how = SET_TO_SERVER_TIME;
            return NFS3_OK;
        case SET_TO_CLIENT_TIME:
            if (time.nseconds >= kNsPerSecond) return NFS3ERR_INVAL;
            to.how = SET_TO_CLIENT_TIME;
            to.time = to_time(time);
            return NFS3_OK;
        default:
            return NFS3ERR_INVAL;
    }
}

}  // namespace

nfstime3 to_nfstime3(const Time& time) noexcept {
    return {static_cast<std::uint32_t>(time.seconds), time.nseconds};
}

Time to_time(const nfstime3& time) noexcept {
    return {time.seconds, time.nseconds};
}

fattr3 to_fattr3(const Attr& attr) noexcept {
    fattr3 out{};
    out.type = attr.type;
    out.mode = attr.mode;
    out.nlink = attr.nlink;
    out.uid = attr.uid;
    out.gid = attr.gid;
    out.size = attr.size;
    out.used = attr.used;
    out.rdev = {attr.rdev_major, attr.rdev_minor};
    out.fsid = attr.fsid;
    out.fileid = attr.fileid;
    out.atime = to_nfstime3(attr.atime);
    out.mtime = to_nfstime3(attr.mtime);
    out.ctime = to_nfstime3(attr.ctime);
    return out;
}

post_op_attr to_post_op(const std::optional<Attr>& attr) noexcept {
    post_op_attr out{};
    if (!attr) return out;
    out.attributes_follow = TRUE;
    out.post_op_attr_u.attributes = to_fattr3(*attr);
    return out;
}

wcc_data to_wcc(const Wcc& wcc) noexcept {
    wcc_data out{};
    out.after = to_post_op(wcc.after);
    if (!wcc.before) return out;
    out.before.attributes_follow = TRUE;
    wcc_attr& before = out.before.pre_op_attr_u.attributes;
    before.size = wcc.before->size;
    before.mtime = to_nfstime3(wcc.before->mtime);
    before.ctime = to_nfstime3(wcc.before->ctime);
    return out;
}

nfsstat3 to_set_attr(const sattr3& from, SetAttr& to) noexcept {
    if (from.mode.set_it != FALSE) to.mode = from.mode.set_mode3_u.mode;
    if (from.uid.set_it != FALSE) to.uid = from.uid.set_uid3_u.uid;
    if (from.gid.set_it != FALSE) to.gid = from.gid.set_gid3_u.gid;
    if (from.size.set_it != FALSE) to.size = from.size.set_size3_u.size;
    const nfsstat3 atime = set_time(from.atime.set_it, from.atime.set_atime_u.atime, to.atime);
    const nfsstat3 mtime = set_time(from.mtime.set_it, from.mtime.set_mtime_u.mtime, to.mtime);
    return atime == NFS3_OK ? mtime : atime;
}

std::uint64_t to_verifier(const createverf3& verf) noexcept {
    return load_be64(as_bytes(verf));
}

}  // namespace nfsrdma::nfs
