// RPCSEC_GSS (RFC 2203) with the program of tests/tirpc/testprog.x: the work of tirpc_gss.sh.
//   nfsrdma_tirpc_gss serve ADDRESS SERVICE@HOST table|whole
//   nfsrdma_tirpc_gss call tcp|rdma ADDRESS PORT SERVICE@HOST none|integrity|privacy|sys
//   table|whole nfsrdma_tirpc_gss refused ADDRESS PORT SERVICE@HOST
//   nfsrdma_tirpc_gss abandon ADDRESS PORT SERVICE@HOST
// `table`: the items of the program are placed by RDMA where that is allowed; `whole`: there is no
// table of them. `call` writes one line for each call, the same over every transport and under
// every service, and checks by the transport's own counts what went by RDMA, and how.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <rpc/rpc.h>
#include <rpc/rpcsec_gss.h>

#include "base/bytes.hpp"
#include "base/sock_addr.hpp"
#include "testprog.h"
#include "tirpc/tirpc_rdma.h"

namespace {

using nfsrdma::as_chars;

constexpr std::uint32_t kRoom = MAXIO + (64u << 10);  // of a message
constexpr const char* kMechanism = "kerberos_v5";
// Around the inline threshold and sizes of pages, up to the largest.
constexpr std::array<std::uint32_t, 24> kSizes = {
    0,    1,    3,    4,    5,    100,   1000,  2900,  3600,   3900,    3999,    4000,
    4001, 4095, 4096, 4097, 8191, 65535, 65536, 65537, 262143, 1048576, 1048577, MAXIO};
// libtirpc's stream over TCP does not unwrap more than its buffer has in one piece.
constexpr std::uint32_t kWrappedByTcpMax = 65537;
// Items of this size are placed for sure where they may be; shorter ones may be in line.
constexpr std::uint32_t kSurelyPlaced = 8191;

[[noreturn]] void die(const std::string& why) {
    std::fprintf(stderr, "nfsrdma_tirpc_gss: %s; %s\n", why.c_str(), rpcrdma_strerror());
    std::exit(1);
}

template <class T>
xdrproc_t routine(bool_t (*typed)(XDR*, T*)) {
    return std::bit_cast<xdrproc_t>(typed);
}
template <class T>
char* object(T* at) {
    return static_cast<char*>(static_cast<void*>(at));
}

std::vector<char> pattern(std::uint32_t bytes, std::uint32_t seed) {
    std::vector<char> data(bytes + 1);  // a pointer for no bytes, too
    for (std::uint32_t i = 0; i < bytes; ++i)
        data[i] = static_cast<char>((i * 131 + seed * 17 + (i >> 8)) & 0xFF);
    return data;
}

std::uint64_t digest(const char* data, std::size_t bytes) {
    std::uint64_t sum = 14695981039346656037u;  // FNV-1a
    for (std::size_t i = 0; i < bytes; ++i)
        sum = (sum ^ static_cast<unsigned char>(data[i])) * 1099511628211u;
    return sum;
}

void register_table() {
    static const std::array<rpcrdma_proc, 3> procs = {{
        {T_WRITE, RPCRDMA_DDP(wargs, data.data_val), RPCRDMA_NO_DDP, nullptr,
         [](const void*) -> std::uint32_t { return 256; }},
        {T_READ, RPCRDMA_NO_DDP, RPCRDMA_DDP(rres, rres_u.resok.data.data_val),
         [](const void* args) -> std::uint32_t { return static_cast<const rargs*>(args)->count; },
         [](const void*) -> std::uint32_t { return 256; }},
        {T_ECHO, RPCRDMA_DDP(blob, blob_val), RPCRDMA_DDP(blob, blob_val),
         [](const void* args) -> std::uint32_t { return static_cast<const blob*>(args)->blob_len; },
         [](const void*) -> std::uint32_t { return 64; }},
    }};
    const rpcrdma_ulb ulb RPCRDMA_ULB(TESTPROG, TESTVERS, procs.size(), procs.data());
    if (rpcrdma_ulb_register(&ulb) != 0) die("the table is refused");
}

rpcrdma_opts make_opts() {
    rpcrdma_opts opts = RPCRDMA_OPTS_INIT;
    opts.max_payload = MAXIO;
    opts.max_message = kRoom;
    return opts;
}

// ---- the server

// An exported name of RFC 2743 s3.2: what follows its mechanism and its length.
std::string text_of(const rpc_gss_principal_t principal) {
    const std::string_view token(principal->name, static_cast<std::size_t>(principal->len));
    if (token.size() < 4 || token[0] != 4) return std::string(token);
    const std::size_t mechanism =
        nfsrdma::load_be16(nfsrdma::as_bytes(principal->name) + 2) + std::size_t{8};
    return mechanism > token.size() ? std::string() : std::string(token.substr(mechanism));
}

void answer_who(svc_req* rqst, SVCXPRT* xprt) {
    std::string name;
    whoami res{};
    res.flavor = static_cast<u_int>(rqst->rq_cred.oa_flavor);
    rpc_gss_rawcred_t* raw = nullptr;
    if (res.flavor == RPCSEC_GSS && rpc_gss_getcred(rqst, &raw, nullptr, nullptr) != FALSE &&
        raw != nullptr && raw->client_principal != nullptr) {
        name = text_of(raw->client_principal);
        res.uid = static_cast<u_int>(raw->service);
    }
    res.machine = name.data();
    svc_sendreply(xprt, routine(&xdr_whoami), object(&res));
}

template <class Args, class Res>
void answer(SVCXPRT* xprt, bool_t (*xdr_args)(XDR*, Args*), bool_t (*xdr_res)(XDR*, Res*),
            void (*body)(Args&, Res&)) {
    Args args{};
    Res res{};
    if (svc_getargs(xprt, routine(xdr_args), object(&args)) == FALSE) return svcerr_decode(xprt);
    body(args, res);
    if (svc_sendreply(xprt, routine(xdr_res), object(&res)) == FALSE) svcerr_systemerr(xprt);
    static_cast<void>(svc_freeargs(xprt, routine(xdr_args), object(&args)));
}

void echo(blob& args, blob& res) {
    res = args;
}
void write(wargs& args, wres& res) {
    res.status = ST_OK;
    res.wres_u.resok.count = args.data.data_len;
    nfsrdma::store_be64(nfsrdma::as_bytes(&res.wres_u.resok.verf[0]),
                        digest(args.data.data_val, args.data.data_len));
}
std::vector<char> read_data;
void read(rargs& args, rres& res) {
    res.status = args.count <= MAXIO ? ST_OK : ST_ERR;
    if (res.status != ST_OK) return;
    read_data = pattern(args.count, static_cast<std::uint32_t>(args.offset));
    res.rres_u.resok.count = args.count;
    res.rres_u.resok.data = {args.count, read_data.data()};
}

void dispatch(svc_req* rqst, SVCXPRT* xprt) {
    switch (rqst->rq_proc) {
        case T_NULL:
            svc_sendreply(xprt, std::bit_cast<xdrproc_t>(&xdr_void), nullptr);
            return;
        case T_WHO:
            return answer_who(rqst, xprt);
        case T_WRITE:
            return answer<wargs, wres>(xprt, xdr_wargs, xdr_wres, write);
        case T_READ:
            return answer<rargs, rres>(xprt, xdr_rargs, xdr_rres, read);
        case T_ECHO:
        case T_LONG:
            return answer<blob, blob>(xprt, xdr_blob, xdr_blob, echo);
        default:
            return svcerr_noproc(xprt);
    }
}

SVCXPRT* make_tcp(const char* address, std::uint16_t& port) {
    auto where = nfsrdma::SockAddr::parse(address, 0);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!where || fd < 0 || ::bind(fd, where->sa(), where->sa_len()) != 0 || ::listen(fd, 8) != 0)
        die("listen to TCP");
    sockaddr_in own{};
    socklen_t length = sizeof own;
    ::getsockname(fd, static_cast<sockaddr*>(static_cast<void*>(&own)), &length);
    port = ntohs(own.sin_port);
    return svc_vc_create(fd, 2 * kRoom, 2 * kRoom);
}

