#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <net/if.h>
#include <netconfig.h>
#include <sched.h>
#include <spawn.h>
#include <string>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_clnt.h>
#include <rpc/rpcb_prot.h>

#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"
#include "sunrpc/xdr_proc.hpp"
#include "tirpc/tirpc_rdma.h"

// Against the rpcbind of Debian, in namespaces where /run and all ports are the test's own.
namespace nfsrdma::tirpc {
namespace {

constexpr rpcprog_t kProg = 0x20000b68;
constexpr rpcvers_t kVers = 3;

struct DestroyXprt {
    void operator()(SVCXPRT* xprt) const noexcept { svc_destroy(xprt); }
};
using Listener = std::unique_ptr<SVCXPRT, DestroyXprt>;
Listener listen_at(const char* address) {
    Listener listener(svc_rdma_create(address, nullptr));
    EXPECT_NE(listener, nullptr) << rpcrdma_strerror();
    return listener;
}

bool own_namespaces() {
    if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return false;
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
    if (::mount("none", "/run", "tmpfs", 0, nullptr) != 0) return false;
    const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM, 0));
    ifreq loopback{};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP;
    return ::ioctl(fd.get(), SIOCSIFFLAGS, &loopback) == 0;
}

class Rpcbind {
  public:
    Rpcbind() {
        std::string program = "/usr/sbin/rpcbind";
        std::string foreground = "-f";
        std::string warm = "-w";
        char* const words[] = {program.data(), foreground.data(), warm.data(), nullptr};
        EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, words, environ), 0);
        for (int i = 0; i < 1200 && ::access("/run/rpcbind.sock", F_OK) != 0; ++i)
            ::usleep(50000);
    }
    ~Rpcbind() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGTERM);
        ::waitpid(pid_, nullptr, 0);
    }
    Rpcbind(const Rpcbind&) = delete;
    Rpcbind& operator=(const Rpcbind&) = delete;

  private:
    pid_t pid_ = 0;
};

// In a process of its own, which has no threads yet.
void run_apart(const std::function<void()>& test) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root: a network namespace for rpcbind";
    if (::access("/usr/sbin/rpcbind", X_OK) != 0)
        GTEST_SKIP() << "needs root: to install rpcbind (package rpcbind)";
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        ::alarm(120);
        if (!own_namespaces()) ::_exit(77);
        test();
        ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        GTEST_SKIP() << "needs root: namespaces, which are refused here";
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// 127.0.0.1:2049 over TCP, by libtirpc's own routine.
void register_tcp(rpcprog_t prog) {
    netconfig* const tcp = ::getnetconfigent("tcp");
    ASSERT_NE(tcp, nullptr);
    const SockAddr local = *SockAddr::parse("127.0.0.1:2049", 0);
    sockaddr_storage room{};
    std::memcpy(&room, local.sa(), local.sa_len());
    netbuf where{local.sa_len(), local.sa_len(), &room};
    EXPECT_TRUE(::rpcb_set(prog, kVers, tcp, &where));
    ::freenetconfigent(tcp);
}

// What rpcbind tells everybody of the program: "NETID ADDRESS " of each entry.
std::string entries_of(rpcprog_t prog) {
    netconfig* const tcp = ::getnetconfigent("tcp");
    if (tcp == nullptr) return "no /etc/netconfig";
    rpcblist* list = ::rpcb_getmaps(tcp, "127.0.0.1");
    ::freenetconfigent(tcp);
    std::string found;
    for (const rpcblist* at = list; at != nullptr; at = at->rpcb_next) {
        if (at->rpcb_map.r_prog != prog) continue;
        found += std::string(at->rpcb_map.r_netid) + ' ' + at->rpcb_map.r_addr + ' ';
    }
    return found;
}

