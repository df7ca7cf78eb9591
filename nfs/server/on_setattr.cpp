#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.2. Both arms of the result are wcc data.
void on_setattr(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<SETATTR3args>(call);
    auto& res = res_of<SETATTR3res>(call);
    Found found;
    Wcc wcc;
    SetAttr set;
    res.status = find_to_change(call, args.object, found);
    if (res.status == NFS3_OK) res.status = to_set_attr(args.new_attributes, set);
    if (res.status != NFS3_OK) wcc.after = attr_of(found);
    if (res.status == NFS3_OK) {
        const Time guard = to_time(args.guard.sattrguard3_u.obj_ctime);
        const bool guarded = args.guard.check != FALSE;
        res.status =
            found.vfs().setattr(found.cred, found.id, set, guarded ? &guard : nullptr, wcc);
    }
    res.SETATTR3res_u.resok.obj_wcc = to_wcc(wcc);
    call.reply();
}

}  // namespace nfsrdma::nfs
