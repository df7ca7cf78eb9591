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

#include "nfs/server/handler.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs {
namespace {

struct WriteState : FileOp {
    explicit WriteState(sunrpc::SvcCall& c) noexcept : call(&c) {}
    sunrpc::SvcCall* call;
    std::shared_ptr<Vfs> vfs;
    IoFile file;
    Wcc wcc;
    std::uint32_t moved = 0;
};
static_assert(sizeof(WriteState) <= 512);

void finish(WriteState& state, nfsstat3 status) noexcept {
    sunrpc::SvcCall& call = *state.call;
    auto& res = res_of<WRITE3res>(call);
    Attr attr;
    if (state.vfs->io_attr(state.file, attr) == NFS3_OK) state.wcc.after = attr;
    state.vfs->close_io(state.file);
    res.status = status;
    if (status == NFS3_OK) {
        WRITE3resok& ok = res.WRITE3res_u.resok;
        ok.file_wcc = to_wcc(state.wcc);
        ok.count = state.moved;
        ok.committed = args_of<WRITE3args>(call).stable;
        std::ranges::copy(server_of(call).write_verifier(), ok.verf);
    } else {
        res.WRITE3res_u.resfail.file_wcc = to_wcc(state.wcc);
    }
    std::destroy_at(&state);
    call.reply();
}

void synced(FileOp& op, std::int64_t result) noexcept {
    finish(static_cast<WriteState&>(op), status_of(result < 0 ? static_cast<int>(-result) : 0));
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
        finish(state, status);
    } else {
        state.call->rqst->xprt->loop().submit(state);
    }
}

}  // namespace

// RFC 1813 s3.3.7
void on_write(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<WRITE3args>(call);
    auto& res = res_of<WRITE3res>(call);
    Found found;
    IoFile file;
    res.status = find_to_change(call, args.file, found);
    if (res.status == NFS3_OK) res.status = check(args);
    if (res.status == NFS3_OK) {
        res.status = found.vfs().open_io(found.cred, found.id, IoUse::write, file);
    }
    if (res.status != NFS3_OK) {
        Wcc wcc;
        wcc.after = attr_of(found);
        res.WRITE3res_u.resfail.file_wcc = to_wcc(wcc);
        call.reply();
        return;
    }
    auto& state = make_state<WriteState>(call);
    state.vfs = found.exported->vfs;
    state.file = file;
    state.done = written;
    state.kind = FileOp::Kind::write;
    state.in_line = file.in_line;
    state.fd = file.fd;
    state.offset = args.offset;
    const std::uint32_t count = std::min(args.count, call.rqst->xprt->max_payload());
    if (count != 0) state.buffer = {as_bytes(args.data.data_val), count};
    Attr attr;
    if (state.vfs->io_attr(file, attr) == NFS3_OK) state.wcc.before = attr;
    write_all(state);
}

}  // namespace nfsrdma::nfs
