#include "nfs/server/handler.hpp"

#include <algorithm>
#include <netinet/in.h>

#include "nfs/server/preset.hpp"

namespace nfsrdma::nfs {

namespace {

// RFC 1813 knows no ports; `secure` is of those transports that have them.
bool port_passes(const sunrpc::SvcXprt& xprt, const ClientOptions& options) noexcept {
    const std::string_view netid(xprt.netid());
    return !options.secure || netid == "rdma" || netid == "rdma6" ||
           xprt.peer().port() < IPPORT_RESERVED;
}

}  // namespace

nfsstat3 admit(sunrpc::SvcCall& call, const Export& exported, ClientOptions& out) noexcept {
    const sunrpc::SvcXprt& xprt = *call.rqst->xprt;
    bool need_names = false;
    const ClientRule* rule = exported.rules.find(xprt.peer(), nullptr, need_names);
    std::shared_ptr<const HostNames::Names> names;
    if (need_names) {
        names = server_of(call).host_names().find(xprt.peer());
        if (names == nullptr) return NFS3ERR_JUKEBOX;
        rule = exported.rules.find(xprt.peer(), names.get(), need_names);
    }
    if (rule == nullptr || !port_passes(xprt, rule->options)) return NFS3ERR_ACCES;
    out = rule->options;
    return NFS3_OK;
}

Cred cred_of(const sunrpc::SvcCall& call) noexcept {
    Cred cred;
    if (call.flavor != sunrpc::AuthFlavor::sys) return cred;
    cred.known = true;
    cred.uid = call.sys.uid;
    cred.gid = call.sys.gid;
    static_assert(sunrpc::kAuthSysGroupsMax == std::tuple_size_v<decltype(cred.groups)>);
    cred.group_count = std::min(call.sys.group_count, sunrpc::kAuthSysGroupsMax);
    cred.groups = call.sys.groups;
    return cred;
}

nfsstat3 find(sunrpc::SvcCall& call, const nfs_fh3& fh, Found& out) noexcept {
    FhFields fields;
    if (!decode_fh(server_of(call).handle_key(), bytes_of(fh), fields)) return NFS3ERR_BADHANDLE;
    std::shared_ptr<const Export> exported = server_of(call).find_export(fields.export_id);
    if (exported == nullptr) return NFS3ERR_STALE;
    ClientOptions options;
    const nfsstat3 status = admit(call, *exported, options);
    if (status != NFS3_OK) return status;
    out.exported = std::move(exported);
    out.id = fields.node;
    out.cred = squashed(cred_of(call), options);
    out.read_only = options.read_only;
    return NFS3_OK;
}

nfsstat3 find_to_change(sunrpc::SvcCall& call, const nfs_fh3& fh, Found& out) noexcept {
    const nfsstat3 status = find(call, fh, out);
    return status == NFS3_OK && out.read_only ? NFS3ERR_ROFS : status;
}

void store_verifier(sunrpc::SvcCall& call, char* out) noexcept {
    static_assert(sizeof(writeverf3) == sizeof(std::uint64_t));
    const std::uint64_t verifier = server_of(call).write_verifier();
    std::memcpy(out, &verifier, sizeof verifier);
}

FhBytes fh_of(const Found& in, NodeId id) noexcept {
    return encode_fh(*in.exported->key, {in.exported->id, id});
}

std::optional<Attr> attr_of(const Found& found) noexcept {
    Attr attr;
    if (found.exported == nullptr) return std::nullopt;
    if (found.vfs().getattr(found.cred, found.id, attr) != NFS3_OK) return std::nullopt;
    return attr;
}

namespace {

nfsstat3 check_name(const char* name, NameUse use) noexcept {
    const std::string_view text(name);
    if (text.empty() || text.find('/') != text.npos) return NFS3ERR_INVAL;
    if (has_inner_zero(name, kNameRoom)) return NFS3ERR_INVAL;
    if (text != "." && text != "..") return NFS3_OK;
    switch (use) {
        case NameUse::lookup:
            return NFS3_OK;
        case NameUse::make:
            return NFS3ERR_EXIST;
        case NameUse::change:
            return NFS3ERR_INVAL;
    }
    return NFS3ERR_INVAL;
}

}  // namespace

nfsstat3 find_name(sunrpc::SvcCall& call, const diropargs3& args, NameUse use, Found& dir,
                   Wcc& wcc) noexcept {
    nfsstat3 status = find(call, args.dir, dir);
    if (status != NFS3_OK) return status;
    status = check_name(args.name, use);
    if (status == NFS3_OK && use != NameUse::lookup && dir.read_only) status = NFS3ERR_ROFS;
    if (status != NFS3_OK) wcc.after = attr_of(dir);
    return status;
}

}  // namespace nfsrdma::nfs