int serve(const char* address, char* service) {
    std::array<char, 32> mechanism{};
    std::strcpy(mechanism.data(), kMechanism);
    const rpcrdma_opts opts = make_opts();
    std::uint16_t port = 0;
    SVCXPRT* const tcp = make_tcp(address, port);
    SVCXPRT* const rdma = svc_rdma_create((std::string(address) + ":0").c_str(), &opts);
    if (tcp == nullptr || rdma == nullptr) die("make the listeners");
    if (rpc_gss_set_svc_name(service, mechanism.data(), 0, TESTPROG, TESTVERS) == FALSE)
        die("rpc_gss_set_svc_name");
    for (SVCXPRT* const xprt : {tcp, rdma}) {
        if (svc_reg(xprt, TESTPROG, TESTVERS, dispatch, nullptr) == FALSE) die("svc_reg");
    }
    std::printf("serving at TCP port %u and RDMA port %u\n", unsigned{port}, rdma->xp_port);
    std::fflush(stdout);
    svc_run();
    return 1;
}

// ---- the client

int failures = 0;

void expect(bool good, const std::string& what) {
    if (good) return;
    std::fprintf(stderr, "FAILED: %s\n", what.c_str());
    ++failures;
}

struct Way {
    bool rdma = false, table = false;
    rpc_gss_service_t service = rpcsec_gss_svc_default;  // AUTH_NONE
    bool wrapped() const { return service > rpcsec_gss_svc_none; }
};

