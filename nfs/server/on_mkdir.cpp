#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.9
void on_mkdir(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<MKDIR3args>(call);
    auto& res = res_of<MKDIR3res>(call);
    Made made;
    SetAttr set;
    res.status = find_name(call, args.where, NameUse::make, made.dir, made.wcc);
    if (res.status == NFS3_OK) res.status = to_set_attr(args.attributes, set);
    set.size.reset();  // a directory's is not the client's to set
    if (res.status == NFS3_OK) {
        res.status = made.dir.vfs().mkdir(made.dir.cred, {made.dir.id, args.where.name}, set,
                                          made.node, made.wcc);
    }
    fill_made(res.status, made, res.MKDIR3res_u.resok, res.MKDIR3res_u.resfail);
    call.reply();
}

}  // namespace nfsrdma::nfs
