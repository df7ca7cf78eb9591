#include "tools/nfsrdmad/rpcbind.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <memory>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rpc/rpc.h>
#include <rpc/rpcb_prot.h>

#include "base/unique_fd.hpp"

// libtirpc's own rpcb_set knows only the transports that it was built with: it refuses "rdma". So
// the call is made here, over rpcbind's local socket, which tells it who we are.
namespace nfsrdma::nfsrdmad {
namespace {

struct DestroyClient {
    void operator()(CLIENT* client) const noexcept { clnt_destroy(client); }
};

// As libtirpc wants them.
bool_t encode_entry(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    rpcb* const object = va_arg(list, rpcb*);
    va_end(list);
    return xdr_rpcb(xdr, object);
}
bool_t decode_flag(XDR* xdr, ...) {
    va_list list;
    va_start(list, xdr);
    bool_t* const object = va_arg(list, bool_t*);
    va_end(list);
    return xdr_bool(xdr, object);
}

Result<UniqueFd> connect_to(const std::string& path) {
    sockaddr_un local{};
    local.sun_family = AF_UNIX;
    if (path.size() >= sizeof local.sun_path)
        return Error{Errc::invalid_argument, 0, "the path of rpcbind's socket is too long"};
    std::memcpy(local.sun_path, path.c_str(), path.size() + 1);
    UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), static_cast<const sockaddr*>(static_cast<const void*>(&local)),
                         sizeof local) != 0)
        return Error{Errc::system, errno, "connect to rpcbind"};
    return fd;
}

}  // namespace

std::string universal_address(const SockAddr& address) {
    return address.address_to_string() + '.' + std::to_string(address.port() >> 8) + '.' +
           std::to_string(address.port() & 0xFF);
}

Result<bool> Rpcbind::call(Change change, Entry& entry) noexcept {
    NR_TRY_ASSIGN(UniqueFd fd, connect_to(socket_));
    netbuf nowhere{};  // it is connected already
    const std::unique_ptr<CLIENT, DestroyClient> client(
        clnt_vc_create(fd.get(), &nowhere, RPCBPROG, RPCBVERS, 0, 0));
    if (client == nullptr) return Error{Errc::system, EPROTO, "talk to rpcbind"};
    std::string owner = std::to_string(::geteuid());
    rpcb what{};
    what.r_prog = entry.prog;
    what.r_vers = entry.vers;
    what.r_netid = entry.netid.data();
    what.r_addr = entry.address.data();
    what.r_owner = owner.data();
    bool_t done = FALSE;
    const rpcproc_t proc = change == Change::set ? RPCBPROC_SET : RPCBPROC_UNSET;
    constexpr timeval kPatience{5, 0};
    CLIENT* const rpc = client.get();
    const clnt_stat status =
        rpc->cl_ops->cl_call(rpc, proc, encode_entry, &what, decode_flag, &done, kPatience);
    if (status != RPC_SUCCESS) return Error{Errc::system, EPROTO, "a call of rpcbind"};
    return done != FALSE;
}

Result<void> Rpcbind::add(std::uint32_t prog, std::uint32_t vers, const std::string& netid,
                          const SockAddr& address) {
    Entry entry{prog, vers, netid, universal_address(address)};
    NR_TRY_ASSIGN(const bool done, call(Change::set, entry));
    if (!done) {
        return Error{Errc::refused, 0,
                     "rpcbind refuses: another server is registered, or only root may"};
    }
    entries_.push_back(std::move(entry));
    return {};
}

void Rpcbind::remove_all() noexcept {
    // One that cannot be taken back is of a rpcbind that has gone, and its list with it.
    for (Entry& entry : entries_)
        static_cast<void>(call(Change::unset, entry));
    entries_.clear();
}

}  // namespace nfsrdma::nfsrdmad
