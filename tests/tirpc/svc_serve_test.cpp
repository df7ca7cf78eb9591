// Threads of svc_run, and what they may meet: tirpc/svc_serve.cpp.
#include <future>

#include "tests/tirpc/svc_world.hpp"

namespace nfsrdma::tirpc::svc_test {
namespace {

Reply null_call(Client& client) {
    return client.call(Message(T_NULL).sent());
}

// How a service destroys what it is called on.
struct OnClose {
    explicit OnClose(std::function<void(svc_req*, SVCXPRT*)> what) {
        seen().set_on_close(std::move(what));
    }
    ~OnClose() { seen().set_on_close({}); }
    OnClose(const OnClose&) = delete;
    OnClose& operator=(const OnClose&) = delete;
};

TEST(SvcServe, PollAndSelectLoopsServe) {
    for (const LoopKind kind : {LoopKind::poll, LoopKind::select}) {
        Server server(make_opts(), kind);
        Client first(server.address()), second(server.address());
        for (int i = 0; i < 50; ++i) {
            ASSERT_TRUE(is_success(null_call(first)));
            ASSERT_TRUE(is_success(null_call(second)));
        }
    }
}

// svc_exit from a dispatch routine ends svc_run.
TEST(SvcServe, SvcRunServesUntilADispatchExits) {
    const OnClose close([](svc_req* /*rqst*/, SVCXPRT* xprt) {
        svc_sendreply(xprt, nothing, nullptr);
        svc_exit();
    });
    Server server(make_opts(), LoopKind::run);
    {
        Client client(server.address());
        for (int i = 0; i < 200; ++i)
            ASSERT_TRUE(is_success(null_call(client)));
        EXPECT_TRUE(is_success(client.call(Message(T_CLOSE).put(0).sent())));
    }
    server.stop();
}

// svc_exit does not wake the poll of another thread (facts/libtirpc s2).
TEST(SvcServe, SvcRunEndsWhenItIsWokenAfterAnExit) {
    Server server(make_opts(), LoopKind::run);
    {
        Client client(server.address());
        ASSERT_TRUE(is_success(null_call(client)));
    }
    // It is in poll: it has nothing to do.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    svc_exit();
    svc_rdma_wake(server.xprt());
    server.stop();
}

// libtirpc still asks the status of what was destroyed inside of its dispatch.
TEST(SvcServe, AConnectionMayBeDestroyedByItsOwnDispatch) {
    const OnClose close([](svc_req* /*rqst*/, SVCXPRT* xprt) { svc_destroy(xprt); });
    Server server;
    Client other(server.address());
    ASSERT_TRUE(is_success(null_call(other)));
    for (int i = 0; i < 5; ++i) {
        Client client(server.address());
        ASSERT_TRUE(is_success(null_call(client)));
        EXPECT_FALSE(client.call(Message(T_CLOSE).put(0).sent()).answered);
        EXPECT_TRUE(client.until([&] { return !client.connected(); }));
        EXPECT_TRUE(is_success(null_call(other)));
    }
}

TEST(SvcServe, AnAnswerIsDeliveredThoughItsConnectionIsDestroyedAtOnce) {
    const OnClose close([](svc_req* /*rqst*/, SVCXPRT* xprt) {
        std::vector<char> data = pattern(900000, 5);
        blob res{static_cast<u_int>(data.size()), data.data()};
        EXPECT_NE(svc_sendreply(xprt, routine<xdr_blob>, &res), FALSE);
        svc_destroy(xprt);
    });
    Server server;
    Client client(server.address());
    ASSERT_TRUE(is_success(null_call(client)));
    Sent sent = Message(T_CLOSE).put(0).sent();
    sent.reply_max = 1000000;
    const Reply reply = client.call(sent);
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(std::memcmp(reply.head.data() + 28, pattern(900000, 5).data(), 900000), 0);
    EXPECT_TRUE(client.until([&] { return !client.connected(); }));
}

TEST(SvcServe, ADispatchMayDestroyAnotherConnection) {
    SVCXPRT* first = nullptr;
    Server server;
    Client victim(server.address()), killer(server.address());
    {
        const OnClose close([&](svc_req* /*rqst*/, SVCXPRT* xprt) {
            first = xprt;
            svc_sendreply(xprt, nothing, nullptr);
        });
        ASSERT_TRUE(is_success(victim.call(Message(T_CLOSE).put(0).sent())));
    }
    const OnClose close([&](svc_req* /*rqst*/, SVCXPRT* xprt) {
        svc_destroy(first);
        svc_sendreply(xprt, nothing, nullptr);
    });
    EXPECT_TRUE(is_success(killer.call(Message(T_CLOSE).put(0).sent())));
    EXPECT_TRUE(victim.until([&] { return !victim.connected(); }));
    EXPECT_TRUE(is_success(null_call(killer)));
}

// It ends its connections, the one that is being served too, when that has been.
TEST(SvcServe, AListenerMayBeDestroyedByADispatchOfItsConnection) {
    Server server;
    const OnClose close([&](svc_req* /*rqst*/, SVCXPRT* xprt) {
        SVCXPRT* const listener = seen().listener.exchange(nullptr);
        svc_destroy(listener);
        svc_sendreply(xprt, nothing, nullptr);
    });
    Client client(server.address()), other(server.address());
    ASSERT_TRUE(is_success(null_call(client)));
    ASSERT_TRUE(is_success(null_call(other)));
    EXPECT_TRUE(is_success(client.call(Message(T_CLOSE).put(0).sent())));
    EXPECT_TRUE(client.until([&] { return !client.connected(); }));
    EXPECT_TRUE(other.until([&] { return !other.connected(); }));
}

// One dispatch at a time; but connections are made, and data is moved, while it takes its time.
TEST(SvcServe, ConnectionsAreMadeWhileADispatchIsSlow) {
    Server server;
    Client slow(server.address());
    ASSERT_TRUE(is_success(null_call(slow)));
    Client::Flight flight;
    ASSERT_TRUE(slow.send(flight, Message(T_SLEEPMS).put(1500).sent()));
    ASSERT_TRUE(slow.until([] { return seen().running == 1; }));
    Client another(server.address());
    EXPECT_TRUE(another.connected());
    // Its call is received, data and all, though not served.
    Message write(T_ECHO);
    const std::vector<char> data = pattern(200000, 2);
    write.put(static_cast<std::uint32_t>(data.size()));
    Sent sent = write.sent();
    sent.payload = data;
    sent.result_room = 200000;
    Client::Flight echo;
    ASSERT_TRUE(another.send(echo, sent));
    another.until([&] { return server.stats().read_chunk_calls == 1; });
    EXPECT_EQ(server.stats().read_chunk_calls, 1u);
    EXPECT_TRUE(is_success(slow.wait(flight)));
    const Reply reply = another.wait(echo);
    EXPECT_TRUE(is_success(reply));
    EXPECT_EQ(reply.payload, data);
    EXPECT_EQ(seen().running_max, 1u);
}

// What was received is served, though its connection is gone by then.
TEST(SvcServe, RequestsThatWereReceivedAreServedThoughTheirConnectionEnds) {
    Server server;
    Client slow(server.address());
    ASSERT_TRUE(is_success(null_call(slow)));
    const std::uint32_t before = seen().calls;
    Client::Flight sleep;
    {
        Client client(server.address());
        ASSERT_TRUE(is_success(null_call(client)));
        ASSERT_TRUE(slow.send(sleep, Message(T_SLEEPMS).put(1000).sent()));
        ASSERT_TRUE(slow.until([] { return seen().running == 1; }));
        std::array<Client::Flight, 3> flights;
        for (Client::Flight& flight : flights)
            ASSERT_TRUE(client.send(flight, Message(T_NULL).sent()));
        client.until([&] { return server.stats().calls == 6; });
        client.transport().close();
        client.until([&] { return flights[0].done && flights[1].done && flights[2].done; });
        for (Client::Flight& flight : flights)
            client.transport().put_rqst(*flight.rqst);
    }
    EXPECT_TRUE(is_success(slow.wait(sleep)));
    EXPECT_TRUE(is_success(null_call(slow)));
    EXPECT_EQ(seen().calls, before + 6);
}

TEST(SvcServe, ManyCallsInFlightOfOneConnectionNeedFewKicks) {
    Server server;
    Client client(server.address());
    ASSERT_TRUE(is_success(null_call(client)));
    constexpr int kRounds = 50, kDepth = 8;
    const std::uint64_t before = server.listener().counts().kicks;
    for (int i = 0; i < kRounds; ++i) {
        std::array<Client::Flight, kDepth> flights;
        for (Client::Flight& flight : flights)
            ASSERT_TRUE(client.send(flight, Message(T_NULL).sent()));
        for (Client::Flight& flight : flights)
            ASSERT_TRUE(is_success(client.wait(flight)));
    }
    // At most one a wake-up, and none while requests are there.
    EXPECT_LE(server.listener().counts().kicks - before, std::uint64_t{kRounds * kDepth / 2});
}

// More calls than libtirpc is kept from its other fds for, of two connections that take turns.
TEST(SvcServe, ConnectionsTakeTurnsUnderLoad) {
    Server server;
    std::atomic<int> good{0};
    const auto load = [&] {
        Client client(server.address());
        for (int i = 0; i < 100; ++i) {
            std::array<Client::Flight, 8> flights;
            for (Client::Flight& flight : flights)
                ASSERT_TRUE(client.send(flight, Message(T_ADD).put(1).put(2).sent()));
            for (Client::Flight& flight : flights)
                good += is_success(client.wait(flight)) ? 1 : 0;
        }
    };
    std::thread first(load), second(load), third(load);
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(good, 2400);
}

// The same dispatch for TCP and RDMA, from one svc_run.
TEST(SvcServe, TcpIsServedBesideRdma) {
    Server server(make_opts(), LoopKind::poll);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in tcp{};
    tcp.sin_family = AF_INET;
    store_be32(static_cast<std::byte*>(static_cast<void*>(&tcp.sin_addr)), INADDR_LOOPBACK);
    ASSERT_EQ(::bind(fd, static_cast<sockaddr*>(static_cast<void*>(&tcp)), sizeof tcp), 0);
    ASSERT_EQ(::listen(fd, 8), 0);
    socklen_t size = sizeof tcp;
    ASSERT_EQ(::getsockname(fd, static_cast<sockaddr*>(static_cast<void*>(&tcp)), &size), 0);
    // Made where it is served.
    SVCXPRT* vc = nullptr;
    std::atomic<bool> made{false};
    const OnClose close([&](svc_req* /*rqst*/, SVCXPRT* xprt) {
        vc = svc_vc_create(fd, 0, 0);
        EXPECT_NE(vc, nullptr);
        svc_sendreply(xprt, nothing, nullptr);
        made = true;
    });
    server.at_end = [&] { svc_destroy(vc); };
    Client client(server.address());
    ASSERT_TRUE(is_success(client.call(Message(T_CLOSE).put(0).sent())));
    ASSERT_TRUE(made);
    int conversation = RPC_ANYSOCK;
    netbuf address{sizeof tcp, sizeof tcp, &tcp};
    conversation = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(conversation, static_cast<sockaddr*>(static_cast<void*>(&tcp)), sizeof tcp),
              0);
    CLIENT* const clnt = clnt_vc_create(conversation, &address, TESTPROG, TESTVERS, 0, 0);
    ASSERT_NE(clnt, nullptr);
    for (int i = 0; i < 50; ++i) {
        addargs args{i, 1};
        int sum = 0;
        ASSERT_EQ(t_add_3(&args, &sum, clnt), RPC_SUCCESS);
        EXPECT_EQ(sum, i + 1);
        ASSERT_TRUE(is_success(client.call(Message(T_ADD).put(1).put(2).sent())));
    }
    clnt_destroy(clnt);
    ::close(conversation);
    server.stop();
}

void load_of_each_client(Server& server, int clients, int calls) {
    std::vector<std::thread> threads;
    std::atomic<int> good{0};
    for (int t = 0; t < clients; ++t) {
        threads.emplace_back([&] {
            Client client(server.address());
            for (int i = 0; i < calls; ++i)
                good += is_success(client.call(Message(T_ADD).put(2).put(3).sent())) ? 1 : 0;
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(good, clients * calls);
}

TEST(B66, TwoThreadsOfSvcRunServeEightClients) {
    seen().running_max = 0;
    const OnClose close([](svc_req* /*rqst*/, SVCXPRT* xprt) {
        svc_sendreply(xprt, nothing, nullptr);
        svc_exit();
    });
    Server server(make_opts(RPCRDMA_SVC_THREADS), LoopKind::run, 2);
    for (int round = 0; round < 3; ++round)
        load_of_each_client(server, 8, 100);
    // Both serve at a time: of two that sleep, one does not wait for the other.
    Client first(server.address()), second(server.address());
    Client::Flight one, two;
    ASSERT_TRUE(is_success(null_call(first)));
    ASSERT_TRUE(is_success(null_call(second)));
    ASSERT_TRUE(first.send(one, Message(T_SLEEPMS).put(2000).sent()));
    ASSERT_TRUE(second.send(two, Message(T_SLEEPMS).put(2000).sent()));
    first.until([] { return seen().running == 2; }, 3 * kNsPerSec);
    EXPECT_EQ(seen().running_max, 2u);
    EXPECT_TRUE(is_success(first.wait(one)));
    const Reply last = second.wait(two);
    EXPECT_TRUE(is_success(last)) << last.answered << " " << word(last, 2) << " " << word(last, 5)
                                  << " " << second.transport().why_down().what;
    svc_exit();
    for (int i = 0; i < 2; ++i)
        svc_rdma_wake(server.xprt());
    server.stop();
}

// A thread that has served one connection, and takes a request of another, leaves the first to the
// others.
TEST(B66, AThreadKeepsNoConnectionWhileItServesAnother) {
    Server server(make_opts(RPCRDMA_SVC_THREADS), LoopKind::run, 2);
    Client served(server.address()), other(server.address()), slow(server.address());
    for (Client* const client : {&served, &other, &slow})
        ASSERT_TRUE(is_success(null_call(*client)));
    Client::Flight one, two, three;
    ASSERT_TRUE(served.send(one, Message(T_SLEEPMS).put(500).sent()));
    ASSERT_TRUE(other.send(two, Message(T_SLEEPMS).put(1000).sent()));
    served.until([] { return seen().running == 2; }, 3 * kNsPerSec);
    // Waits for the thread that is ready first.
    ASSERT_TRUE(slow.send(three, Message(T_SLEEPMS).put(4000).sent()));
    EXPECT_TRUE(is_success(served.wait(one)));
    EXPECT_TRUE(is_success(other.wait(two)));
    EXPECT_TRUE(is_success(null_call(served)));
    EXPECT_FALSE(three.done);
    EXPECT_TRUE(is_success(slow.wait(three)));
    svc_exit();
    for (int i = 0; i < 2; ++i)
        svc_rdma_wake(server.xprt());
    server.stop();
}

// One wake-up is for all of them.
TEST(SvcServe, AllThreadsOfSvcRunEndAfterAnExit) {
    constexpr unsigned kThreads = 4;
    for (int round = 0; round < 20; ++round) {
        const rpcrdma_opts opts = make_opts(RPCRDMA_SVC_THREADS);
        SVCXPRT* const xprt = svc_rdma_create((own_address() + ":0").c_str(), &opts);
        ASSERT_NE(xprt, nullptr) << rpcrdma_strerror();
        std::atomic<unsigned> ended{0};
        std::vector<std::thread> threads;
        for (unsigned i = 0; i < kThreads; ++i) {
            threads.emplace_back([&ended] {
                svc_run();
                ++ended;
            });
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        svc_exit();
        svc_rdma_wake(xprt);
        for (int i = 0; i < 1000 && ended != kThreads; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        EXPECT_EQ(ended, kThreads);
        while (ended != kThreads) {
            svc_rdma_wake(xprt);
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        for (std::thread& thread : threads)
            thread.join();
        svc_destroy(xprt);
    }
}

// Connections that come and go, with none to five calls, gracefully and not.
TEST(B34, ChurnLeavesNothing) {
    Server server;
    const auto churn = [&](std::uint32_t seed, int rounds) {
        for (int i = 0; i < rounds; ++i) {
            Client client(server.address());
            const auto calls = (static_cast<std::uint32_t>(i) + seed) % 6;
            std::vector<Client::Flight> flights(calls);
            for (std::uint32_t k = 0; k + 1 < calls; ++k)
                EXPECT_TRUE(is_success(null_call(client)));
            if (calls != 0 && client.send(flights[0], Message(T_NULL).sent())) {
                client.transport().close();  // with a call in flight
                client.until([&] { return flights[0].done; });
                client.transport().put_rqst(*flights[0].rqst);
            }
        }
    };
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t)
        threads.emplace_back(churn, t, 12);
    for (std::thread& thread : threads)
        thread.join();
    Client client(server.address());
    EXPECT_TRUE(is_success(null_call(client)));
    client.until([&] { return server.stats().connections == 1; });
    EXPECT_EQ(server.stats().connections, 1u);
}

}  // namespace
}  // namespace nfsrdma::tirpc::svc_test
