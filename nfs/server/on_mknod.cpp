#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kDefaultMode = 0644;

// NFS3ERR_BADTYPE: what MKNOD does not make.
nfsstat3 like_of(const mknoddata3& what, Attr& out) noexcept {
    SetAttr set;
    nfsstat3 status = NFS3ERR_BADTYPE;
    const std::int32_t type = wire_value(what.type);
    if (type == NF3CHR || type == NF3BLK) {
        const devicedata3& device = what.mknoddata3_u.device;
        status = to_set_attr(device.dev_attributes, set);
        out.rdev_major = device.spec.specdata1;
        out.rdev_minor = device.spec.specdata2;
    } else if (type == NF3SOCK || type == NF3FIFO) {
        status = to_set_attr(what.mknoddata3_u.pipe_attributes, set);
    }
    if (status == NFS3_OK) out.type = what.type;
    out.mode = set.mode.value_or(kDefaultMode);
    return status;
}

}  // namespace

// RFC 1813 s3.3.11
void on_mknod(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<MKNOD3args>(call);
    auto& res = res_of<MKNOD3res>(call);
    Made made;
    Attr like;
    res.status = find_name(call, args.where, NameUse::make, made.dir, made.wcc);
    if (res.status == NFS3_OK) {
        res.status = like_of(args.what, like);
        if (res.status != NFS3_OK) made.wcc.after = attr_of(made.dir);
    }
    if (res.status == NFS3_OK) {
        res.status = made.dir.vfs().mknod(made.dir.cred, {made.dir.id, args.where.name}, like,
                                          made.node, made.wcc);
    }
    fill_made(res.status, made, res.MKNOD3res_u.resok, res.MKNOD3res_u.resfail);
    call.reply();
}

}  // namespace nfsrdma::nfs
