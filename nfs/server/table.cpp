#include "nfs/server/table.hpp"

#include <array>

#include "nfs/binding.hpp"
#include "nfs/server/handler.hpp"
#include "nfs/server/preset.hpp"
#include "nfs/server/server.hpp"

namespace nfsrdma::nfs {
namespace {

using Handle = void (*)(sunrpc::SvcCall&) noexcept;
using MayBlock = bool (*)(sunrpc::SvcCall&) noexcept;
using Preset = void (*)(void*, std::span<std::byte>) noexcept;

struct Row {
    Handle handle;
    Preset preset;
};

void preset_rename(void* args, std::span<std::byte> room) noexcept {
    auto& rename = *static_cast<RENAME3args*>(args);
    PresetRoom rest(room);
    rest.take(rename.from);
    rest.take(rename.to);
}
void preset_link(void* args, std::span<std::byte> room) noexcept {
    auto& link = *static_cast<LINK3args*>(args);
    PresetRoom rest(room);
    rest.take(link.file);
    rest.take(link.link);
}
void preset_symlink(void* args, std::span<std::byte> room) noexcept {
    auto& symlink = *static_cast<SYMLINK3args*>(args);
    PresetRoom rest(room);
    rest.take(symlink.where);
    rest.take_path(symlink.symlink.symlink_data);
}

// By procedure number.
constexpr std::array<Row, 22> kRows = {{
    {on_null, preset_nothing},
    {on_getattr, preset<&GETATTR3args::object>},
    {on_setattr, preset<&SETATTR3args::object>},
    {on_lookup, preset<&LOOKUP3args::what>},
    {on_access, preset<&ACCESS3args::object>},
    {on_readlink, preset<&READLINK3args::symlink>},
    {on_read, preset<&READ3args::file>},
    {on_write, preset<&WRITE3args::file>},
    {on_create, preset<&CREATE3args::where>},
    {on_mkdir, preset<&MKDIR3args::where>},
    {on_symlink, preset_symlink},
    {on_mknod, preset<&MKNOD3args::where>},
    {on_remove, preset<&REMOVE3args::object>},
    {on_rmdir, preset<&RMDIR3args::object>},
    {on_rename, preset_rename},
    {on_link, preset_link},
    {on_readdir, preset<&READDIR3args::dir>},
    {on_readdirplus, preset<&READDIRPLUS3args::dir>},
    {on_fsstat, preset<&FSSTAT3args::fsroot>},
    {on_fsinfo, preset<&FSINFO3args::fsroot>},
    {on_pathconf, preset<&PATHCONF3args::object>},
    {on_commit, preset<&COMMIT3args::file>},
}};

// What a second execution would answer otherwise, or do once more. WRITE is not among them: it does
// the same again. SETATTR is, for its guard; CREATE for GUARDED, and for truncation by UNCHECKED.
constexpr bool is_once(std::size_t number) noexcept {
    return number == NFSPROC3_SETATTR || (number >= NFSPROC3_CREATE && number <= NFSPROC3_LINK);
}

bool blocks(sunrpc::SvcCall& call, const nfs_fh3& fh) noexcept {
    Found found;
    if (find(call, fh, found) != NFS3_OK || !found.vfs().blocks(found.cred)) return false;
    call.storage = &found.vfs();
    return true;
}
// All arguments begin with a handle.
bool may_block(sunrpc::SvcCall& call) noexcept {
    return blocks(call, args_of<nfs_fh3>(call));
}
bool rename_may_block(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<RENAME3args>(call);
    return blocks(call, args.from.dir) || blocks(call, args.to.dir);
}
bool link_may_block(sunrpc::SvcCall& call) noexcept {
    const auto& args = args_of<LINK3args>(call);
    return blocks(call, args.file) || blocks(call, args.link.dir);
}

// READ, WRITE and COMMIT see to it themselves: their IO does not wait on a helper thread.
MayBlock may_block_of(std::size_t number) noexcept {
    switch (number) {
        case NFSPROC3_NULL:
        case NFSPROC3_READ:
        case NFSPROC3_WRITE:
        case NFSPROC3_COMMIT:
            return nullptr;
        case NFSPROC3_RENAME:
            return &rename_may_block;
        case NFSPROC3_LINK:
            return &link_may_block;
        default:
            return &may_block;
    }
}

std::array<sunrpc::SvcProcedure, kRows.size()> make_procedures() noexcept {
    std::array<sunrpc::SvcProcedure, kRows.size()> out;
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i].info = nfs3_procs()[i];
        out[i].handle = kRows[i].handle;
        out[i].preset = kRows[i].preset;
        out[i].may_block = may_block_of(i);
        out[i].once = is_once(i);
        out[i].has_status = i != NFSPROC3_NULL;
    }
    return out;
}

}  // namespace

sunrpc::SvcProgram nfs3_program(Server& server) noexcept {
    static const auto procedures = make_procedures();
    sunrpc::SvcProgram program;
    program.prog = NFS3_PROGRAM;
    program.vers = NFS_V3;
    program.procedures = procedures;
    program.preset_bytes = kPresetBytes;
    program.context = &server;
    return program;
}

}  // namespace nfsrdma::nfs
