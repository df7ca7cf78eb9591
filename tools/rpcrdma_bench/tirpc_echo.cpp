#include "tools/rpcrdma_bench/tirpc_echo.hpp"

#include <array>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rpc/rpc.h>

#include "base/sock_addr.hpp"
#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::bench {
namespace {

constexpr rpcprog_t kProgram = 0x2000009A, kNoTableProgram = 0x2000009B;
constexpr rpcvers_t kVersion = 1;
constexpr rpcproc_t kNull = 0, kEcho = 1;
constexpr u_int kBytesMax = 1u << 20;
constexpr std::uint32_t kHeadersMax = 1u << 16;  // beside the item, of a message that goes whole

// What rpcgen makes of `typedef opaque blob<1048576>`.
struct Blob {
    u_int length;
    char* value;
};
bool_t xdr_blob_of(XDR* xdr, Blob* blob) {
    return xdr_bytes(xdr, &blob->value, &blob->length, kBytesMax);
}

const xdrproc_t kXdrBlob = std::bit_cast<xdrproc_t>(&xdr_blob_of);
const xdrproc_t kXdrVoid = std::bit_cast<xdrproc_t>(&xdr_void);
char* object(Blob& blob) {
    return static_cast<char*>(static_cast<void*>(&blob));
}

std::uint32_t item_max(const void* args) {
    return static_cast<const Blob*>(args)->length;
}
std::uint32_t rest_max(const void* /*args*/) {
    return 16;
}

rpcprog_t program_of(EchoWay way) {
    return way == EchoWay::rdma_whole ? kNoTableProgram : kProgram;
}

bool register_table() {
    static const std::array<rpcrdma_proc, 1> procs = {
        {{kEcho, RPCRDMA_DDP_IN_PLACE(Blob, value), RPCRDMA_DDP_IN_PLACE(Blob, value), item_max,
          rest_max}}};
    const rpcrdma_ulb ulb RPCRDMA_ULB(kProgram, kVersion, procs.size(), procs.data());
    const int failed = rpcrdma_ulb_register(&ulb);
    return failed == 0 || failed == EEXIST;
}

void dispatch(svc_req* request, SVCXPRT* xprt) {
    if (request->rq_proc == kNull) {
        svc_sendreply(xprt, kXdrVoid, nullptr);
        return;
    }
    if (request->rq_proc != kEcho) return svcerr_noproc(xprt);
    Blob blob{};
    if (svc_getargs(xprt, kXdrBlob, object(blob)) == FALSE) return svcerr_decode(xprt);
    if (svc_sendreply(xprt, kXdrBlob, object(blob)) == FALSE) svcerr_systemerr(xprt);
    static_cast<void>(svc_freeargs(xprt, kXdrBlob, object(blob)));
}

int open_tcp() {
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

SVCXPRT* listen_tcp(const std::string& address, int& port) {
    auto local = SockAddr::parse(address, 0);
    const int fd = local ? open_tcp() : -1;
    if (fd < 0 || bind(fd, local->sa(), local->sa_len()) != 0 || listen(fd, 8) != 0) return nullptr;
    sockaddr_in bound{};
    socklen_t length = sizeof bound;
    sockaddr* any = static_cast<sockaddr*>(static_cast<void*>(&bound));
    getsockname(fd, any, &length);
    port = SockAddr::from(any).port();
    return svc_vc_create(fd, 0, 0);
}

CLIENT* connect_tcp(const std::string& address, int port) {
    auto peer = SockAddr::parse(address, static_cast<std::uint16_t>(port));
    const int fd = peer ? open_tcp() : -1;
    if (fd < 0 || connect(fd, peer->sa(), peer->sa_len()) != 0) {
        if (fd >= 0) close(fd);
        return nullptr;
    }
    netbuf server{sizeof(sockaddr_in), peer->sa_len(), const_cast<sockaddr*>(peer->sa())};
    CLIENT* const client = clnt_vc_create(fd, &server, kProgram, kVersion, 0, 0);
    if (client != nullptr) clnt_control(client, CLSET_FD_CLOSE, nullptr);
    return client;
}

rpcrdma_opts rdma_options(EchoWay way) {
    rpcrdma_opts options = RPCRDMA_OPTS_INIT;
    if (way == EchoWay::rdma_zero_copy) options.flags = RPCRDMA_ZERO_COPY;
    if (way == EchoWay::rdma_whole) options.max_message = kBytesMax + kHeadersMax;
    return options;
}

SVCXPRT* listen_rdma(EchoWay way, const std::string& address, int& port) {
    const rpcrdma_opts options = rdma_options(way);
    SVCXPRT* const xprt = svc_rdma_create((address + ":0").c_str(), &options);
    if (xprt != nullptr) port = xprt->xp_port;
    return xprt;
}

}  // namespace

int serve_echo(EchoWay way, const std::string& address) {
    int port = 0;
    if (!register_table()) return 1;
    SVCXPRT* const xprt =
        way == EchoWay::tcp ? listen_tcp(address, port) : listen_rdma(way, address, port);
    if (xprt == nullptr || !svc_reg(xprt, program_of(way), kVersion, dispatch, nullptr)) {
        (void)std::fprintf(stderr, "rpcrdma-bench: no listener; %s\n", rpcrdma_strerror());
        return 1;
    }
    (void)std::printf("%d\n", port);
    (void)std::fflush(stdout);
    svc_run();
    return 1;
}

EchoClient::EchoClient(EchoWay way, const std::string& address, int port, const std::string& local)
    : zero_copy_(way == EchoWay::rdma_zero_copy), data_(kBytesMax) {
    for (std::size_t i = 0; i < data_.size(); ++i)
        data_[i] = static_cast<char>(i * 7 + i / 251);
    if (way == EchoWay::tcp) {
        client_ = connect_tcp(address, port);
        return;
    }
    rpcrdma_opts options = rdma_options(way);
    options.bind = local.c_str();
    options.port = static_cast<std::uint16_t>(port);
    if (register_table())
        client_ = clnt_rdma_create(address.c_str(), program_of(way), kVersion, &options);
    if (client_ == nullptr)
        (void)std::fprintf(stderr, "rpcrdma-bench: no connection; %s\n", rpcrdma_strerror());
}

EchoClient::~EchoClient() {
    auto* const client = static_cast<CLIENT*>(client_);
    if (client == nullptr) return;
    auth_destroy(client->cl_auth);
    clnt_destroy(client);
}

bool EchoClient::call(std::uint32_t bytes, bool all) {
    auto* const client = static_cast<CLIENT*>(client_);
    const timeval timeout{10, 0};
    if (bytes == 0) {
        return clnt_call(client, kNull, kXdrVoid, nullptr, kXdrVoid, nullptr, timeout) ==
               RPC_SUCCESS;
    }
    Blob args{bytes, data_.data()}, results{};
    void* const lent = zero_copy_ ? clnt_rdma_alloc(client, bytes) : nullptr;
    if (lent != nullptr) {
        // What a program would make there itself.
        args.value = static_cast<char*>(lent);
        args.value[0] = data_[0];
        args.value[bytes - 1] = data_[bytes - 1];
        if (all) std::memcpy(lent, data_.data(), bytes);
    }
    const bool answered = clnt_call(client, kEcho, kXdrBlob, object(args), kXdrBlob,
                                    object(results), timeout) == RPC_SUCCESS;
    const bool same = answered && results.length == bytes && results.value[0] == data_[0] &&
                      results.value[bytes - 1] == data_[bytes - 1] &&
                      (!all || std::memcmp(results.value, data_.data(), bytes) == 0);
    if (answered) clnt_freeres(client, kXdrBlob, object(results));
    if (lent != nullptr) clnt_rdma_free(client, lent);
    return same;
}

double EchoClient::rate(std::uint32_t bytes, double seconds) {
    if (client_ == nullptr || bytes > kBytesMax || !call(bytes, true)) return -1;
    const auto start = std::chrono::steady_clock::now();
    const int batch = bytes == 0 ? 32 : 2;
    long calls = 0;
    double elapsed = 0;
    while (elapsed < seconds) {
        for (int i = 0; i < batch; ++i) {
            if (!call(bytes, false)) return -1;
        }
        calls += batch;
        elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    return static_cast<double>(calls) / elapsed;
}

}  // namespace nfsrdma::bench
