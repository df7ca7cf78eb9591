#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.3
void on_lookup(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<LOOKUP3args>(call);
    auto& res = res_of<LOOKUP3res>(call);
    Found dir;
    Wcc wcc;
    Node node;
    FhBytes fh{};
    res.status = find_name(call, args.what, NameUse::lookup, dir, wcc);
    if (res.status == NFS3_OK) {
        res.status = dir.vfs().lookup(dir.cred, {dir.id, args.what.name}, node);
    }
    const post_op_attr dir_attr = to_post_op(attr_of(dir));
    if (res.status == NFS3_OK) {
        LOOKUP3resok& ok = res.LOOKUP3res_u.resok;
        fh = fh_of(dir, node.id);
        ok.object = to_fh3(fh);
        ok.obj_attributes = to_post_op(node.attr);
        ok.dir_attributes = dir_attr;
    } else {
        res.LOOKUP3res_u.resfail.dir_attributes = dir_attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
