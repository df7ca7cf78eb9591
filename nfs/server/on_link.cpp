#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.15. Both arms of the result have the file's attributes and the directory's wcc
// data.
void on_link(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<LINK3args>(call);
    auto& res = res_of<LINK3res>(call);
    Found file, dir;
    Wcc wcc;
    res.status = find(call, args.file, file);
    const nfsstat3 dir_status = find_name(call, args.link, NameUse::make, dir, wcc);
    if (res.status == NFS3_OK) res.status = dir_status;
    if (res.status == NFS3_OK && !file.same_export(dir)) res.status = NFS3ERR_XDEV;
    if (res.status == NFS3_OK) {
        res.status = dir.vfs().link(dir.cred, file.id, {dir.id, args.link.name}, wcc);
    }
    if (res.status != NFS3_OK && !wcc.after) wcc.after = attr_of(dir);
    res.LINK3res_u.resok.file_attributes = to_post_op(attr_of(file));
    res.LINK3res_u.resok.linkdir_wcc = to_wcc(wcc);
    call.reply();
}

}  // namespace nfsrdma::nfs
