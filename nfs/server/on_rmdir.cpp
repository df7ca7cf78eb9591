#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.13. Both arms of the result are wcc data.
void on_rmdir(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<RMDIR3args>(call);
    auto& res = res_of<RMDIR3res>(call);
    Found dir;
    Wcc wcc;
    res.status = find_name(call, args.object, NameUse::change, dir, wcc);
    if (res.status == NFS3_OK) {
        res.status = dir.vfs().rmdir(dir.cred, {dir.id, args.object.name}, wcc);
    }
    res.RMDIR3res_u.resok.dir_wcc = to_wcc(wcc);
    call.reply();
}

}  // namespace nfsrdma::nfs
