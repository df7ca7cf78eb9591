#include "nfs/server/open_file.hpp"

namespace nfsrdma::nfs {
namespace {

struct OpenState {
    explicit OpenState(sunrpc::SvcCall& /*call*/) noexcept {}
    Opened opened;
    OpenFile how;
};

void gather(Opened& opened, const OpenFile& how) noexcept {
    Attr attr;
    if (opened.status != NFS3_OK) {
        opened.attr = attr_of(opened.found);
    } else if (how.want_attr && opened.found.vfs().io_attr(opened.file, attr) == NFS3_OK) {
        opened.attr = attr;
    }
}

void open_away(sunrpc::SvcCall& call) noexcept {
    auto& state = state_of<OpenState>(call);
    Opened& opened = state.opened;
    if (opened.status == NFS3_OK) {
        opened.status = opened.found.vfs().open_io(opened.found.cred, opened.found.id,
                                                   state.how.use, opened.file);
    }
    gather(opened, state.how);
}

void open_back(sunrpc::SvcCall& call) noexcept {
    auto& state = state_of<OpenState>(call);
    Opened opened = std::move(state.opened);
    const OpenFile how = state.how;
    std::destroy_at(&state);
    how.next(call, opened);
}

// Done on the loop; false: it may have to wait.
bool open_at_once(Opened& opened, const OpenFile& how) noexcept {
    if (opened.found.exported == nullptr) return true;
    Vfs& vfs = opened.found.vfs();
    if (opened.status != NFS3_OK) {
        if (vfs.blocks(opened.found.cred)) return false;
    } else {
        const std::optional<nfsstat3> status =
            vfs.open_io_at_once(opened.found.cred, opened.found.id, how.use, opened.file);
        if (!status) return false;
        opened.status = *status;
        if (*status == NFS3_OK && how.want_attr && vfs.io_attr_blocks()) {
            vfs.close_io(opened.file);
            return false;
        }
    }
    gather(opened, how);
    return true;
}

}  // namespace

void open_file(sunrpc::SvcCall& call, Opened& opened, const OpenFile& how) noexcept {
    if (open_at_once(opened, how)) {
        how.next(call, opened);
        return;
    }
    auto& state = make_state<OpenState>(call);
    state.opened = std::move(opened);
    state.how = how;
    call.storage = &state.opened.found.vfs();
    call.leave_loop(open_away, open_back);
}

void take_after(ClosingFile& closing) noexcept {
    Attr attr;
    if (closing.vfs->io_attr(closing.file, attr) == NFS3_OK) closing.after = attr;
    closing.vfs->close_io(closing.file);
}

void close_file(sunrpc::SvcCall& call, ClosingFile& closing, sunrpc::SvcWork::Step away,
                sunrpc::SvcWork::Step next) noexcept {
    if (closing.vfs->io_attr_blocks()) {
        call.storage = closing.vfs.get();
        call.leave_loop(away, next);
        return;
    }
    take_after(closing);
    next(call);
}

}  // namespace nfsrdma::nfs
