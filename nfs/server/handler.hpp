#pragma once
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "base/bytes.hpp"
#include "nfs/server/convert.hpp"
#include "nfs/server/handlers.hpp"
#include "nfs/server/server.hpp"
#include "sunrpc/svc.hpp"

// What every handler does: reach its typed arguments and results, find the object of a handle,
// check a name.
namespace nfsrdma::nfs {

template <class T>
T& args_of(sunrpc::SvcCall& call) noexcept {
    return *static_cast<T*>(call.args);
}
template <class T>
T& res_of(sunrpc::SvcCall& call) noexcept {
    return *static_cast<T*>(call.res);
}
inline Server& server_of(sunrpc::SvcCall& call) noexcept {
    return *static_cast<Server*>(call.program->context);
}
// Who called, as the call says; handlers act for Found::cred, which is that after the export's
// rules.
Cred cred_of(const sunrpc::SvcCall& call) noexcept;

// The object of a handle, and the caller there. Keeps the export alive, whatever a reload does
// meanwhile: what outlives the handler's function (file IO) keeps `exported` or its Vfs.
struct Found {
    std::shared_ptr<const Export> exported;  // nullptr: not found, or not for this caller
    NodeId id;
    Cred cred;              // after the export's squash rules
    bool read_only = true;  // for this caller
    Vfs& vfs() const noexcept { return *exported->vfs; }
    bool same_export(const Found& other) const noexcept {
        return exported->vfs == other.exported->vfs;
    }
};
// NFS3ERR_BADHANDLE: none of ours; NFS3ERR_STALE: of an export that is no more; NFS3ERR_ACCES: of
// one that is not for the caller's host; NFS3ERR_JUKEBOX: that depends on the host's name, which is
// being looked up. Whether the object exists is the backend's to say.
nfsstat3 find(sunrpc::SvcCall& call, const nfs_fh3& fh, Found& out) noexcept;
// Whether the export is for the caller's host, and how: NFS3ERR_ACCES, NFS3ERR_JUKEBOX.
nfsstat3 admit(sunrpc::SvcCall& call, const Export& exported, ClientOptions& out) noexcept;
// For a change of the object. Also NFS3ERR_ROFS; `out` is filled then, for the attributes.
nfsstat3 find_to_change(sunrpc::SvcCall& call, const nfs_fh3& fh, Found& out) noexcept;
FhBytes fh_of(const Found& in, NodeId id) noexcept;
std::optional<Attr> attr_of(const Found& found) noexcept;

enum class NameUse : std::uint8_t {
    lookup,  // "." and ".." have their meaning
    make,    // they exist
    change,  // they may not be removed or renamed
};
// A directory and a name in it; `make` and `change` as find_to_change. On failure `wcc.after` tells
// of the directory where it was found.
nfsstat3 find_name(sunrpc::SvcCall& call, const diropargs3& args, NameUse use, Found& dir,
                   Wcc& wcc) noexcept;

// Of this moment: what WRITE and COMMIT answer with.
void store_verifier(sunrpc::SvcCall& call, char* out) noexcept;

// What a procedure that makes an object answers with.
struct Made {
    Found dir;
    Node node;
    Wcc wcc;
    FhBytes fh{};  // until the reply is encoded
};
template <class Ok, class Fail>
void fill_made(nfsstat3 status, Made& made, Ok& ok, Fail& fail) noexcept {
    if (status != NFS3_OK) {
        fail.dir_wcc = to_wcc(made.wcc);
        return;
    }
    made.fh = fh_of(made.dir, made.node.id);
    ok.obj.handle_follows = TRUE;
    ok.obj.post_op_fh3_u.handle = to_fh3(made.fh);
    ok.obj_attributes = to_post_op(made.node.attr);
    ok.dir_wcc = to_wcc(made.wcc);
}

// A handler's state across file IO, in the call's own memory. Ends with destroy_state, before the
// reply.
template <class State>
State& make_state(sunrpc::SvcCall& call) noexcept {
    static_assert(sizeof(State) <= sizeof(call.handler_state));
    NR_ASSERT(address_of(call.handler_state.data()) % alignof(State) == 0);
    State* const state = static_cast<State*>(static_cast<void*>(call.handler_state.data()));
    return *std::construct_at(state, call);
}
template <class State>
State& state_of(sunrpc::SvcCall& call) noexcept {
    return *std::launder(static_cast<State*>(static_cast<void*>(call.handler_state.data())));
}

}  // namespace nfsrdma::nfs
