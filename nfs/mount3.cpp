#include "nfs/mount3.hpp"

#include <array>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "nfs/binding.hpp"
#include "nfs/server/handler.hpp"
#include "nfs/server/preset.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::size_t kPathMax = 1024;  // MNTPATHLEN
constexpr std::uint64_t kNamePatienceNs = 5 * kNsPerSec;
constexpr std::uint32_t kListLimit = kMountListBytes - 64;

mountstat3 to_mount_status(nfsstat3 status) noexcept {
    switch (status) {
        case NFS3_OK:
            return MNT3_OK;
        case NFS3ERR_PERM:
            return MNT3ERR_PERM;
        case NFS3ERR_NOENT:
        case NFS3ERR_STALE:
            return MNT3ERR_NOENT;
        case NFS3ERR_ACCES:
        case NFS3ERR_XDEV:
            return MNT3ERR_ACCES;
        case NFS3ERR_NOTDIR:
            return MNT3ERR_NOTDIR;
        case NFS3ERR_INVAL:
            return MNT3ERR_INVAL;
        case NFS3ERR_NAMETOOLONG:
            return MNT3ERR_NAMETOOLONG;
        case NFS3ERR_IO:
        case NFS3ERR_NXIO:
        case NFS3ERR_EXIST:
        case NFS3ERR_NODEV:
        case NFS3ERR_ISDIR:
        case NFS3ERR_FBIG:
        case NFS3ERR_NOSPC:
        case NFS3ERR_ROFS:
        case NFS3ERR_MLINK:
        case NFS3ERR_NOTEMPTY:
        case NFS3ERR_DQUOT:
        case NFS3ERR_REMOTE:
        case NFS3ERR_BADHANDLE:
        case NFS3ERR_NOT_SYNC:
        case NFS3ERR_BAD_COOKIE:
        case NFS3ERR_NOTSUPP:
        case NFS3ERR_TOOSMALL:
        case NFS3ERR_BADTYPE:
            return MNT3ERR_IO;
        case NFS3ERR_SERVERFAULT:
        case NFS3ERR_JUKEBOX:
            return MNT3ERR_SERVERFAULT;
    }
    return MNT3ERR_IO;
}

// `path` below the export's name, without the '/' between; false when it is not there. Both are
// normal.
bool below(const std::string& name, const std::string& path, std::string_view& rest) noexcept {
    const bool is_root = name == "/";
    if (!is_root && path.compare(0, name.size(), name) != 0) return false;
    const std::size_t at = is_root ? 1 : name.size();
    if (path.size() > at && !is_root && path[at] != '/') return false;
    rest = std::string_view(path).substr(std::min(path.size(), is_root ? at : at + 1));
    return true;
}

// The innermost export that holds `path`.
std::shared_ptr<const Export> export_of(const Server& server, const std::string& path,
                                        std::string_view& rest) {
    std::shared_ptr<const Export> best;
    for (const auto& entry : server.exports()) {
        std::string_view its_rest;
        if (!below(entry->name, path, its_rest)) continue;
        if (best != nullptr && best->name.size() > entry->name.size()) continue;
        best = entry;
        rest = its_rest;
    }
    return best;
}

// Walks down from the export's root. Links end the walk: they are no directories.
nfsstat3 walk(const Found& from, std::string_view rest, NodeId& out) noexcept {
    const Cred& cred = from.cred;
    Node node;
    node.id = from.id;
    nfsstat3 status = from.vfs().getattr(cred, from.id, node.attr);
    while (status == NFS3_OK && !rest.empty()) {
        const std::string_view name = rest.substr(0, rest.find('/'));
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
        if (name == "..") return NFS3ERR_ACCES;
        const NodeId dir = node.id;
        status = from.vfs().lookup(cred, {dir, name}, node);
    }
    if (status == NFS3_OK && node.attr.type != NF3DIR) status = NFS3ERR_NOTDIR;
    out = node.id;
    return status;
}

nfsstat3 mount_path(sunrpc::SvcCall& call, const char* text, std::string& path,
                    FhBytes& fh) noexcept {
    if (std::strlen(text) > kPathMax) return NFS3ERR_NAMETOOLONG;
    if (*text != '/' || has_inner_zero(text, kPathRoom)) return NFS3ERR_NOENT;
    path = normal_export_name(text);
    std::string_view rest;
    Found found;
    found.exported = export_of(server_of(call), path, rest);
    if (found.exported == nullptr) return NFS3ERR_NOENT;
    ClientOptions options;
    nfsstat3 status = admit(call, *found.exported, options);
    if (status == NFS3ERR_JUKEBOX) {  // this runs on a helper thread, which may wait
        server_of(call).host_names().wait(call.rqst->xprt->peer(), kNamePatienceNs);
        status = admit(call, *found.exported, options);
    }
    if (status != NFS3_OK) return status;
    found.id = found.vfs().root();
    found.cred = squashed(cred_of(call), options);
    NodeId node;
    status = walk(found, rest, node);
    if (status == NFS3_OK) fh = fh_of(found, node);
    return status;
}

std::string host_of(const sunrpc::SvcCall& call) {
    return call.rqst->xprt->peer().address_to_string();
}

// An administrator will want to know whom an export is not for, and a peer may ask often.
void tell_refusal(const sunrpc::SvcCall& call, const std::string& path) noexcept {
    static log::RateLimit limit(kNsPerSec);
    if (!limit.pass(RealClock().now_ns())) return;
    log::warn("mount of {} refused to {} ({} more)", path, call.rqst->xprt->peer().to_string(),
              limit.held_back());
}