CLIENT* connect(const Way& way, const char* address, std::uint16_t port) {
    if (way.rdma) {
        rpcrdma_opts opts = make_opts();
        opts.port = port;
        return clnt_rdma_create(address, TESTPROG, TESTVERS, &opts);
    }
    auto where = nfsrdma::SockAddr::parse(address, port);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!where || fd < 0 || ::connect(fd, where->sa(), where->sa_len()) != 0) die("connect by TCP");
    sockaddr_storage to{};
    std::memcpy(&to, where->sa(), where->sa_len());
    netbuf server{sizeof to, where->sa_len(), &to};
    CLIENT* const made = clnt_vc_create(fd, &server, TESTPROG, TESTVERS, 2 * kRoom, 2 * kRoom);
    if (made != nullptr) clnt_control(made, CLSET_FD_CLOSE, nullptr);
    return made;
}

AUTH* make_auth(CLIENT* clnt, char* service_name, rpc_gss_service_t service) {
    std::array<char, 32> mechanism{};
    std::strcpy(mechanism.data(), kMechanism);
    return rpc_gss_seccreate(clnt, service_name, mechanism.data(), service, nullptr, nullptr,
                             nullptr);
}

rpcrdma_stats stats_of(CLIENT* clnt) {
    rpcrdma_stats stats{};
    stats.size = sizeof stats;
    if (clnt_control(clnt, CLRDMA_GET_STATS, object(&stats)) == FALSE) die("CLRDMA_GET_STATS");
    return stats;
}

// What may be placed goes apart, but under none other than service none; all else that is long goes
// whole.
void check_placement(const Way& way, const std::string& what, const rpcrdma_stats& before,
                     const rpcrdma_stats& after, bool args_item, bool res_item) {
    const bool may = way.table && !way.wrapped();
    expect((after.read_chunk_calls > before.read_chunk_calls) == (may && args_item),
           what + ": its argument by a Read chunk");
    expect((after.write_chunk_calls > before.write_chunk_calls) == (may && res_item),
           what + ": its result by a Write chunk");
    if (!may) {
        expect(after.payload_copied_bytes == before.payload_copied_bytes,
               what + ": nothing is an item");
        expect((after.long_calls > before.long_calls) == args_item, what + ": a long call");
        expect(after.reply_chunk_calls > before.reply_chunk_calls || !res_item,
               what + ": a long reply");
    }
}

void tell(CLIENT* clnt, const std::string& what, clnt_stat status, std::uint64_t sum) {
    if (status != RPC_SUCCESS) {
        std::fprintf(stderr, "%s; %s\n", clnt_sperror(clnt, what.c_str()), rpcrdma_strerror());
        ++failures;
    }
    std::printf("%s: %d %016llx\n", what.c_str(), static_cast<int>(status),
                static_cast<unsigned long long>(sum));
}

