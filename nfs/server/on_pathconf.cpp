#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.20
void on_pathconf(sunrpc::SvcCall& call) noexcept {
    auto& res = res_of<PATHCONF3res>(call);
    Found found;
    StatFs fs;
    res.status = find(call, args_of<PATHCONF3args>(call).object, found);
    if (res.status == NFS3_OK) res.status = found.vfs().statfs(found.cred, found.id, fs);
    const post_op_attr attr = to_post_op(attr_of(found));
    if (res.status == NFS3_OK) {
        PATHCONF3resok& ok = res.PATHCONF3res_u.resok;
        ok.obj_attributes = attr;
        ok.linkmax = fs.link_max;
        ok.name_max = fs.name_max;
        ok.no_trunc = TRUE;
        ok.chown_restricted = TRUE;
        ok.case_insensitive = FALSE;
        ok.case_preserving = TRUE;
    } else {
        res.PATHCONF3res_u.resfail.obj_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
