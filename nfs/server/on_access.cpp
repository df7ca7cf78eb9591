#include "nfs/server/handler.hpp"

namespace nfsrdma::nfs {

// RFC 1813 s3.3.4. Bits that it does not define are never granted.
void on_access(sunrpc::SvcCall& call) noexcept {
    constexpr std::uint32_t kDefined = ACCESS3_READ | ACCESS3_LOOKUP | ACCESS3_MODIFY |
                                       ACCESS3_EXTEND | ACCESS3_DELETE | ACCESS3_EXECUTE;
    constexpr std::uint32_t kChanges = ACCESS3_MODIFY | ACCESS3_EXTEND | ACCESS3_DELETE;
    const auto& args = args_of<ACCESS3args>(call);
    auto& res = res_of<ACCESS3res>(call);
    Found found;
    std::uint32_t granted = 0;
    res.status = find(call, args.object, found);
    if (res.status == NFS3_OK) {
        // What a read-only export refuses is not granted there.
        const std::uint32_t possible = found.read_only ? kDefined & ~kChanges : kDefined;
        res.status = found.vfs().access(found.cred, found.id, args.access & possible, granted);
    }
    const post_op_attr attr = to_post_op(attr_of(found));
    if (res.status == NFS3_OK) {
        res.ACCESS3res_u.resok.obj_attributes = attr;
        res.ACCESS3res_u.resok.access = granted;
    } else {
        res.ACCESS3res_u.resfail.obj_attributes = attr;
    }
    call.reply();
}

}  // namespace nfsrdma::nfs