void call_blob(CLIENT* clnt, const Way& way, bool named, std::uint32_t bytes) {
    const std::string what = (named ? "echo " : "long ") + std::to_string(bytes);
    std::vector<char> data = pattern(bytes, bytes);
    blob args{bytes, data.data()}, res{};
    const rpcrdma_stats before = way.rdma ? stats_of(clnt) : rpcrdma_stats{};
    const clnt_stat status = named ? t_echo_3(&args, &res, clnt) : t_long_3(&args, &res, clnt);
    tell(clnt, what, status, digest(res.blob_val, res.blob_len));
    expect(res.blob_len == bytes && std::equal(data.begin(), data.end() - 1, res.blob_val),
           what + ": the same bytes");
    const Way as_named{way.rdma, way.table && named, way.service};
    if (way.rdma && bytes >= kSurelyPlaced)
        check_placement(as_named, what, before, stats_of(clnt), true, true);
    clnt_freeres(clnt, routine(&xdr_blob), object(&res));
}

void call_write(CLIENT* clnt, const Way& way, std::uint32_t bytes) {
    const std::string what = "write " + std::to_string(bytes);
    std::vector<char> data = pattern(bytes, 7);
    wargs args{};
    args.data = {bytes, data.data()};
    args.trailer = bytes;
    wres res{};
    const rpcrdma_stats before = way.rdma ? stats_of(clnt) : rpcrdma_stats{};
    const clnt_stat status = t_write_3(&args, &res, clnt);
    const std::uint64_t sum = nfsrdma::load_be64(nfsrdma::as_bytes(&res.wres_u.resok.verf[0]));
    tell(clnt, what, status, sum);
    expect(sum == digest(data.data(), bytes), what + ": the server has the same bytes");
    if (way.rdma && bytes >= kSurelyPlaced)
        check_placement(way, what, before, stats_of(clnt), true, false);
    clnt_freeres(clnt, routine(&xdr_wres), object(&res));
}

void call_read(CLIENT* clnt, const Way& way, std::uint32_t bytes) {
    const std::string what = "read " + std::to_string(bytes);
    rargs args{};
    args.offset = 9;
    args.count = bytes;
    rres res{};
    const rpcrdma_stats before = way.rdma ? stats_of(clnt) : rpcrdma_stats{};
    const clnt_stat status = t_read_3(&args, &res, clnt);
    const auto& data = res.rres_u.resok.data;
    tell(clnt, what, status, digest(data.data_val, data.data_len));
    const std::vector<char> expected = pattern(bytes, 9);
    expect(
        data.data_len == bytes && std::equal(expected.begin(), expected.end() - 1, data.data_val),
        what + ": the same bytes");
    if (way.rdma && bytes >= kSurelyPlaced)
        check_placement(way, what, before, stats_of(clnt), false, true);
    clnt_freeres(clnt, routine(&xdr_rres), object(&res));
}

void check_who(CLIENT* clnt, const Way& way) {
    whoami res{};
    const clnt_stat status = t_who_3(nullptr, &res, clnt);
    expect(status == RPC_SUCCESS, "who: answered");
    if (status == RPC_SUCCESS && way.service != rpcsec_gss_svc_default) {
        expect(res.flavor == RPCSEC_GSS, "who: by RPCSEC_GSS");
        expect(res.uid == static_cast<u_int>(way.service), "who: under the service asked for");
        expect(std::string_view(res.machine).substr(0, 6) == "alice@",
               std::string("who: alice, and not ") + res.machine);
    }
    clnt_freeres(clnt, routine(&xdr_whoami), object(&res));
}

