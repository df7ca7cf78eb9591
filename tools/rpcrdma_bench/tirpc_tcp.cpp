#include "tools/rpcrdma_bench/tirpc_tcp.hpp"

#include <chrono>
#include <cstdio>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rpc/rpc.h>

#include "base/sock_addr.hpp"

namespace nfsrdma::bench {
namespace {

constexpr rpcprog_t kProgram = 0x20000099;
constexpr rpcvers_t kVersion = 1;

// xdr_void with the type that libtirpc calls it by.
bool_t xdr_nothing(XDR*, ...) {
    return TRUE;
}

void dispatch(svc_req* request, SVCXPRT* xprt) {
    if (request->rq_proc != 0) {
        svcerr_noproc(xprt);
        return;
    }
    svc_sendreply(xprt, xdr_nothing, nullptr);
}

int open_tcp() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

}  // namespace

int serve_tirpc_tcp(const std::string& address) {
    auto local = SockAddr::parse(address, 0);
    const int fd = local ? open_tcp() : -1;
    if (fd < 0 || bind(fd, local->sa(), local->sa_len()) != 0 || listen(fd, 8) != 0) return 1;
    SVCXPRT* xprt = svc_vc_create(fd, 0, 0);
    if (xprt == nullptr || !svc_reg(xprt, kProgram, kVersion, dispatch, nullptr)) return 1;
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    sockaddr* any = static_cast<sockaddr*>(static_cast<void*>(&bound));
    getsockname(fd, any, &length);
    (void)std::printf("%d\n", SockAddr::from(any).port());
    (void)std::fflush(stdout);
    svc_run();
    return 1;
}

TirpcTcpClient::TirpcTcpClient(const std::string& address, int port) {
    auto peer = SockAddr::parse(address, static_cast<std::uint16_t>(port));
    const int fd = peer ? open_tcp() : -1;
    if (fd < 0 || connect(fd, peer->sa(), peer->sa_len()) != 0) {
        if (fd >= 0) close(fd);
        return;
    }
    netbuf server{sizeof(sockaddr_in), peer->sa_len(), const_cast<sockaddr*>(peer->sa())};
    CLIENT* client = clnt_vc_create(fd, &server, kProgram, kVersion, 0, 0);
    if (client != nullptr) clnt_control(client, CLSET_FD_CLOSE, nullptr);
    client_ = client;
}

TirpcTcpClient::~TirpcTcpClient() {
    if (client_ != nullptr) clnt_destroy(static_cast<CLIENT*>(client_));
}

double TirpcTcpClient::round_trip(double seconds) const {
    if (client_ == nullptr) return -1;
    auto* client = static_cast<CLIENT*>(client_);
    const timeval timeout{5, 0};
    const auto start = std::chrono::steady_clock::now();
    long calls = 0;
    double elapsed = 0;
    while (elapsed < seconds) {
        for (int i = 0; i < 32; ++i) {
            if (clnt_call(client, 0, xdr_nothing, nullptr, xdr_nothing, nullptr, timeout) !=
                RPC_SUCCESS) {
                return -1;
            }
        }
        calls += 32;
        elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return elapsed / static_cast<double>(calls);
}

}  // namespace nfsrdma::bench
