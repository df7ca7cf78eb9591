#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.1
void on_getattr(sunrpc::SvcCall& call) noexcept {
    auto& res = res_of<GETATTR3res>(call);
    Found found;
    Attr attr;
    res.status = find(call, args_of<GETATTR3args>(call).object, found);
    if (res.status == NFS3_OK) res.status = found.vfs().getattr(found.cred, found.id, attr);
    if (res.status == NFS3_OK) res.GETATTR3res_u.resok.obj_attributes = to_fattr3(attr);
    call.reply();
}

}  // namespace nfsrdma::nfs