// One context serves one call at a time, whoever makes it.
void call_from_threads(CLIENT* clnt) {
    constexpr std::uint32_t kThreads = 4, kCalls = 25;
    std::atomic<std::uint32_t> right{0};
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < kThreads; ++i) {
        threads.emplace_back([clnt, i, &right] {
            for (std::uint32_t j = 0; j < kCalls; ++j) {
                std::vector<char> data = pattern(500 * i + 300 * j, i + j);
                blob args{static_cast<u_int>(data.size()), data.data()}, res{};
                if (t_echo_3(&args, &res, clnt) == RPC_SUCCESS && res.blob_len == data.size() &&
                    std::equal(data.begin(), data.end(), res.blob_val))
                    ++right;
                clnt_freeres(clnt, routine(&xdr_blob), object(&res));
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    expect(right == kThreads * kCalls, "calls of several threads: " + std::to_string(right));
}

int call(const Way& way, const char* address, std::uint16_t port, char* service) {
    CLIENT* const clnt = connect(way, address, port);
    if (clnt == nullptr) die(clnt_spcreateerror("connect"));
    if (way.service != rpcsec_gss_svc_default) {
        AUTH* const auth = make_auth(clnt, service, way.service);
        if (auth == nullptr) die("rpc_gss_seccreate");
        clnt->cl_auth = auth;
    }
    expect(t_null_3(nullptr, nullptr, clnt) == RPC_SUCCESS, "null");
    check_who(clnt, way);
    for (const std::uint32_t bytes : kSizes) {
        if (!way.rdma && way.wrapped() && bytes > kWrappedByTcpMax) break;
        call_blob(clnt, way, true, bytes);
        call_blob(clnt, way, false, bytes);
        call_write(clnt, way, bytes);
        call_read(clnt, way, bytes);
    }
    if (way.rdma) call_from_threads(clnt);
    auth_destroy(clnt->cl_auth);  // tells the server, by a call
    if (way.rdma) {
        const rpcrdma_stats s = stats_of(clnt);
        std::fprintf(stderr, "calls %llu replies %llu read_chunk %llu write_chunk %llu long %llu\n",
                     static_cast<unsigned long long>(s.calls),
                     static_cast<unsigned long long>(s.replies),
                     static_cast<unsigned long long>(s.read_chunk_calls),
                     static_cast<unsigned long long>(s.write_chunk_calls),
                     static_cast<unsigned long long>(s.long_calls));
        expect(s.calls == s.replies, "each call is answered");
    }
    clnt_destroy(clnt);
    return failures == 0 ? 0 : 1;
}

// A service that the KDC does not know: no context, an error, and a CLIENT that works all the same.
int refused(const char* address, std::uint16_t port, char* service) {
    CLIENT* const clnt = connect({true, false, rpcsec_gss_svc_default}, address, port);
    if (clnt == nullptr) die(clnt_spcreateerror("connect"));
    expect(make_auth(clnt, service, rpcsec_gss_svc_integrity) == nullptr, "no such service");
    expect(t_null_3(nullptr, nullptr, clnt) == RPC_SUCCESS, "null by AUTH_NONE");
    auth_destroy(clnt->cl_auth);
    clnt_destroy(clnt);
    return failures == 0 ? 0 : 1;
}

// A context that the server is not told the end of: only its connection ends.
int abandon(const char* address, std::uint16_t port, char* service) {
    const Way way{true, false, rpcsec_gss_svc_integrity};
    CLIENT* const clnt = connect(way, address, port);
    if (clnt == nullptr) die(clnt_spcreateerror("connect"));
    clnt->cl_auth = make_auth(clnt, service, way.service);
    if (clnt->cl_auth == nullptr) die("rpc_gss_seccreate");
    for (int i = 0; i < 50; ++i)  // so that its sequence numbers are ahead of those of the next
        check_who(clnt, way);
    clnt_destroy(clnt);
    return failures == 0 ? 0 : 1;
}

rpc_gss_service_t service_of(std::string_view name) {
    if (name == "none") return rpcsec_gss_svc_none;
    if (name == "integrity") return rpcsec_gss_svc_integrity;
    if (name == "privacy") return rpcsec_gss_svc_privacy;
    return rpcsec_gss_svc_default;
}

std::uint16_t port_of(const char* text) {
    return static_cast<std::uint16_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<char*> args(argv, argv + argc);
    const std::string_view role = argc > 1 ? args[1] : "";
    const bool table = argc > 1 && std::string_view(args.back()) == "table";
    if (table) register_table();
    if (role == "serve" && argc == 5) return serve(args[2], args[3]);
    if (role == "call" && argc == 8)
        return call({std::string_view(args[2]) == "rdma", table, service_of(args[6])}, args[3],
                    port_of(args[4]), args[5]);
    if (role == "refused" && argc == 5) return refused(args[2], port_of(args[3]), args[4]);
    if (role == "abandon" && argc == 5) return abandon(args[2], port_of(args[3]), args[4]);
    std::fprintf(stderr, "usage: see tests/e2e/tirpc_gss.cpp\n");
    return 2;
}
