// Both ends: the stubs that rpcgen -M made, unchanged, over a CLIENT and a SVCXPRT of ours.
#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tests/tirpc/svc_world.hpp"

namespace nfsrdma::tirpc::svc_test {
namespace {

constexpr int kThreads = 8;

// NR_LONG=1: as many as the issue asks for.
int calls_each() {
    const char* const is_long = std::getenv("NR_LONG");  // NOLINT(concurrency-mt-unsafe)
    if (is_long != nullptr && *is_long == '1') return 10000;
#if defined(__SANITIZE_THREAD__)
    return 250;  // of each pair of threads it sees the first calls as well as the last
#else
    return 1250;
#endif
}

struct Connected {
    explicit Connected(const Server& server, std::uint32_t flags = 0) {
        const rpcrdma_opts opts = make_opts(flags);
        const SockAddr address = server.address();
        clnt = clnt_rdma_tli_create(address.sa(), address.sa_len(), TESTPROG, TESTVERS, &opts);
        EXPECT_NE(clnt, nullptr) << rpcrdma_strerror();
    }
    ~Connected() {
        if (clnt == nullptr) return;
        AUTH_DESTROY(clnt->cl_auth);
        CLNT_DESTROY(clnt);
    }
    Connected(const Connected&) = delete;
    Connected& operator=(const Connected&) = delete;
    CLIENT* clnt = nullptr;
};

TEST(ClntLoop, StubsOfRpcgenRunUnchanged) {
    Server server;
    const Connected client(server);
    ASSERT_EQ(t_null_3(nullptr, nullptr, client.clnt), RPC_SUCCESS);
    addargs add{40, 2};
    int sum = 0;
    ASSERT_EQ(t_add_3(&add, &sum, client.clnt), RPC_SUCCESS);
    EXPECT_EQ(sum, 42);
    largs link{};
    std::string name = "name", path(4000, 'p');
    link.name = name.data();
    link.path = path.data();
    char* target = nullptr;
    ASSERT_EQ(t_link_3(&link, &target, client.clnt), RPC_SUCCESS);
    EXPECT_EQ(path, target);
    clnt_freeres(client.clnt, routine<xdr_wrapstring>, &target);
    int wrong = 0, res = 0;
    EXPECT_EQ(t_syserr_3(&wrong, &res, client.clnt), RPC_SYSTEMERROR);
    EXPECT_EQ(t_decode_3(&wrong, &res, client.clnt), RPC_CANTDECODEARGS);
    u_int count = 3;
    dirlist list{};
    EXPECT_EQ(t_dir_3(&count, &list, client.clnt), RPC_PROCUNAVAIL);
}

TEST(ClntLoop, BlobsOfEverySizeReturnAsTheyWent) {
    Server server;
    const Connected client(server);
    for (const std::uint32_t bytes : {0u, 1u, 3u, 1000u, 4096u, 65537u, 262143u, 1u << 20}) {
        std::vector<char> data = pattern(bytes, 3);
        for (const auto stub : {t_echo_3, t_long_3}) {
            blob args{bytes, data.data()}, res{};
            ASSERT_EQ(stub(&args, &res, client.clnt), RPC_SUCCESS)
                << bytes << clnt_sperror(client.clnt, "") << rpcrdma_strerror();
            EXPECT_TRUE(std::vector<char>(res.blob_val, res.blob_val + res.blob_len) == data);
            clnt_freeres(client.clnt, routine<xdr_blob>, &res);
        }
    }
}

TEST(ClntLoop, AuthSysAndTheCallerArrive) {
    Server server;
    const Connected client(server);
    AUTH_DESTROY(client.clnt->cl_auth);
    std::array<gid_t, 2> groups{10, 11};
    std::string machine = "here";
    client.clnt->cl_auth = authunix_create(machine.data(), 1000, 1001, 2, groups.data());
    whoami who{};
    ASSERT_EQ(t_who_3(nullptr, &who, client.clnt), RPC_SUCCESS);
    EXPECT_EQ(who.uid, 1000u);
    EXPECT_EQ(who.gid, 1001u);
    ASSERT_EQ(who.gids.gids_len, 2u);
    EXPECT_STREQ(who.machine, "here");
    clnt_freeres(client.clnt, routine<xdr_whoami>, &who);
}

// One thread's calls; now and then a long one.
void make_calls(CLIENT* clnt, int thread) {
    const int count = calls_each();
    const std::vector<char> data = pattern(20000, static_cast<std::uint32_t>(thread));
    for (int i = 0; i < count; ++i) {
        addargs add{thread, i};
        int sum = 0;
        ASSERT_EQ(t_add_3(&add, &sum, clnt), RPC_SUCCESS) << clnt_sperror(clnt, "");
        ASSERT_EQ(sum, thread + i);
        if (i % 50 != 0) continue;
        std::vector<char> mine(data.begin(), data.begin() + 1 + i * 7 % 20000);
        blob args{static_cast<u_int>(mine.size()), mine.data()}, res{};
        ASSERT_EQ(t_echo_3(&args, &res, clnt), RPC_SUCCESS) << clnt_sperror(clnt, "");
        ASSERT_TRUE(std::vector<char>(res.blob_val, res.blob_val + res.blob_len) == mine);
        clnt_freeres(clnt, routine<xdr_blob>, &res);
    }
}

TEST(ClntLoop, EightThreadsOnOneClient) {
    Server server;
    const Connected client(server);
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t)
        threads.emplace_back(make_calls, client.clnt, t);
    for (std::thread& thread : threads)
        thread.join();
    rpcrdma_stats stats{};
    stats.size = sizeof stats;
    ASSERT_TRUE(clnt_control(client.clnt, CLRDMA_GET_STATS, static_cast<void*>(&stats)));
    EXPECT_EQ(stats.calls, stats.replies);
    EXPECT_EQ(stats.late_replies, 0u);
}

TEST(ClntLoop, EightThreadsOnAClientEach) {
    Server server;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
        threads.emplace_back([&server, t] {
            const Connected client(server);
            make_calls(client.clnt, t);
        });
    }
    for (std::thread& thread : threads)
        thread.join();
}

}  // namespace
}  // namespace nfsrdma::tirpc::svc_test
