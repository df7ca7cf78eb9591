#include "nfs/client/mount_socket.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

#include <rpc/pmap_prot.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_prot.h>

#include "base/bytes.hpp"

namespace nfsrdma::nfs::client {
namespace {

constexpr std::uint32_t kArgsMax = MNT3_PATH_MAX + 8;
constexpr u_int kUniversalAddressMax = 128;

Error bad(const char* what) noexcept {
    return Error{Errc::bad_message, 0, what};
}

XDR reader_of(std::span<std::byte> bytes) noexcept {
    XDR xdr{};
    xdrmem_create(&xdr, as_chars(bytes.data()), narrow<u_int>(bytes.size()), XDR_DECODE);
    return xdr;
}
XDR writer_to(std::span<std::byte> bytes) noexcept {
    XDR xdr{};
    xdrmem_create(&xdr, as_chars(bytes.data()), narrow<u_int>(bytes.size()), XDR_ENCODE);
    return xdr;
}

bool read_string(XDR& xdr, std::string& out, u_int max) {
    u_int size = 0;
    if (xdr_u_int(&xdr, &size) == FALSE || size > max) return false;
    out.resize(size);
    return xdr_opaque(&xdr, out.data(), size) != FALSE;
}

// One more entry? False as well where the message ends.
bool read_more(XDR& xdr, bool& more) {
    bool_t word = FALSE;
    if (xdr_bool(&xdr, &word) == FALSE) return false;
    more = word != FALSE;
    return true;
}

// "a.b.c.d.HIGH.LOW" or "::1.HIGH.LOW" (RFC 5665 s5.2.3.3).
std::optional<std::uint16_t> port_of_universal(std::string_view address) {
    std::uint32_t port = 0;
    for (const std::uint32_t scale : {1u, 256u}) {
        const std::size_t dot = address.rfind('.');
        if (dot == std::string_view::npos) return std::nullopt;
        const std::string_view digits = address.substr(dot + 1);
        std::uint32_t value = 0;
        const auto [end, error] =
            std::from_chars(digits.data(), digits.data() + digits.size(), value);
        if (error != std::errc{} || end != digits.data() + digits.size() || value > 255)
            return std::nullopt;
        port += value * scale;
        address = address.substr(0, dot);
    }
    return static_cast<std::uint16_t>(port);
}

// Arguments of rpcbind: version 2 for IPv4, 3 for IPv6.
u_int encode_query(std::span<std::byte> room, bool v6, RpcProto proto, std::uint32_t prog,
                   std::uint32_t vers) {
    XDR xdr = writer_to(room);
    if (!v6) {
        pmap query{};
        query.pm_prog = prog;
        query.pm_vers = vers;
        query.pm_prot = proto == RpcProto::tcp ? IPPROTO_TCP : IPPROTO_UDP;
        NR_ASSERT(xdr_pmap(&xdr, &query) != FALSE);
        return xdr_getpos(&xdr);
    }
    std::string netid = std::string(to_string(proto)) + "6", nothing;
    rpcb query{};
    query.r_prog = prog;
    query.r_vers = vers;
    query.r_netid = netid.data();
    query.r_addr = query.r_owner = nothing.data();
    NR_ASSERT(xdr_rpcb(&xdr, &query) != FALSE);
    return xdr_getpos(&xdr);
}

std::string why(const Error& error) {
    switch (error.code) {
        case Errc::refused:
            return "connection refused";
        case Errc::timed_out:
            return "no answer in time";
        case Errc::reconnect:
            return "the connection was closed";
        case Errc::bad_message:
        case Errc::too_big:
            return std::string("its answer makes no sense (") + error.what + ")";
        case Errc::system:
            return std::generic_category().message(error.sys);
        case Errc::closed:
            return "interrupted";
        case Errc::again:
        case Errc::unsupported:
        case Errc::invalid_argument:
            break;
    }
    return nfsrdma::to_string(error);
}

bool speaks_sys(const mountres3_ok& ok) noexcept {
    if (ok.auth_flavors.auth_flavors_len == 0) return true;  // it did not say
    const std::span<const u_int> flavors(ok.auth_flavors.auth_flavors_val,
                                         ok.auth_flavors.auth_flavors_len);
    return std::any_of(flavors.begin(), flavors.end(), [](u_int flavor) {
        return flavor == static_cast<u_int>(sunrpc::AuthFlavor::sys) ||
               flavor == static_cast<u_int>(sunrpc::AuthFlavor::none);
    });
}

Outcome no_sense(const Error& error) {
    return Outcome::failed(error);
}

bool same_but_for_proto(const MountTrouble& a, const MountTrouble& b) noexcept {
    return a.step == b.step && a.at == b.at && a.error.code == b.error.code &&
           a.error.sys == b.error.sys && a.status == b.status;
}

std::string text_of(const MountTrouble& trouble, const char* proto) {
    const std::string at = trouble.at.to_string() + " over " + proto;
    switch (trouble.step) {
        case MountTrouble::Step::ask_rpcbind:
            return "rpcbind at " + at + ": " + why(trouble.error) +
                   "; start rpcbind on the server or open its port, or name the port of its "
                   "mountd by --mountport PORT";
        case MountTrouble::Step::not_registered:
            return "rpcbind at " + at +
                   " knows no MOUNT version 3: start the server's mountd (rpc.mountd, "
                   "nfs-server.service), or name its port by --mountport PORT";
        case MountTrouble::Step::call:
            return "mountd at " + at + ": " + why(trouble.error) +
                   "; check that mountd runs at that port (rpcinfo -p there tells which it is) "
                   "and that no firewall is between";
        case MountTrouble::Step::refused:
            if (trouble.status == sunrpc::RpcStatus::auth_error) {
                return "mountd at " + at +
                       " refuses the call: it may want a reserved source port (run this as root) "
                       "or know this host not at all (/etc/exports there)";
            }
            if (trouble.status == sunrpc::RpcStatus::prog_unavail ||
                trouble.status == sunrpc::RpcStatus::prog_mismatch) {
                return "what answers at " + at +
                       " is no mountd of version 3: --mountport names another service's port, or "
                       "the server has version 3 switched off";
            }
            return "mountd at " + at + ": " + sunrpc::to_string(trouble.status);
        case MountTrouble::Step::kerberos:
            return "the export takes calls that Kerberos signs only, which this program cannot "
                   "make; export it with sec=sys as well";
    }
    return {};
}

}  // namespace

std::string to_string(std::span<const MountTrouble> troubles) {
    if (troubles.size() == 2 && same_but_for_proto(troubles[0], troubles[1]))
        return text_of(troubles[0], "TCP and UDP");
    std::string text;
    for (const MountTrouble& trouble : troubles) {
        if (!text.empty()) text += "; and ";
        text += text_of(trouble, trouble.proto == RpcProto::tcp ? "TCP" : "UDP");
    }
    return text;
}

Result<std::uint16_t> rpcbind_port_of(const SockAddr& at, RpcProto proto, std::uint32_t prog,
                                      std::uint32_t vers, const RpcPatience& patience) {
    NR_TRY_ASSIGN(RpcSocket socket, RpcSocket::connect(at, proto, false, patience));
    std::array<std::byte, 256> room{};
    const u_int size = encode_query(room, at.is_v6(), proto, prog, vers);
    RpcRequest request;
    request.prog = RPCBPROG;
    request.vers = at.is_v6() ? RPCBVERS : PMAPVERS;
    request.proc = at.is_v6() ? RPCBPROC_GETADDR : PMAPPROC_GETPORT;
    request.args = std::span(room).first(size);
    NR_TRY_ASSIGN(const RpcAnswer answer, socket.call(request, patience));
    if (answer.status != sunrpc::RpcStatus::success)
        return Error{Errc::unsupported, 0, sunrpc::to_string(answer.status)};
    XDR xdr = reader_of(answer.results);
    if (!at.is_v6()) {
        u_int port = 0;
        if (xdr_u_int(&xdr, &port) == FALSE || port > UINT16_MAX) return bad("port from rpcbind");
        return static_cast<std::uint16_t>(port);
    }
    std::string address;
    if (!read_string(xdr, address, kUniversalAddressMax)) return bad("address from rpcbind");
    if (address.empty()) return std::uint16_t{0};
    const std::optional<std::uint16_t> port = port_of_universal(address);
    if (!port) return bad("address from rpcbind");
    return *port;
}

Result<void> decode_exports(std::span<std::byte> results, std::vector<ExportedDirectory>& out) {
    XDR xdr = reader_of(results);
    for (bool more = true;;) {
        if (!read_more(xdr, more)) return bad("list of exports");
        if (!more) return {};
        ExportedDirectory& entry = out.emplace_back();
        if (!read_string(xdr, entry.path, MNT3_PATH_MAX)) return bad("path of an export");
        for (bool another = true;;) {
            if (!read_more(xdr, another)) return bad("list of an export's clients");
            if (!another) break;
            if (!read_string(xdr, entry.clients.emplace_back(), MNT3_NAME_MAX))
                return bad("client of an export");
        }
    }
}

Result<void> decode_mounts(std::span<std::byte> results, std::vector<MountedDirectory>& out) {
    XDR xdr = reader_of(results);
    for (bool more = true;;) {
        if (!read_more(xdr, more)) return bad("list of mounts");
        if (!more) return {};
        MountedDirectory& entry = out.emplace_back();
        if (!read_string(xdr, entry.client, MNT3_NAME_MAX) ||
            !read_string(xdr, entry.path, MNT3_PATH_MAX))
            return bad("entry of the list of mounts");
    }
}

MountSocket::MountSocket(const MountSocketOptions& options, const sunrpc::AuthSys* sys)
    : options_(options) {
    if (sys != nullptr) sys_ = *sys;
}

Outcome MountSocket::mnt(const std::string& path, FileHandle& root) {
    Outcome outcome = call(MOUNTPROC3_MNT, &path);
    if (!outcome.ok()) return outcome;
    mountres3 res{};
    XDR xdr = reader_of(results_);
    const bool decoded = xdr_mountres3(&xdr, &res) != FALSE;
    const std::int32_t status = decoded ? raw_value(res.fhs_status) : 0;
    if (!decoded || status < 0 || status > NFS3ERR_JUKEBOX) {
        outcome = no_sense(bad("answer to MNT"));
    } else if (status != MNT3_OK) {
        outcome = Outcome::failed(static_cast<nfsstat3>(status));  // the numbers are the same
    } else {
        const mountres3_ok& ok = res.mountres3_u.mountinfo;
        if (!root.assign(ok.fhandle.fhandle3_val, ok.fhandle.fhandle3_len)) {
            outcome = no_sense(bad("empty root handle"));
        } else if (!speaks_sys(ok)) {
            outcome = no_sense(Error{Errc::unsupported, 0, "Kerberos"});
            MountTrouble& trouble = troubles_.emplace_back();
            trouble.step = MountTrouble::Step::kerberos;
            trouble.proto = place_->proto;
        }
    }
    XDR freeing{};
    freeing.x_op = XDR_FREE;
    static_cast<void>(xdr_mountres3(&freeing, &res));
    return outcome;
}

Outcome MountSocket::umnt(const std::string& path) {
    return call(MOUNTPROC3_UMNT, &path);
}

Outcome MountSocket::exports(std::vector<ExportedDirectory>& out) {
    out.clear();
    Outcome outcome = call(MOUNTPROC3_EXPORT, nullptr);
    if (outcome.ok()) outcome.rpc = decode_exports(results_, out);
    return outcome;
}

Outcome MountSocket::dump(std::vector<MountedDirectory>& out) {
    out.clear();
    Outcome outcome = call(MOUNTPROC3_DUMP, nullptr);
    if (outcome.ok()) outcome.rpc = decode_mounts(results_, out);
    return outcome;
}

Outcome MountSocket::call(std::uint32_t proc, const std::string* path) {
    troubles_.clear();
    std::array<std::byte, kArgsMax> room{};
    std::span<const std::byte> args;
    if (path != nullptr) {
        std::string copy = *path;
        mountargs3 what{copy.data()};
        XDR xdr = writer_to(room);
        if (xdr_mountargs3(&xdr, &what) == FALSE) return Outcome::failed(NFS3ERR_NAMETOOLONG);
        args = std::span(room).first(xdr_getpos(&xdr));
    }
    Outcome outcome = Outcome::failed(Error{Errc::unsupported, 0, "no protocol for MOUNT"});
    for (const RpcProto proto : {RpcProto::tcp, RpcProto::udp}) {
        if (place_ && place_->proto != proto) continue;
        if (!(proto == RpcProto::tcp ? options_.tcp : options_.udp)) continue;
        if (call_at(proto, proc, args, outcome)) break;
        if (!outcome.rpc && outcome.rpc.error().code == Errc::closed) break;
    }
    return outcome;
}

bool MountSocket::call_at(RpcProto proto, std::uint32_t proc, std::span<const std::byte> args,
                          Outcome& outcome) {
    MountTrouble trouble;
    trouble.proto = proto;
    const auto give_up = [&](const Error& error) {
        trouble.error = error;
        troubles_.push_back(trouble);
        outcome = Outcome::failed(error);
        return false;
    };
    Result<std::uint16_t> port = find_port(proto, trouble);
    if (!port) return give_up(port.error());
    trouble.step = MountTrouble::Step::call;
    trouble.at = options_.server.with_port(*port);
    Result<RpcSocket> socket = RpcSocket::connect(trouble.at, proto, true, options_.patience);
    if (!socket) return give_up(socket.error());
    const RpcRequest request{MOUNT3_PROGRAM, MOUNT_V3, proc, sys_ ? &*sys_ : nullptr, args};
    Result<RpcAnswer> answer = socket->call(request, options_.patience);
    if (!answer) return give_up(answer.error());
    if (answer->status != sunrpc::RpcStatus::success) {
        trouble.step = MountTrouble::Step::refused;
        trouble.status = answer->status;
        static_cast<void>(give_up(Error{Errc::refused, 0, "MOUNT"}));
        outcome.rpc_status = answer->status;
        const bool other_service = answer->status == sunrpc::RpcStatus::prog_unavail ||
                                   answer->status == sunrpc::RpcStatus::prog_mismatch;
        return !other_service;
    }
    results_.assign(answer->results.begin(), answer->results.end());
    place_ = Place{proto, *port};
    troubles_.clear();
    outcome = Outcome{};
    return true;
}

Result<std::uint16_t> MountSocket::find_port(RpcProto proto, MountTrouble& trouble) {
    if (place_) return place_->port;
    if (options_.port != 0) return options_.port;
    trouble.step = MountTrouble::Step::ask_rpcbind;
    trouble.at = options_.server.with_port(options_.rpcbind_port);
    NR_TRY_ASSIGN(const std::uint16_t port,
                  rpcbind_port_of(trouble.at, proto, MOUNT3_PROGRAM, MOUNT_V3, options_.patience));
    if (port == 0) {
        trouble.step = MountTrouble::Step::not_registered;
        return Error{Errc::refused, 0, "MOUNT is not registered"};
    }
    return port;
}

}  // namespace nfsrdma::nfs::client