std::string address_of(const char* host, rpcprog_t prog) {
    sockaddr_storage address{};
    if (rpcb_rdma_getaddr(host, prog, kVers, &address) == FALSE)
        return clnt_sperrno(get_rpc_createerr().cf_stat);
    return SockAddr::from(static_cast<sockaddr*>(static_cast<void*>(&address))).to_string();
}
// By RPCBPROC_GETADDRLIST: the netids of the program, or why there is no answer.
std::string netids_of(rpcprog_t prog) {
    CLIENT* const client = ::clnt_create("127.0.0.1", RPCBPROG, RPCBVERS4, "tcp");
    if (client == nullptr) return clnt_sperrno(get_rpc_createerr().cf_stat);
    char none[] = "";
    RPCB what{prog, kVers, none, none, none};
    rpcb_entry_list_ptr list = nullptr;
    const timeval timeout{1, 0};
    const clnt_stat status =
        clnt_call(client, RPCBPROC_GETADDRLIST, (sunrpc::xdr_proc<rpcb, xdr_rpcb>), &what,
                  (sunrpc::xdr_proc<rpcb_entry_list_ptr, xdr_rpcb_entry_list_ptr>), &list, timeout);
    std::string found = status == RPC_SUCCESS ? "" : clnt_sperrno(status);
    for (const rpcb_entry_list* at = list; at != nullptr; at = at->rpcb_entry_next)
        found += std::string(at->rpcb_entry_map.r_nc_netid) + ' ';
    clnt_destroy(client);
    return found;
}
const std::string kNotRegistered = clnt_sperrno(RPC_PROGNOTREGISTERED);

TEST(RpcbRdma, B68_IsRegisteredFoundAndTakenBack) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener listener = listen_at("127.0.0.1:20049");
        ASSERT_NE(listener, nullptr);
        EXPECT_EQ(address_of("127.0.0.1", kProg), kNotRegistered);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, listener.get())) << rpcrdma_strerror();
        EXPECT_EQ(entries_of(kProg), "rdma 127.0.0.1.78.81 ");
        EXPECT_EQ(address_of("127.0.0.1", kProg), "127.0.0.1:20049");
        EXPECT_EQ(address_of("127.0.0.1", kProg + 1), kNotRegistered);
        EXPECT_TRUE(rpcb_rdma_set(kProg, kVers, listener.get()));  // the same again

        ASSERT_TRUE(rpcb_rdma_unset(kProg, kVers)) << rpcrdma_strerror();
        EXPECT_EQ(entries_of(kProg), "");
        EXPECT_EQ(address_of("127.0.0.1", kProg), kNotRegistered);
        EXPECT_TRUE(rpcb_rdma_unset(kProg, kVers));  // rpcbind has nothing against that
    });
}

TEST(RpcbRdma, B68_OtherTransportsStay) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener listener = listen_at("127.0.0.1:20049");
        ASSERT_NE(listener, nullptr);
        register_tcp(kProg);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, listener.get()));
        ASSERT_TRUE(rpcb_rdma_unset(kProg, kVers));
        EXPECT_EQ(entries_of(kProg), "tcp 127.0.0.1.8.1 ");
    });
}

// rpcbind does not answer RPCBPROC_GETADDRLIST for a program with an entry of RDMA: nothing makes
// one but who asks for it, and taking it back is the end of that.
TEST(RpcbRdma, WithoutAnEntryGetaddrlistIsAnswered) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener listener = listen_at("127.0.0.1:20049");
        ASSERT_NE(listener, nullptr);
        EXPECT_TRUE(svc_reg(
            listener.get(), kProg, kVers, [](svc_req*, SVCXPRT*) {}, nullptr));
        register_tcp(kProg);
        EXPECT_EQ(entries_of(kProg), "tcp 127.0.0.1.8.1 ");
        EXPECT_EQ(netids_of(kProg), "tcp ");
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, listener.get()));
        (void)netids_of(kProg);  // rpcbind 1.2.6: no answer
        ASSERT_TRUE(rpcb_rdma_unset(kProg, kVers));
        EXPECT_EQ(netids_of(kProg), "tcp ");
    });
}

// libtirpc's own goes by the program alone; and it knows no such transport, whatever is registered.
TEST(RpcbRdma, SvcUnregTakesItBackToo) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener listener = listen_at("127.0.0.1:20049");
        ASSERT_NE(listener, nullptr);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, listener.get()));
        EXPECT_EQ(clnt_create("127.0.0.1", kProg, kVers, "rdma"), nullptr);
        EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_UNKNOWNPROTO);
        svc_unreg(kProg, kVers);
        EXPECT_EQ(entries_of(kProg), "");
    });
}

