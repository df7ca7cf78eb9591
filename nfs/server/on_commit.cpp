#include "nfs/server/open_file.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs {
namespace {

struct CommitState : FileOp, ClosingFile {
    explicit CommitState(sunrpc::SvcCall& c) noexcept : call(&c) {}
    sunrpc::SvcCall* call;
    std::optional<Attr> before;
    nfsstat3 status = NFS3_OK;
};

void answer(sunrpc::SvcCall& call) noexcept {
    auto& state = state_of<CommitState>(call);
    auto& res = res_of<COMMIT3res>(call);
    const wcc_data wcc = to_wcc({state.before, state.after});
    res.status = state.status;
    if (res.status == NFS3_OK) {
        res.COMMIT3res_u.resok.file_wcc = wcc;
        store_verifier(call, res.COMMIT3res_u.resok.verf);
    } else {
        res.COMMIT3res_u.resfail.file_wcc = wcc;
    }
    std::destroy_at(&state);
    call.reply();
}

// A flush that fails says so once: the system then takes the pages for clean. Whoever wrote any of
// them learns from the verifier that they may be lost.
void finish(CommitState& state, nfsstat3 status) noexcept {
    if (status != NFS3_OK) server_of(*state.call).lose_unstable();
    state.status = status;
    close_file(
        *state.call, state,
        [](sunrpc::SvcCall& c) noexcept { take_after(state_of<CommitState>(c)); }, answer);
}

void synced(FileOp& op, std::int64_t result) noexcept {
    finish(static_cast<CommitState&>(op), status_of(result < 0 ? static_cast<int>(-result) : 0));
}

void commit_opened(sunrpc::SvcCall& call, Opened& opened) noexcept {
    if (opened.status != NFS3_OK) {
        auto& res = res_of<COMMIT3res>(call);
        res.status = opened.status;
        res.COMMIT3res_u.resfail.file_wcc = to_wcc({std::nullopt, opened.attr});
        call.reply();
        return;
    }
    auto& state = make_state<CommitState>(call);
    state.vfs = opened.found.exported->vfs;
    state.file = opened.file;
    state.before = opened.attr;
    state.done = synced;
    state.kind = FileOp::Kind::sync;
    state.in_line = opened.file.in_line;
    state.fd = opened.file.fd;
    if (state.fd < 0) {
        finish(state, state.vfs->sync_now(state.file));
    } else {
        call.rqst->xprt->loop().submit(state);
    }
}

}  // namespace

// RFC 1813 s3.3.21. The whole file is flushed, whatever the range: files have no flush of less that
// is as safe.
void on_commit(sunrpc::SvcCall& call) noexcept {
    Opened opened;
    opened.status = find(call, args_of<COMMIT3args>(call).file, opened.found);
    OpenFile how;
    how.use = IoUse::sync;
    how.next = commit_opened;
    open_file(call, opened, how);
}

}  // namespace nfsrdma::nfs
