#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.12. Both arms of the result are wcc data.
void on_remove(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<REMOVE3args>(call);
    auto& res = res_of<REMOVE3res>(call);
    Found dir;
    Wcc wcc;
    res.status = find_name(call, args.object, NameUse::change, dir, wcc);
    if (res.status == NFS3_OK) {
        res.status = dir.vfs().remove(dir.cred, {dir.id, args.object.name}, wcc);
    }
    res.REMOVE3res_u.resok.dir_wcc = to_wcc(wcc);
    call.reply();
}

}  // namespace nfsrdma::nfs
