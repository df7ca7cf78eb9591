#include "nfs/server/handler.hpp"
#include "nfs/server/preset.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.10. The attributes of a symbolic link are the server's own.
void on_symlink(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<SYMLINK3args>(call);
    auto& res = res_of<SYMLINK3res>(call);
    Made made;
    res.status = find_name(call, args.where, NameUse::make, made.dir, made.wcc);
    const char* const text = args.symlink.symlink_data;
    if (res.status == NFS3_OK && has_inner_zero(text, kPathRoom)) res.status = NFS3ERR_INVAL;
    if (res.status == NFS3_OK) {
        res.status = made.dir.vfs().symlink(made.dir.cred, {made.dir.id, args.where.name}, text,
                                            made.node, made.wcc);
    }
    fill_made(res.status, made, res.SYMLINK3res_u.resok, res.SYMLINK3res_u.resfail);
    call.reply();
}

}  // namespace nfsrdma::nfs
