#include "tools/mount_nfsrdma/ops.hpp"

#include <algorithm>
#include <mutex>
#include <span>

#include "tools/mount_nfsrdma/mount.hpp"
#include "tools/mount_nfsrdma/worker.hpp"

namespace nfsrdma::mount {
namespace {

constexpr unsigned kBackground = 64;  // reads ahead and such that the kernel sends at once

void on_init(void* userdata, fuse_conn_info* conn) {
    const Mount& mount = *static_cast<Mount*>(userdata);
    unsigned want = FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS |
                    FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_HANDLE_KILLPRIV |
                    FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPIRE_ONLY;
    if (mount.options.rdirplus) want |= FUSE_CAP_READDIRPLUS | FUSE_CAP_READDIRPLUS_AUTO;
    conn->want = want & conn->capable;
    // A WRITE of the kernel is one of ours: no longer than the server takes it (FSINFO, wsize).
    conn->max_write = std::min({conn->max_write, mount.limits.payload, mount.limits.write});
    conn->max_background = kBackground;
    conn->congestion_threshold = kBackground * 3 / 4;
}

void on_forget(fuse_req_t req, fuse_ino_t ino, std::uint64_t lookups) {
    Mount& mount = worker_of(req).mount();
    fuse_reply_none(req);
    if (Node* const node = mount.nodes.at(ino)) mount.nodes.forget(*node, lookups);
}

void on_forget_multi(fuse_req_t req, std::size_t count, fuse_forget_data* forgets) {
    Mount& mount = worker_of(req).mount();
    for (const fuse_forget_data& forget : std::span(forgets, count)) {
        if (Node* const node = mount.nodes.at(forget.ino))
            mount.nodes.forget(*node, forget.nlookup);
    }
    fuse_reply_none(req);
}

fuse_lowlevel_ops make_operations() noexcept {
    fuse_lowlevel_ops ops{};
    ops.init = on_init;
    ops.forget = on_forget;
    ops.forget_multi = on_forget_multi;
    add_name_operations(ops);
    add_attribute_operations(ops);
    add_directory_operations(ops);
    add_file_operations(ops);
    return ops;
}

}  // namespace

const fuse_lowlevel_ops& operations() noexcept {
    static const fuse_lowlevel_ops ops = make_operations();
    return ops;
}

}  // namespace nfsrdma::mount
