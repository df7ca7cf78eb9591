#include <array>

#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.5. The path is short: it is read into memory of this frame, and the dispatcher
// copies it to where the client offered a place for it, if it did.
void on_readlink(sunrpc::SvcCall& call) noexcept {
    auto& res = res_of<READLINK3res>(call);
    Found found;
    std::array<char, NFS3_PATH_MAX + 1> path;
    std::uint32_t length = 0;
    res.status = find(call, args_of<READLINK3args>(call).symlink, found);
    if (res.status == NFS3_OK) {
        const std::span<char> room = std::span(path).first(NFS3_PATH_MAX);
        res.status = found.vfs().readlink(found.cred, found.id, room, length);
    }
    const std::uint32_t offered = call.rqst->result_room;
    if (res.status == NFS3_OK && offered != 0 && length > offered) {
        res.status = NFS3ERR_NAMETOOLONG;  // a path cut short would be another path
    }
    const post_op_attr attr = to_post_op(attr_of(found));
    if (res.status == NFS3_OK) {
        path[length] = '\0';
        res.READLINK3res_u.resok.symlink_attributes = attr;
        res.READLINK3res_u.resok.data = path.data();
    } else {
        res.READLINK3res_u.resfail.symlink_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
