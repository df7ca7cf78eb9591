// rpcbind, as tirpc/tirpc_rdma.h has it.
#include <cerrno>
#include <cstring>
#include <new>
#include <string>

#include "sunrpc/rpcbind.hpp"
#include "tirpc/error_text.hpp"
#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::tirpc {
namespace {

const char* netid_of(const SockAddr& address) noexcept {
    return address.is_v6() ? "rdma6" : "rdma";
}

bool_t fail_with(int error, const Error& why) noexcept {
    set_error_text("rpcbind", why);
    errno = error;
    return FALSE;
}

bool_t set(std::uint32_t prog, std::uint32_t vers, const SVCXPRT* listener) {
    constexpr Error kNoListener{Errc::invalid_argument, 0, "not a listener"};
    if (listener == nullptr || listener->xp_ltaddr.buf == nullptr ||
        listener->xp_ltaddr.len < sizeof(sockaddr_in))
        return fail_with(EINVAL, kNoListener);
    SockAddr local = SockAddr::from(static_cast<const sockaddr*>(listener->xp_ltaddr.buf));
    if (!local.is_v4() && !local.is_v6()) return fail_with(EINVAL, kNoListener);
    if (local.port() == 0) local = local.with_port(listener->xp_port);
    auto done =
        sunrpc::change_rpcbind(sunrpc::kRpcbindSocket, sunrpc::RpcbindChange::set,
                               {prog, vers, netid_of(local), sunrpc::universal_address(local)});
    if (!done) return fail_with(errno_of(done.error()), done.error());
    if (!*done) return fail_with(EADDRINUSE, {Errc::refused, 0, "another address is registered"});
    return TRUE;
}

bool_t unset(std::uint32_t prog, std::uint32_t vers) {
    bool refused = false;
    for (const char* const netid : {"rdma", "rdma6"}) {
        auto done = sunrpc::change_rpcbind(sunrpc::kRpcbindSocket, sunrpc::RpcbindChange::unset,
                                           {prog, vers, netid, ""});
        if (!done) return fail_with(errno_of(done.error()), done.error());
        refused = refused || !*done;
    }
    // It does not mind that there is nothing to take back.
    if (refused) return fail_with(EPERM, {Errc::refused, 0, "another user registered it"});
    return TRUE;
}

bool_t fail_create(clnt_stat status, const Error& why) noexcept {
    set_error_text("rpcbind", why);
    auto& reason = get_rpc_createerr();
    reason.cf_stat = status;
    // What clnt_pcreateerror prints beside RPC_RPCBFAILURE.
    reason.cf_error.re_status = status == RPC_RPCBFAILURE ? RPC_SYSTEMERROR : status;
    reason.cf_error.re_errno = errno_of(why);
    return FALSE;
}

bool_t getaddr(const char* host, std::uint32_t prog, std::uint32_t vers,
               sockaddr_storage& address) {
    auto server = SockAddr::resolve(host, sunrpc::kRpcbindPort);
    if (!server) return fail_create(RPC_UNKNOWNHOST, server.error());
    const SockAddr rpcbind = server->with_port(sunrpc::kRpcbindPort);
    auto found = sunrpc::ask_rpcbind(rpcbind, prog, vers, netid_of(rpcbind));
    if (!found) {
        const bool unknown = found.error().code == Errc::refused;
        return fail_create(unknown ? RPC_PROGNOTREGISTERED : RPC_RPCBFAILURE, found.error());
    }
    address = {};
    std::memcpy(&address, found->sa(), found->sa_len());
    return TRUE;
}

}  // namespace
}  // namespace nfsrdma::tirpc

extern "C" bool_t rpcb_rdma_set(rpcprog_t prog, rpcvers_t vers, const SVCXPRT* listener) {
    try {
        return nfsrdma::tirpc::set(prog, vers, listener);
    } catch (const std::bad_alloc&) {
        return nfsrdma::tirpc::fail_with(ENOMEM, {nfsrdma::Errc::system, ENOMEM, "memory"});
    }
}

extern "C" bool_t rpcb_rdma_unset(rpcprog_t prog, rpcvers_t vers) {
    try {
        return nfsrdma::tirpc::unset(prog, vers);
    } catch (const std::bad_alloc&) {
        return nfsrdma::tirpc::fail_with(ENOMEM, {nfsrdma::Errc::system, ENOMEM, "memory"});
    }
}

extern "C" bool_t rpcb_rdma_getaddr(const char* host, rpcprog_t prog, rpcvers_t vers,
                                    struct sockaddr_storage* address) {
    constexpr nfsrdma::Error kNoMemory{nfsrdma::Errc::system, ENOMEM, "memory"};
    if (host == nullptr || address == nullptr) {
        constexpr nfsrdma::Error kNothing{nfsrdma::Errc::invalid_argument, 0,
                                          "no host, or no room for its address"};
        return nfsrdma::tirpc::fail_create(RPC_UNKNOWNHOST, kNothing);
    }
    try {
        return nfsrdma::tirpc::getaddr(host, prog, vers, *address);
    } catch (const std::bad_alloc&) {
        return nfsrdma::tirpc::fail_create(RPC_RPCBFAILURE, kNoMemory);
    }
}
