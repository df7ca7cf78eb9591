#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.18. invarsec 0: it may change at any time.
void on_fsstat(sunrpc::SvcCall& call) noexcept {
    auto& res = res_of<FSSTAT3res>(call);
    Found found;
    StatFs fs;
    res.status = find(call, args_of<FSSTAT3args>(call).fsroot, found);
    if (res.status == NFS3_OK) res.status = found.vfs().statfs(found.cred, found.id, fs);
    const post_op_attr attr = to_post_op(attr_of(found));
    if (res.status == NFS3_OK) {
        FSSTAT3resok& ok = res.FSSTAT3res_u.resok;
        ok.obj_attributes = attr;
        ok.tbytes = fs.total_bytes;
        ok.fbytes = fs.free_bytes;
        ok.abytes = fs.available_bytes;
        ok.tfiles = fs.total_files;
        ok.ffiles = fs.free_files;
        ok.afiles = fs.available_files;
    } else {
        res.FSSTAT3res_u.resfail.obj_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
