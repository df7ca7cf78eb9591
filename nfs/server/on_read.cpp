// Operation. The file is pinned, and what the call can have at most worked out: the count asked
// for, the transport's largest payload, the place that the client offered and, where that is much,
// what the file has. Memory for that is taken (or waited for) and the file read straight into it.
//
// Ownership. (1) ReadState lives in the call's own memory from make_state to finish; the FileOp in
// it is the loop's between submit and done. (2) The IoFile is closed in finish, before the reply
// ends the call. (3) The memory is the transport's, held by the request.
//
// Errors. Any failure is answered with its status and the attributes that are known.
#include <algorithm>

#include "nfs/server/open_file.hpp"
#include "nfs/status.hpp"

namespace nfsrdma::nfs {
namespace {

// Where memory is worth the size of the file being asked first, and where an offset is none that
// the system would take.
constexpr std::uint32_t kSmall = 64 * 1024;
constexpr std::uint64_t kFar = 1ull << 62;

struct ReadState : FileOp, ClosingFile {
    explicit ReadState(sunrpc::SvcCall& c) noexcept : call(&c) {}
    sunrpc::SvcCall* call;
    std::uint32_t count = 0;
    std::uint32_t moved = 0;
    nfsstat3 status = NFS3_OK;
};

// `attr` is younger than the data: of a file that grew meanwhile it does not tell that nothing was
// left to read. Neither bytes nor the end would be no answer: Linux takes it for an IO error.
void fill(READ3res& res, const Attr& attr, const READ3args& args,
          std::span<std::byte> data) noexcept {
    const std::uint64_t offset = args.offset;
    const bool nothing_left = data.empty() && args.count > 0;
    READ3resok& ok = res.READ3res_u.resok;
    res.status = NFS3_OK;
    ok.file_attributes = to_post_op(attr);
    ok.count = static_cast<std::uint32_t>(data.size());
    const bool at_end = offset >= attr.size || data.size() >= attr.size - offset;
    ok.eof = nothing_left || at_end ? TRUE : FALSE;
    ok.data.data_len = ok.count;
    ok.data.data_val = data.empty() ? nullptr : as_chars(data.data());
}

void answer(sunrpc::SvcCall& call) noexcept {
    auto& state = state_of<ReadState>(call);
    auto& res = res_of<READ3res>(call);
    if (state.status == NFS3_OK && state.after) {
        fill(res, *state.after, args_of<READ3args>(call), state.buffer.first(state.moved));
    } else {
        res.status = state.status == NFS3_OK ? NFS3ERR_IO : state.status;
        res.READ3res_u.resfail.file_attributes = to_post_op(state.after);
    }
    std::destroy_at(&state);
    call.reply();
}

void finish(ReadState& state, nfsstat3 status, std::uint32_t moved) noexcept {
    state.status = status;
    state.moved = moved;
    close_file(
        *state.call, state, [](sunrpc::SvcCall& c) noexcept { take_after(state_of<ReadState>(c)); },
        answer);
}

void done(FileOp& op, std::int64_t result) noexcept {
    auto& state = static_cast<ReadState&>(op);
    if (result < 0) {
        finish(state, status_of(static_cast<int>(-result)), 0);
    } else {
        finish(state, NFS3_OK, static_cast<std::uint32_t>(result));
    }
}

// Also what runs when memory came back.
void start(sunrpc::SvcCall& call) noexcept {
    auto& state = state_of<ReadState>(call);
    Result<std::span<std::byte>> memory = call.get_result_payload(state.count);
    if (!memory) {
        if (memory.error().code == Errc::again) {
            call.wake = start;
            return;
        }
        finish(state, NFS3ERR_SERVERFAULT, 0);
        return;
    }
    call.wake = nullptr;
    state.buffer = memory->first(std::min<std::size_t>(state.count, memory->size()));
    if (state.file.fd < 0) {
        std::uint32_t moved = 0;
        const nfsstat3 status = state.vfs->read_now(state.file, state.offset, state.buffer, moved);
        finish(state, status, moved);
        return;
    }
    call.rqst->xprt->loop().submit(state);
}

// The most that the call can have, whatever the file is.
std::uint32_t count_of(const sunrpc::SvcCall& call, const READ3args& args) noexcept {
    const std::uint32_t count = std::min(args.count, call.rqst->xprt->max_payload());
    // A Write chunk that is smaller than the count gets what fits (RFC 8166 s3.4.6).
    return call.rqst->result_room == 0 ? count : std::min(count, call.rqst->result_room);
}

// The file is open, or there is nothing to read.
void read_opened(sunrpc::SvcCall& call, Opened& opened) noexcept {
    const auto& args = args_of<READ3args>(call);
    if (opened.status != NFS3_OK) {
        auto& res = res_of<READ3res>(call);
        res.status = opened.status;
        res.READ3res_u.resfail.file_attributes = to_post_op(opened.attr);
        call.reply();
        return;
    }
    auto& state = make_state<ReadState>(call);
    state.vfs = opened.found.exported->vfs;
    state.file = opened.file;
    state.done = done;
    state.kind = FileOp::Kind::read;
    state.in_line = opened.file.in_line;
    state.fd = opened.file.fd;
    state.offset = args.offset;
    state.count = count_of(call, args);
    if (opened.attr) {
        const std::uint64_t size = opened.attr->size;
        const std::uint64_t left = args.offset < size ? size - args.offset : 0;
        state.count = static_cast<std::uint32_t>(std::min<std::uint64_t>(state.count, left));
        if (state.fd >= 0)
            state.mapping = state.vfs->mapping(state.file, *opened.attr, state.count);
    }
    if (state.count == 0) {
        finish(state, NFS3_OK, 0);
        return;
    }
    start(call);
}

}  // namespace

// RFC 1813 s3.3.6
void on_read(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<READ3args>(call);
    Opened opened;
    opened.status = find(call, args.file, opened.found);
    OpenFile how;
    how.want_attr = count_of(call, args) > kSmall || args.offset >= kFar;
    how.next = read_opened;
    open_file(call, opened, how);
}

}  // namespace nfsrdma::nfs