void on_mnt(sunrpc::SvcCall& call) noexcept {
    auto& res = res_of<mountres3>(call);
    std::string path;
    FhBytes fh{};
    std::array<unsigned int, 2> flavors = {
        static_cast<unsigned int>(sunrpc::AuthFlavor::sys),
        static_cast<unsigned int>(sunrpc::AuthFlavor::none),
    };
    const nfsstat3 status = mount_path(call, args_of<mountargs3>(call).dirpath, path, fh);
    res.fhs_status = to_mount_status(status);
    if (status == NFS3ERR_ACCES) tell_refusal(call, path);
    if (status == NFS3_OK) {
        server_of(call).note_mount(host_of(call), path);
        mountres3_ok& ok = res.mountres3_u.mountinfo;
        ok.fhandle.fhandle3_len = fh.size;
        ok.fhandle.fhandle3_val = as_chars(fh.bytes.data());
        ok.auth_flavors.auth_flavors_len = static_cast<unsigned int>(flavors.size());
        ok.auth_flavors.auth_flavors_val = flavors.data();
    }
    call.reply();
}

void on_umnt(sunrpc::SvcCall& call) noexcept {
    const std::string path = normal_export_name(args_of<mountargs3>(call).dirpath);
    server_of(call).note_unmount(host_of(call), path);
    call.reply();
}

void on_umntall(sunrpc::SvcCall& call) noexcept {
    server_of(call).note_unmount_all(host_of(call));
    call.reply();
}

std::uint32_t text_bytes(const std::string& text) noexcept {
    return 4 + align_up(narrow<std::uint32_t>(text.size()), 4);
}

// Lists stop where the reply's bound ends: they are for people to read.
void on_dump(sunrpc::SvcCall& call) noexcept {
    std::vector<MountEntry> mounts = server_of(call).mounts();
    std::vector<mountentry3> list;
    std::uint32_t bytes = 0;
    for (MountEntry& mount : mounts) {
        bytes += 4 + text_bytes(mount.host) + text_bytes(mount.directory);
        if (bytes > kListLimit) break;
        list.push_back({mount.host.data(), mount.directory.data(), nullptr});
    }
    for (std::size_t i = 0; i + 1 < list.size(); ++i)
        list[i].ml_next = &list[i + 1];
    res_of<mountlist3>(call).entries = list.empty() ? nullptr : list.data();
    call.reply();
}

// One export with whom it is for, in memory of its own.
struct Listed {
    std::string name;
    std::vector<std::string> hosts;
    std::vector<mountgroup3> groups;
};

std::vector<Listed> list_exports(const Server& server) {
    std::vector<Listed> out;
    std::uint32_t bytes = 0;
    for (const auto& entry : server.exports()) {
        bytes += 12 + text_bytes(entry->name);
        if (bytes > kListLimit) break;
        Listed listed;
        listed.name = entry->name;
        for (const ClientRule& rule : entry->rules.clients) {
            bytes += 4 + text_bytes(rule.host.text);
            if (bytes > kListLimit) break;
            listed.hosts.push_back(rule.host.text);
        }
        out.push_back(std::move(listed));
    }
    return out;
}

void on_export(sunrpc::SvcCall& call) noexcept {
    std::vector<Listed> exports = list_exports(server_of(call));
    std::vector<mountexport3> list;
    for (Listed& listed : exports) {
        for (std::string& host : listed.hosts)
            listed.groups.push_back({host.data(), nullptr});
        for (std::size_t i = 0; i + 1 < listed.groups.size(); ++i)
            listed.groups[i].gr_next = &listed.groups[i + 1];
        mountgroup3* const first = listed.groups.empty() ? nullptr : listed.groups.data();
        list.push_back({listed.name.data(), first, nullptr});
    }
    for (std::size_t i = 0; i + 1 < list.size(); ++i)
        list[i].ex_next = &list[i + 1];
    res_of<mountexports3>(call).entries = list.empty() ? nullptr : list.data();
    call.reply();
}

// It walks a path, and may wait for the caller's host name.
bool mnt_may_block(sunrpc::SvcCall& /*call*/) noexcept {
    return true;
}

void preset_path(void* args, std::span<std::byte> room) noexcept {
    PresetRoom(room).take_path(static_cast<mountargs3*>(args)->dirpath);
}

std::array<sunrpc::SvcProcedure, 6> make_procedures() noexcept {
    using Handle = void (*)(sunrpc::SvcCall&) noexcept;
    constexpr std::array<Handle, 6> kHandles = {on_null, on_mnt,     on_dump,
                                                on_umnt, on_umntall, on_export};
    std::array<sunrpc::SvcProcedure, 6> out;
    for (std::size_t i = 0; i < out.size(); ++i) {
        out[i].info = mount3_procs()[i];
        out[i].handle = kHandles[i];
        out[i].has_status = i == MOUNTPROC3_MNT;
        if (i == MOUNTPROC3_MNT) out[i].may_block = mnt_may_block;
        out[i].preset = out[i].info.args_size == 0 ? preset_nothing : preset_path;
    }
    return out;
}

}  // namespace

sunrpc::SvcProgram mount3_program(Server& server) noexcept {
    static const auto procedures = make_procedures();
    sunrpc::SvcProgram program;
    program.prog = MOUNT3_PROGRAM;
    program.vers = MOUNT_V3;
    program.procedures = procedures;
    program.preset_bytes = kPresetBytes;
    program.context = &server;
    return program;
}

}  // namespace nfsrdma::nfs
