#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint32_t kDirPreferred = 64 * 1024;
constexpr std::uint32_t kMultiple = 4096;  // whole pages go fastest

}  // namespace

// RFC 1813 s3.3.19. The transport's largest payload is the largest READ and WRITE.
void on_fsinfo(sunrpc::SvcCall& call) noexcept {
    auto& res = res_of<FSINFO3res>(call);
    Found found;
    StatFs fs;
    res.status = find(call, args_of<FSINFO3args>(call).fsroot, found);
    if (res.status == NFS3_OK) res.status = found.vfs().statfs(found.cred, found.id, fs);
    const post_op_attr attr = to_post_op(attr_of(found));
    if (res.status == NFS3_OK) {
        FSINFO3resok& ok = res.FSINFO3res_u.resok;
        ok.obj_attributes = attr;
        ok.rtmax = ok.rtpref = ok.wtmax = ok.wtpref = call.rqst->xprt->max_payload();
        ok.rtmult = ok.wtmult = kMultiple;
        ok.dtpref = kDirPreferred;
        ok.maxfilesize = fs.max_file_bytes;
        ok.time_delta = {0, 1};
        ok.properties = FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME;
    } else {
        res.FSINFO3res_u.resfail.obj_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
