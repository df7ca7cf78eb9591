// The server's part of the C face, and what programs do with a SVCXPRT: tirpc/svc_rdma.cpp.
#include <cerrno>
#include <fcntl.h>
#include <netconfig.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/unique_fd.hpp"
#include "tests/tirpc/svc_world.hpp"

namespace nfsrdma::tirpc::svc_test {
namespace {

TEST(SvcRdma, AListenerIsWhatProgramsExpect) {
    Server server;
    const SVCXPRT& xprt = *server.xprt();
    EXPECT_NE(server.port, 0);
    EXPECT_STREQ(xprt.xp_netid, "rdma");
    EXPECT_EQ(xprt.xp_type, NC_TPI_COTS_ORD);
    EXPECT_EQ(SockAddr::from(static_cast<const sockaddr*>(xprt.xp_ltaddr.buf)), server.address());
    int type = 0;
    socklen_t size = sizeof type;
    ASSERT_EQ(::getsockopt(xprt.xp_fd, SOL_SOCKET, SO_TYPE, &type, &size), 0);
    EXPECT_EQ(type, SOCK_STREAM);
}

TEST(SvcRdma, FailuresHaveAnErrnoAndALine) {
    errno = 0;
    EXPECT_EQ(svc_rdma_create("no address", nullptr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_STRNE(rpcrdma_strerror(), "");
    rpcrdma_opts opts = make_opts(0x8000);
    EXPECT_EQ(svc_rdma_create("127.0.0.1:0", &opts), nullptr);
    EXPECT_EQ(errno, EINVAL);
    opts = make_opts();
    opts.device = "rdmacore:none-such";
    EXPECT_EQ(svc_rdma_create("127.0.0.1:0", &opts), nullptr);
    EXPECT_NE(errno, 0);
}

TEST(SvcRdma, AnAddressInUseIsToldSo) {
    Server server;
    EXPECT_EQ(svc_rdma_create((own_address() + ":0").c_str(), nullptr), nullptr);
    EXPECT_EQ(errno, EADDRINUSE);
    EXPECT_STRNE(rpcrdma_strerror(), "");
    Client client(server.address());
    EXPECT_TRUE(is_success(client.call(Message(T_NULL).sent())));
}

TEST(SvcRdma, TwoListenersServeTheSameProgram) {
    Server server;
    // Made by the thread that serves, as it must be.
    std::atomic<SVCXPRT*> second{nullptr};
    seen().set_on_close([&](svc_req* /*rqst*/, SVCXPRT* xprt) {
        second = svc_rdma_create((own_address(1) + ":0").c_str(), nullptr);
        svc_sendreply(xprt, nothing, nullptr);
    });
    server.at_end = [&] {
        SVCXPRT* const xprt = second;
        svc_destroy(xprt);
    };
    Client first(server.address());
    ASSERT_TRUE(is_success(first.call(Message(T_CLOSE).put(0).sent())));
    ASSERT_NE(second.load(), nullptr);
    const SockAddr address = *SockAddr::parse(own_address(1), second.load()->xp_port);
    {
        Client other(address);
        for (int i = 0; i < 20; ++i) {
            EXPECT_TRUE(is_success(other.call(Message(T_NULL).sent())));
            EXPECT_TRUE(is_success(first.call(Message(T_NULL).sent())));
        }
    }
    server.stop();
}

TEST(SvcRdma, StatsAreExactCountsAndRespectTheirSize) {
    Server server;
    Client client(server.address());
    for (int i = 0; i < 7; ++i)
        ASSERT_TRUE(is_success(client.call(Message(T_NULL).sent())));
    const rpcrdma_stats stats = server.stats();
    EXPECT_EQ(stats.size, sizeof stats);
    EXPECT_EQ(stats.connections, 1u);
    EXPECT_EQ(stats.calls, 7u);
    EXPECT_EQ(stats.replies, 7u);
    EXPECT_EQ(stats.inline_calls, 7u);
    // A program of an older version has a shorter struct.
    rpcrdma_stats old{};
    old.size = 16;
    old.replies = 99;
    EXPECT_NE(SVC_CONTROL(server.xprt(), SVCRDMA_GET_STATS, &old), FALSE);
    EXPECT_EQ(old.size, 16u);
    EXPECT_EQ(old.calls, 7u);
    EXPECT_EQ(old.replies, 99u);
}

TEST(SvcRdma, ControlKnowsWhatOthersKnow) {
    Server server;
    SVCXPRT* const xprt = server.xprt();
    int value = 1;
    EXPECT_NE(SVC_CONTROL(xprt, SVCSET_VERSQUIET, &value), FALSE);
    value = 0;
    EXPECT_NE(SVC_CONTROL(xprt, SVCGET_VERSQUIET, &value), FALSE);
    EXPECT_NE(value, 0);
    value = 0;
    EXPECT_NE(SVC_CONTROL(xprt, SVCSET_VERSQUIET, &value), FALSE);
    EXPECT_NE(SVC_CONTROL(xprt, SVCGET_VERSQUIET, &value), FALSE);
    EXPECT_EQ(value, 0);
    EXPECT_NE(SVC_CONTROL(xprt, SVCGET_CONNMAXREC, &value), FALSE);
    EXPECT_EQ(value, 1 << 20);
    EXPECT_EQ(SVC_CONTROL(xprt, SVCSET_CONNMAXREC, &value), FALSE);
    EXPECT_EQ(SVC_CONTROL(xprt, SVCRDMA_GET_STATS, nullptr), FALSE);
    EXPECT_EQ(SVC_CONTROL(xprt, 0x7777, &value), FALSE);
}

TEST(SvcRdma, WhatIsNoListenerOfOursIsLeftAlone) {
    static const XprtOps ops{};
    SVCXPRT foreign{};
    foreign.xp_ops = &ops;
    svc_rdma_wake(&foreign);
    EXPECT_EQ(svc_rdma_alloc(&foreign, 100), nullptr);
    Server server;
    EXPECT_EQ(svc_rdma_alloc(server.xprt(), 100), nullptr);  // a listener has no request
}

TEST(SvcRdma, SizesAreOptions) {
    rpcrdma_opts opts = make_opts();
    opts.max_payload = 4u << 20;
    opts.max_message = 4u << 20;
    opts.inline_size = 1024;
    opts.credits = 2;
    Server server(opts);
    Client client(server.address(), &opts);
    const std::vector<char> data = pattern(4u << 20, 1);
    Sent sent = Message(T_LONG).put_opaque(data).sent();
    sent.reply_max = (4u << 20) + 512;
    const Reply reply = client.call(sent);
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(std::memcmp(reply.head.data() + 28, data.data(), data.size()), 0);
    Message echo(T_ECHO);
    echo.put(4u << 20);
    sent = echo.sent();
    sent.payload = data;
    sent.result_room = 4u << 20;
    EXPECT_EQ(client.call(sent).payload, data);
}

// All processes have the same loopback address of IPv6.
std::uint16_t free_udp_port() {
    const UniqueFd fd(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 own{};
    own.sin6_family = AF_INET6;
    own.sin6_addr = in6addr_loopback;
    auto* const address = static_cast<sockaddr*>(static_cast<void*>(&own));
    socklen_t size = sizeof own;
    if (::bind(fd.get(), address, size) != 0 || ::getsockname(fd.get(), address, &size) != 0)
        return 0;
    return SockAddr::from(address).port();
}

TEST(SvcRdma, AnIpv6ListenerServes) {
    register_table();
    rpcrdma_opts opts = make_opts();
    SVCXPRT* xprt = nullptr;
    for (int i = 0; i < 5 && xprt == nullptr; ++i) {  // another may take the port meanwhile
        opts.peer_udp_port = free_udp_port();
        const std::string bind = "[::1]:" + std::to_string(opts.peer_udp_port);
        opts.bind = bind.c_str();
        xprt = svc_rdma_create("[::1]:0", &opts);
    }
    opts.bind = nullptr;
    ASSERT_NE(xprt, nullptr) << rpcrdma_strerror();
    EXPECT_STREQ(xprt->xp_netid, "rdma6");
    std::atomic<int> family{0};
    seen().set_on_close([&](svc_req* /*rqst*/, SVCXPRT* connection) {
        family = static_cast<const sockaddr*>(svc_getrpccaller(connection)->buf)->sa_family;
        svc_sendreply(connection, nothing, nullptr);
        svc_exit();
    });
    ASSERT_NE(svc_reg(xprt, TESTPROG, TESTVERS, dispatch, nullptr), FALSE);
    const SockAddr address = *SockAddr::parse("[::1]", xprt->xp_port);
    std::thread server([] { svc_run(); });
    {
        Client client(address, &opts);
        EXPECT_TRUE(client.connected());
        EXPECT_TRUE(is_success(client.call(Message(T_CLOSE).put(0).sent())));
    }
    svc_exit();
    svc_rdma_wake(xprt);
    server.join();
    EXPECT_EQ(family, AF_INET6);
    seen().set_on_close({});
    svc_destroy(xprt);
    svc_unreg(TESTPROG, TESTVERS);
}

// A process whose table of fds libtirpc took for small (facts/libtirpc s2): what does not fit into
// it is told, not lost.
void fds_beyond_the_table() {
    rlimit limit{64, 1024};
    NR_ASSERT(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    Server server;  // libtirpc makes its table here
    limit.rlim_cur = 1024;
    NR_ASSERT(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
    std::vector<UniqueFd> taken;
    do
        taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (taken.back().get() < 70);
    {
        Client client(server.address());
        NR_ASSERT(client.connected());
        NR_ASSERT(!client.call(Message(T_NULL).sent()).answered);
        NR_ASSERT(client.until([&] { return !client.connected(); }));
    }
    NR_ASSERT(server.listener().counts().refused == 1);
    NR_ASSERT(svc_rdma_create((own_address(1) + ":0").c_str(), nullptr) == nullptr);
    NR_ASSERT(errno == EMFILE);
    taken.clear();
    {
        Client client(server.address());
        NR_ASSERT(is_success(client.call(Message(T_NULL).sent())));
    }
    server.stop();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST(SvcRdmaDeathTest, FdsBeyondLibtirpcsTableAreRefused) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(fds_beyond_the_table(), ::testing::ExitedWithCode(0), "");
}

// CVE-2021-46828: idle connections that hold all fds. The one that was idle longest gives way.
void idle_connections_hold_all_fds() {
    constexpr int kIdle = 40;
    // Clients of this process would take fds, too: they are made before.
    Server server;
    std::vector<std::unique_ptr<Client>> idle;
    for (int i = 0; i < kIdle; ++i)
        idle.push_back(std::make_unique<Client>(server.address()));
    Client real(server.address());
    std::vector<UniqueFd> taken;
    do
        taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (taken.back());
    taken.resize(taken.size() - 1 - 17);  // for eight connections
    for (const auto& client : idle)
        NR_ASSERT(is_success(client->call(Message(T_NULL).sent())));
    NR_ASSERT(is_success(real.call(Message(T_NULL).sent())));
    NR_ASSERT(server.listener().counts().reaped >= kIdle - 8);
    int gone = 0;
    for (const auto& client : idle) {
        client->until([&] { return !client->connected(); }, 20 * kNsPerMs);
        gone += client->connected() ? 0 : 1;
    }
    NR_ASSERT(gone >= kIdle - 8);
    NR_ASSERT(is_success(real.call(Message(T_NULL).sent())));
    idle.clear();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

// While there is none for it, and nobody idle, a connection waits, and costs nothing.
void no_fds_at_all() {
    Server server;
    Client client(server.address());
    std::vector<UniqueFd> taken;
    do
        taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (taken.back());
    Client::Flight flight;
    NR_ASSERT(client.send(flight, Message(T_NULL).sent()));
    NR_ASSERT(!client.until([&] { return flight.done; }, 2 * kNsPerSec));
    const std::uint64_t turns = server.listener().driver().keeper_turns();
    NR_ASSERT(!client.until([&] { return flight.done; }, 1 * kNsPerSec));
    NR_ASSERT(server.listener().driver().keeper_turns() - turns < 1000);
    taken.clear();
    NR_ASSERT(is_success(client.wait(flight)));
    server.stop();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

// Others are served meanwhile: one that goes on calling, so that nobody else drives.
void no_fds_for_another() {
    Server server;
    server.listener().set_idle_limit(UINT64_MAX);
    Client busy(server.address()), waits(server.address());
    NR_ASSERT(is_success(busy.call(Message(T_NULL).sent())));
    std::vector<UniqueFd> taken;
    do
        taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (taken.back());
    Client::Flight flight;
    NR_ASSERT(waits.send(flight, Message(T_NULL).sent()));
    for (int i = 0; i < 1000; ++i)
        NR_ASSERT(is_success(busy.call(Message(T_ADD).put(1).put(2).sent())));
    NR_ASSERT(!flight.done);
    taken.clear();
    NR_ASSERT(is_success(waits.wait(flight)));
    server.stop();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

// With threads, which do not close fds, one connection gives up its own for one that calls; and
// those of connections that are over are taken first.
void threads_without_fds() {
    Server server(make_opts(RPCRDMA_SVC_THREADS), LoopKind::poll, 2);
    server.listener().set_idle_limit(UINT64_MAX);
    auto over = std::make_unique<Client>(server.address());
    Client oldest(server.address()), old(server.address());
    Client first(server.address()), second(server.address());
    NR_ASSERT(is_success(over->call(Message(T_NULL).sent())));
    NR_ASSERT(is_success(oldest.call(Message(T_NULL).sent())));
    NR_ASSERT(is_success(old.call(Message(T_NULL).sent())));
    over.reset();
    NR_ASSERT(old.until([&] { return server.stats().connections == 4; }));
    std::vector<UniqueFd> taken;
    do
        taken.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    while (taken.back());
    NR_ASSERT(is_success(first.call(Message(T_NULL).sent())));
    NR_ASSERT(server.listener().counts().reaped == 0);
    old.until([] { return false; }, 500 * kNsPerMs);  // acknowledgements go out
    server.listener().set_idle_limit(100 * kNsPerMs);
    NR_ASSERT(is_success(second.call(Message(T_NULL).sent())));
    NR_ASSERT(server.listener().counts().reaped == 1);
    NR_ASSERT(oldest.until([&] { return !oldest.connected(); }));
    for (Client* const client : {&old, &first, &second})
        NR_ASSERT(is_success(client->call(Message(T_ADD).put(1).put(2).sent())));
    taken.clear();
    server.stop();
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

void expect_good_with(std::uint32_t fds, void (*child)()) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit few{fds, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
    EXPECT_EXIT(child(), ::testing::ExitedWithCode(0), "");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(B64DeathTest, WithoutFdsConnectionsWait) {
    expect_good_with(64, no_fds_at_all);
}

TEST(B64DeathTest, WithoutFdsOthersAreServed) {
    expect_good_with(128, no_fds_for_another);
}

TEST(B64DeathTest, ThreadsHandFdsFromOneConnectionToAnother) {
    expect_good_with(128, threads_without_fds);
}

TEST(B64DeathTest, IdleConnectionsGiveTheirFdsToOnesThatCall) {
    expect_good_with(256, idle_connections_hold_all_fds);
}

}  // namespace
}  // namespace nfsrdma::tirpc::svc_test
