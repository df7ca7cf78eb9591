#include <algorithm>

#include "nfs/server/handler.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs {
namespace {

struct CommitState : FileOp {
    explicit CommitState(sunrpc::SvcCall& c) noexcept : call(&c) {}
    sunrpc::SvcCall* call;
    std::shared_ptr<Vfs> vfs;
    IoFile file;
    Wcc wcc;
};

void finish(FileOp& op, std::int64_t result) noexcept {
    auto& state = static_cast<CommitState&>(op);
    sunrpc::SvcCall& call = *state.call;
    auto& res = res_of<COMMIT3res>(call);
    Attr attr;
    if (state.vfs->io_attr(state.file, attr) == NFS3_OK) state.wcc.after = attr;
    state.vfs->close_io(state.file);
    res.status = status_of(result < 0 ? static_cast<int>(-result) : 0);
    if (res.status == NFS3_OK) {
        res.COMMIT3res_u.resok.file_wcc = to_wcc(state.wcc);
        std::ranges::copy(server_of(call).write_verifier(), res.COMMIT3res_u.resok.verf);
    } else {
        res.COMMIT3res_u.resfail.file_wcc = to_wcc(state.wcc);
    }
    std::destroy_at(&state);
    call.reply();
}

}  // namespace

// RFC 1813 s3.3.21. The whole file is flushed, whatever the range: files have no flush of less that
// is as safe.
void on_commit(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<COMMIT3args>(call);
    auto& res = res_of<COMMIT3res>(call);
    Found found;
    IoFile file;
    res.status = find(call, args.file, found);
    if (res.status == NFS3_OK) {
        res.status = found.vfs().open_io(found.cred, found.id, IoUse::sync, file);
    }
    if (res.status != NFS3_OK) {
        Wcc wcc;
        wcc.after = attr_of(found);
        res.COMMIT3res_u.resfail.file_wcc = to_wcc(wcc);
        call.reply();
        return;
    }
    auto& state = make_state<CommitState>(call);
    state.vfs = found.exported->vfs;
    state.file = file;
    state.done = finish;
    state.kind = FileOp::Kind::sync;
    state.in_line = file.in_line;
    state.fd = file.fd;
    Attr attr;
    if (state.vfs->io_attr(file, attr) == NFS3_OK) state.wcc.before = attr;
    if (file.fd < 0) {
        finish(state, 0);
    } else {
        call.rqst->xprt->loop().submit(state);
    }
}

}  // namespace nfsrdma::nfs
