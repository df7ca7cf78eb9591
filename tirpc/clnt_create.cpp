// How a CLIENT is made, and the other functions of tirpc_rdma.h that are a client's.
#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <new>
#include <string>

#include "tirpc/clnt_rdma.hpp"
#include "tirpc/error_text.hpp"
#include "tirpc/options.hpp"
#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::tirpc {
namespace {

constexpr std::size_t kAddressesMax = 8;

struct Addresses {
    std::array<SockAddr, kAddressesMax> list;
    std::size_t count = 0;
};

CLIENT* failed(enum clnt_stat status, int error) noexcept {
    auto& create_error = get_rpc_createerr();
    create_error.cf_stat = status;
    create_error.cf_error = {};
    create_error.cf_error.re_status = status;
    create_error.cf_error.re_errno = error;
    return nullptr;
}

CLIENT* failed(std::string_view step, const Error& error) noexcept {
    set_error_text(step, error);
    return failed(RPC_SYSTEMERROR, errno_of(error));
}

// All addresses of a name: which of them the server listens at is for it to say.
bool resolve(const char* host, std::uint16_t port, Addresses& out) {
    if (auto numeric = SockAddr::parse(host, port); numeric) {
        out.list[out.count++] = *numeric;
        return true;
    }
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int status = ::getaddrinfo(host, nullptr, &hints, &found);
    if (status != 0) {
        set_error_text(std::string(host) + ": " + ::gai_strerror(status));
        return false;
    }
    for (const addrinfo* at = found; at != nullptr && out.count < kAddressesMax; at = at->ai_next) {
        if (at->ai_family == AF_INET || at->ai_family == AF_INET6)
            out.list[out.count++] = SockAddr::from(at->ai_addr).with_port(port);
    }
    ::freeaddrinfo(found);
    if (out.count == 0) set_error_text(std::string(host) + ": no address of IPv4 or IPv6");
    return out.count != 0;
}

CLIENT* connect(const SockAddr& server, rpcprog_t prog, rpcvers_t vers, const Options& options) {
    std::string text;
    auto link = ClntLink::create(server, options, text);
    if (!link) {
        set_error_text(text);
        return failed(RPC_SYSTEMERROR, errno_of(link.error()));
    }
    CLIENT* const made = ClntRdma::create(*std::move(link), server, options, prog, vers);
    if (made == nullptr) return failed("a CLIENT", Error{Errc::system, ENOMEM, "make it"});
    return made;
}

CLIENT* create(const char* host, rpcprog_t prog, rpcvers_t vers, const rpcrdma_opts* opts) {
    auto options = check_options(opts);
    if (!options) return failed("options", options.error());
    if (host == nullptr || *host == 0) {
        set_error_text("no host is named");
        return failed(RPC_UNKNOWNHOST, 0);
    }
    if (options->has(RPCRDMA_RPCBIND)) {
        sockaddr_storage address{};
        // Says in rpc_createerr why not.
        if (rpcb_rdma_getaddr(host, prog, vers, &address) == FALSE) return nullptr;
        const void* const sa = &address;
        return connect(SockAddr::from(static_cast<const sockaddr*>(sa)), prog, vers, *options);
    }
    Addresses addresses;
    if (!resolve(host, options->port, addresses)) return failed(RPC_UNKNOWNHOST, 0);
    CLIENT* made = nullptr;
    for (std::size_t i = 0; made == nullptr && i < addresses.count; ++i)
        made = connect(addresses.list[i], prog, vers, *options);
    return made;
}

CLIENT* create_at(const sockaddr* server, socklen_t length, rpcprog_t prog, rpcvers_t vers,
                  const rpcrdma_opts* opts) {
    auto options = check_options(opts);
    if (!options) return failed("options", options.error());
    const bool v4 =
        server != nullptr && length >= sizeof(sockaddr_in) && server->sa_family == AF_INET;
    const bool v6 =
        server != nullptr && length >= sizeof(sockaddr_in6) && server->sa_family == AF_INET6;
    if (!v4 && !v6) {
        return failed("the server's address",
                      Error{Errc::invalid_argument, EAFNOSUPPORT, "is none of IPv4 or IPv6"});
    }
    return connect(SockAddr::from(server), prog, vers, *options);
}

CLIENT* without_memory() noexcept {
    return failed("a CLIENT", Error{Errc::system, ENOMEM, "make it"});
}

}  // namespace
}  // namespace nfsrdma::tirpc

namespace tirpc = nfsrdma::tirpc;

extern "C" {

CLIENT* clnt_rdma_create(const char* host, rpcprog_t prog, rpcvers_t vers,
                         const struct rpcrdma_opts* opts) {
    try {
        return tirpc::create(host, prog, vers, opts);
    } catch (const std::bad_alloc&) {
        return tirpc::without_memory();
    }
}

CLIENT* clnt_rdma_tli_create(const struct sockaddr* server, socklen_t length, rpcprog_t prog,
                             rpcvers_t vers, const struct rpcrdma_opts* opts) {
    try {
        return tirpc::create_at(server, length, prog, vers, opts);
    } catch (const std::bad_alloc&) {
        return tirpc::without_memory();
    }
}

void* clnt_rdma_alloc(CLIENT* clnt, uint32_t bytes) {
    tirpc::ClntRdma* const self = tirpc::ClntRdma::of(clnt);
    if (self == nullptr) {
        tirpc::set_error_text("clnt_rdma_alloc: this CLIENT is none of RDMA");
        return nullptr;
    }
    return self->alloc(bytes);
}

void clnt_rdma_free(CLIENT* clnt, void* memory) {
    tirpc::ClntRdma* const self = tirpc::ClntRdma::of(clnt);
    if (self != nullptr && memory != nullptr) self->free(memory);
}

}  // extern "C"