TEST(RpcbRdma, AnotherAddressMustBeUnsetFirst) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener one = listen_at("127.0.0.1:20049");
        const Listener other = listen_at("127.0.0.2:20050");
        ASSERT_TRUE(one != nullptr && other != nullptr);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, one.get()));
        errno = 0;
        EXPECT_FALSE(rpcb_rdma_set(kProg, kVers, other.get()));
        EXPECT_EQ(errno, EADDRINUSE);
        EXPECT_EQ(address_of("127.0.0.1", kProg), "127.0.0.1:20049");
        ASSERT_TRUE(rpcb_rdma_unset(kProg, kVers));
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, other.get()));
        EXPECT_EQ(address_of("127.0.0.1", kProg), "127.0.0.2:20050");
    });
}

// A listener at any address is found at the one by which rpcbind was asked; IPv6 has its own netid.
TEST(RpcbRdma, AnyAddressAndIPv6) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener v6 = listen_at("[::1]:20052");
        ASSERT_NE(v6, nullptr);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, v6.get()));
        EXPECT_EQ(entries_of(kProg), "rdma6 ::1.78.84 ");
        EXPECT_EQ(address_of("::1", kProg), "[::1]:20052");
        EXPECT_EQ(address_of("127.0.0.1", kProg), kNotRegistered);
        const Listener any = listen_at("0.0.0.0:20051");
        ASSERT_NE(any, nullptr);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, any.get()));
        EXPECT_EQ(address_of("127.0.0.3", kProg), "127.0.0.3:20051");
        EXPECT_EQ(address_of("::1", kProg), "[::1]:20052");
        ASSERT_TRUE(rpcb_rdma_unset(kProg, kVers));  // both
        EXPECT_EQ(entries_of(kProg), "");
    });
}

TEST(RpcbRdma, AClientMayAskForThePort) {
    run_apart([] {
        const Rpcbind rpcbind;
        const Listener listener = listen_at("127.0.0.1:20077");
        ASSERT_NE(listener, nullptr);
        ASSERT_TRUE(rpcb_rdma_set(kProg, kVers, listener.get()));
        rpcrdma_opts opts{};
        opts.size = sizeof opts;
        opts.flags = RPCRDMA_RPCBIND;
        CLIENT* const client = clnt_rdma_create("127.0.0.1", kProg, kVers, &opts);
        ASSERT_NE(client, nullptr) << clnt_spcreateerror("create") << rpcrdma_strerror();
        clnt_destroy(client);
        EXPECT_EQ(clnt_rdma_create("127.0.0.1", kProg + 1, kVers, &opts), nullptr);
        EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_PROGNOTREGISTERED);
    });
}

TEST(RpcbRdma, B68_WithoutRpcbind) {
    run_apart([] {
        const Listener listener = listen_at("127.0.0.1:20049");
        ASSERT_NE(listener, nullptr);
        errno = 0;
        EXPECT_FALSE(rpcb_rdma_set(kProg, kVers, listener.get()));
        EXPECT_EQ(errno, ENOENT);
        EXPECT_STRNE(rpcrdma_strerror(), "");
        EXPECT_FALSE(rpcb_rdma_unset(kProg, kVers));
        EXPECT_EQ(address_of("127.0.0.1", kProg), clnt_sperrno(RPC_RPCBFAILURE));
        // As clnt_pcreateerror prints it.
        EXPECT_NE(std::string(clnt_spcreateerror("x")).find("Port mapper failure"),
                  std::string::npos)
            << clnt_spcreateerror("x");
        EXPECT_NE(std::string(rpcrdma_strerror()).find("onnection refused"), std::string::npos)
            << rpcrdma_strerror();
        EXPECT_EQ(address_of("no such host", kProg), clnt_sperrno(RPC_UNKNOWNHOST));
    });
}

TEST(RpcbRdma, WhatIsNoListenerIsRefused) {
    errno = 0;
    EXPECT_FALSE(rpcb_rdma_set(kProg, kVers, nullptr));
    EXPECT_EQ(errno, EINVAL);
    const SVCXPRT nothing{};
    errno = 0;
    EXPECT_FALSE(rpcb_rdma_set(kProg, kVers, &nothing));
    EXPECT_EQ(errno, EINVAL);
    sockaddr_storage address{};
    EXPECT_FALSE(rpcb_rdma_getaddr(nullptr, kProg, kVers, &address));
    EXPECT_EQ(get_rpc_createerr().cf_stat, RPC_UNKNOWNHOST);
    EXPECT_FALSE(rpcb_rdma_getaddr("127.0.0.1", kProg, kVers, nullptr));
}

}  // namespace
}  // namespace nfsrdma::tirpc
