#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.14. Both arms of the result are the wcc data of both directories.
void on_rename(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<RENAME3args>(call);
    auto& res = res_of<RENAME3res>(call);
    Found from, to;
    Wcc from_wcc, to_wcc_data;
    res.status = find_name(call, args.from, NameUse::change, from, from_wcc);
    const nfsstat3 to_status = find_name(call, args.to, NameUse::change, to, to_wcc_data);
    if (res.status == NFS3_OK) res.status = to_status;
    if (res.status == NFS3_OK && !from.same_export(to)) res.status = NFS3ERR_XDEV;
    if (res.status == NFS3_OK) {
        res.status = from.vfs().rename(from.cred, {from.id, args.from.name}, {to.id, args.to.name},
                                       from_wcc, to_wcc_data);
    }
    if (res.status != NFS3_OK) {
        if (!from_wcc.after) from_wcc.after = attr_of(from);
        if (!to_wcc_data.after) to_wcc_data.after = attr_of(to);
    }
    res.RENAME3res_u.resok.fromdir_wcc = to_wcc(from_wcc);
    res.RENAME3res_u.resok.todir_wcc = to_wcc(to_wcc_data);
    call.reply();
}

}  // namespace nfsrdma::nfs
