// The server's part of tirpc_rdma.h, and what libtirpc calls of a SVCXPRT: see svc_listener.hpp.
#include <cerrno>
#include <new>
#include <string_view>
#include <system_error>

#include "tirpc/error_text.hpp"
#include "tirpc/svc_listener.hpp"
#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::tirpc {
namespace {

SvcConnection& connection_in(SVCXPRT* xprt) noexcept {
    return *static_cast<SvcConnection*>(xprt->xp_p1);
}
SvcListener& listener_in(SVCXPRT* xprt) noexcept {
    return *static_cast<SvcListener*>(xprt->xp_p1);
}

bool_t receive(SVCXPRT* xprt, rpc_msg* msg) noexcept {
    SvcConnection& connection = connection_in(xprt);
    return connection.listener.receive(connection, *msg) ? TRUE : FALSE;
}
xprt_stat status(SVCXPRT* xprt) noexcept {
    SvcConnection& connection = connection_in(xprt);
    return connection.listener.status(connection);
}
bool_t get_args(SVCXPRT* xprt, xdrproc_t xdr_args, void* args) noexcept {
    return connection_in(xprt).request.get_args(SVC_XP_AUTH(xprt), xdr_args, args) ? TRUE : FALSE;
}
bool_t reply(SVCXPRT* xprt, rpc_msg* msg) noexcept {
    return connection_in(xprt).request.reply(SVC_XP_AUTH(xprt), *msg) ? TRUE : FALSE;
}
// TRUE whatever happens: what rpcgen made ends the process otherwise.
bool_t free_args(SVCXPRT* xprt, xdrproc_t xdr_args, void* args) noexcept {
    connection_in(xprt).request.free_args(xdr_args, args);
    return TRUE;
}
void destroy(SVCXPRT* xprt) noexcept {
    SvcConnection& connection = connection_in(xprt);
    connection.listener.destroy(connection);
}

bool_t accept(SVCXPRT* xprt, rpc_msg* /*msg*/) noexcept {
    listener_in(xprt).accept();
    return FALSE;
}
xprt_stat listener_status(SVCXPRT* /*xprt*/) noexcept {
    return XPRT_IDLE;
}
bool_t no_args(SVCXPRT* /*xprt*/, xdrproc_t /*xdr_args*/, void* /*args*/) noexcept {
    return FALSE;
}
bool_t no_reply(SVCXPRT* /*xprt*/, rpc_msg* /*msg*/) noexcept {
    return FALSE;
}
void destroy_listener(SVCXPRT* xprt) noexcept {
    SvcListener::destroy(std::unique_ptr<SvcListener>(&listener_in(xprt)));
}

bool_t control(SVCXPRT* xprt, u_int request, void* info) noexcept {
    SvcListener* const listener = SvcListener::of(*xprt);
    if (listener == nullptr || info == nullptr) return FALSE;
    switch (request) {
        case SVCGET_VERSQUIET:
            *static_cast<int*>(info) = version_keepquiet(xprt);
            return TRUE;
        case SVCSET_VERSQUIET:
            if (*static_cast<const int*>(info) != 0) {
                svc_flags(xprt) |= SVC_VERSQUIET;
            } else {
                svc_flags(xprt) &= ~SVC_VERSQUIET;
            }
            return TRUE;
        case SVCGET_CONNMAXREC:
            *static_cast<int*>(info) = static_cast<int>(listener->max_message());
            return TRUE;
        case SVCRDMA_GET_STATS:
            listener->get_stats(*static_cast<rpcrdma_stats*>(info));
            return TRUE;
        default:  // SVCSET_CONNMAXREC, too: pools are sized when the listener is made
            return FALSE;
    }
}

constexpr XprtOps kConnectionOps{receive, status, get_args, reply, free_args, destroy};
constexpr XprtOps kListenerOps{accept,   listener_status, no_args,
                               no_reply, no_args,         destroy_listener};
constexpr XprtOps2 kControlOps{control};

Result<SVCXPRT*> create(const char* address, const rpcrdma_opts* opts) {
    NR_TRY_ASSIGN(const Options options, check_options(opts));
    const std::string_view text = address == nullptr ? "" : address;
    NR_TRY_ASSIGN(const SockAddr local,
                  text.empty() ? Result<SockAddr>(SockAddr::v4(INADDR_ANY, RPCRDMA_PORT))
                               : SockAddr::parse(text, RPCRDMA_PORT));
    NR_TRY_ASSIGN(std::unique_ptr<SvcListener> listener, SvcListener::create(local, options));
    return SvcListener::hand_over(std::move(listener));
}

}  // namespace

const XprtOps& listener_ops() noexcept {
    return kListenerOps;
}
const XprtOps& connection_ops() noexcept {
    return kConnectionOps;
}
const XprtOps2& control_ops() noexcept {
    return kControlOps;
}

}  // namespace nfsrdma::tirpc

namespace tirpc = nfsrdma::tirpc;

SVCXPRT* svc_rdma_create(const char* address, const struct rpcrdma_opts* opts) {
    nfsrdma::Error error;
    try {
        auto made = tirpc::create(address, opts);
        if (made) return *made;
        error = made.error();
    } catch (const std::bad_alloc&) {
        error = {nfsrdma::Errc::system, ENOMEM, "out of memory"};
    }
    tirpc::set_error_text("svc_rdma_create", error);
    errno = tirpc::errno_of(error);
    return nullptr;
}

void svc_rdma_wake(SVCXPRT* xprt) {
    tirpc::SvcListener* const listener = tirpc::SvcListener::of(*xprt);
    if (listener != nullptr) listener->wake_poll();
}

void* svc_rdma_alloc(SVCXPRT* xprt, uint32_t bytes) {
    tirpc::SvcConnection* const connection = tirpc::SvcListener::connection_of(*xprt);
    return connection == nullptr ? nullptr : connection->request.alloc(bytes);
}
