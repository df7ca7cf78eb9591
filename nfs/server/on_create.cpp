#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.8
void on_create(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<CREATE3args>(call);
    auto& res = res_of<CREATE3res>(call);
    Made made;
    CreateHow how;
    how.mode = args.how.mode;
    res.status = find_name(call, args.where, NameUse::make, made.dir, made.wcc);
    if (res.status == NFS3_OK) {
        if (how.mode == EXCLUSIVE) {
            how.verifier = to_verifier(args.how.createhow3_u.verf);
        } else {
            res.status = to_set_attr(args.how.createhow3_u.obj_attributes, how.attr);
        }
    }
    if (res.status == NFS3_OK) {
        res.status = made.dir.vfs().create(made.dir.cred, {made.dir.id, args.where.name}, how,
                                           made.node, made.wcc);
    }
    fill_made(res.status, made, res.CREATE3res_u.resok, res.CREATE3res_u.resfail);
    call.reply();
}

}  // namespace nfsrdma::nfs
