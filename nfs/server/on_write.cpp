// Operation. The data lies where the transport pulled it to (or in the message); the file is
// written straight from there, and flushed as far as the call asks.
//
// Ownership. (1) WriteState lives in the call's own memory from make_state to finish; the FileOp in
// it is the loop's between submit and done. (2) The IoFile is closed in finish, before the reply
// ends the call. (3) The data is the request's until the reply.
//
// Errors. Any failure is answered with its status and wcc data. A write that was cut short (no
// space) is a success of fewer bytes.
#include <algorithm>
#include <limits>

#include "nfs/server/open_file.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs {
namespace {

struct WriteState : FileOp, ClosingFile {
    explicit WriteState(sunrpc::SvcCall& c) noexcept : call(&c) {}
    sunrpc::SvcCall* call;
    std::optional<Attr> before;
    std::uint32_t moved = 0;
    nfsstat3 status = NFS3_OK;
};
static_assert(sizeof(WriteState) <= 512);

void answer(sunrpc::SvcCall& call) noexcept {
    auto& state = state_of<WriteState>(call);
    auto& res = res_of<WRITE3res>(call);
    const wcc_data wcc = to_wcc({state.before, state.after});
    res.status = state.status;
    if (state.status == NFS3_OK) {
        WRITE3resok& ok = res.WRITE3res_u.resok;
        ok.file_wcc = wcc;
        ok.count = state.moved;
        ok.committed = args_of<WRITE3args>(call).stable;
        store_verifier(call, ok.verf);
    } else {
        res.WRITE3res_u.resfail.file_wcc = wcc;
    }
    std::destroy_at(&state);
    call.reply();
}

void finish(WriteState& state, nfsstat3 status) noexcept {
    state.status = status;
    close_file(
        *state.call, state,
        [](sunrpc::SvcCall& c) noexcept { take_after(state_of<WriteState>(c)); }, answer);
}

// What was written before and not asked to be flushed may be among what is lost.
void finish_sync(WriteState& state, nfsstat3 status) noexcept {
    if (status != NFS3_OK) server_of(*state.call).lose_unstable();
    finish(state, status);
}

void synced(FileOp& op, std::int64_t result) noexcept {
    finish_sync(static_cast<WriteState&>(op),
                status_of(result < 0 ? static_cast<int>(-result) : 0));
}

void written(FileOp& op, std::int64_t result) noexcept {
    auto& state = static_cast<WriteState&>(op);
    if (result < 0) {
        finish(state, status_of(static_cast<int>(-result)));
        return;
    }
    state.moved = static_cast<std::uint32_t>(result);
    const stable_how stable = args_of<WRITE3args>(*state.call).stable;
    if (stable == UNSTABLE) {
        finish(state, NFS3_OK);
        return;
    }
    state.kind = stable == DATA_SYNC ? FileOp::Kind::data_sync : FileOp::Kind::sync;
    state.done = synced;
    state.buffer = {};
    state.call->rqst->xprt->loop().submit(state);
}

// What of the call can be told to be wrong without the file.
nfsstat3 check(const WRITE3args& args) noexcept {
    constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (args.count > args.data.data_len) return NFS3ERR_INVAL;
    const std::int32_t stable = wire_value(args.stable);
    if (stable < UNSTABLE || stable > FILE_SYNC) return NFS3ERR_INVAL;
    if (args.offset > kMax || args.count > kMax - args.offset) return NFS3ERR_FBIG;
    return NFS3_OK;
}

void write_all(WriteState& state) noexcept {
    if (state.buffer.empty()) {
        finish(state, NFS3_OK);
    } else if (state.fd < 0) {
        const nfsstat3 status =
            state.vfs->write_now(state.file, state.offset, state.buffer, state.moved);
        if (status != NFS3_OK || args_of<WRITE3args>(*state.call).stable == UNSTABLE) {
            finish(state, status);
        } else {
            finish_sync(state, state.vfs->sync_now(state.file));
        }
    } else {
        state.call->rqst->xprt->loop().submit(state);
    }
}

// The file is open, or nothing is written.
void write_opened(sunrpc::SvcCall& call, Opened& opened) noexcept {
    const auto& args = args_of<WRITE3args>(call);
    if (opened.status != NFS3_OK) {
        auto& res = res_of<WRITE3res>(call);
        res.status = opened.status;
        res.WRITE3res_u.resfail.file_wcc = to_wcc({std::nullopt, opened.attr});
        call.reply();
        return;
    }
    auto& state = make_state<WriteState>(call);
    state.vfs = opened.found.exported->vfs;
    state.file = opened.file;
    state.before = opened.attr;
    state.done = written;
    state.kind = FileOp::Kind::write;
    state.in_line = opened.file.in_line;
    state.fd = opened.file.fd;
    state.offset = args.offset;
    if (state.fd >= 0 && !state.in_line) {
        state.personality = state.vfs->personality(call.rqst->xprt->loop(), opened.found.cred);
    }
    const std::uint32_t count = std::min(args.count, call.rqst->xprt->max_payload());
    if (count != 0) state.buffer = {as_bytes(args.data.data_val), count};
    write_all(state);
}

}  // namespace

// RFC 1813 s3.3.7
void on_write(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<WRITE3args>(call);
    Opened opened;
    opened.status = find_to_change(call, args.file, opened.found);
    if (opened.status == NFS3_OK) opened.status = check(args);
    OpenFile how;
    how.use = IoUse::write;
    how.next = write_opened;
    open_file(call, opened, how);
}

}  // namespace nfsrdma::nfs
