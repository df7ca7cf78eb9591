#include "tirpc/svc_listener.hpp"

#include "tests/tirpc/svc_world.hpp"

namespace nfsrdma::tirpc::svc_test {
namespace {

TEST(SvcListener, ACallIsAnswered) {
    Server server;
    Client client(server.address());
    ASSERT_TRUE(client.connected());
    const Message message(T_NULL);
    const Reply reply = client.call(message.sent());
    EXPECT_TRUE(is_success(reply));
    EXPECT_EQ(word(reply, 0), message.xid);
    EXPECT_EQ(reply.head.size(), 24u);
}

TEST(SvcListener, ArgumentsAndResultsAreThoseOfTheService) {
    Server server;
    Client client(server.address());
    const Reply reply = client.call(Message(T_ADD).put(40).put(2).sent());
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(word(reply, 6), 42u);
}

// Requests that nobody took, and connections that nobody registered, end with the listener.
TEST(SvcListener, ADestroyedListenerDropsWhatItHas) {
    auto made = SvcListener::create(*SockAddr::parse(own_address(), 0), *check_options(nullptr));
    ASSERT_TRUE(static_cast<bool>(made));
    auto handed = SvcListener::hand_over(*std::move(made));
    ASSERT_TRUE(static_cast<bool>(handed));
    SVCXPRT* const xprt = *handed;
    Client client(*SockAddr::parse(own_address(), xprt->xp_port));
    Client idle(*SockAddr::parse(own_address(), xprt->xp_port));
    Client::Flight flight;
    ASSERT_TRUE(client.send(flight, Message(T_NULL).sent()));
    rpcrdma_stats stats{};
    stats.size = sizeof stats;
    ASSERT_TRUE(client.until([&] {
        SVC_CONTROL(xprt, SVCRDMA_GET_STATS, &stats);
        return stats.calls == 1;
    }));
    // In another thread: its end takes the clients' answers.
    std::thread end([xprt] { svc_destroy(xprt); });
    EXPECT_FALSE(client.wait(flight).answered);
    EXPECT_TRUE(idle.until([&] { return !idle.connected(); }));
    end.join();
}

// An idle connection gives way to a new one; one that is not idle does not.
TEST(SvcListener, MoreConnectionsThanMayBeEndTheOneThatWasIdleLongest) {
    rpcrdma_opts opts = make_opts();
    opts.connections_max = 3;
    Server server(opts);
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(std::make_unique<Client>(server.address()));
        ASSERT_TRUE(is_success(clients.back()->call(Message(T_NULL).sent())));
    }
    {
        server.listener().set_idle_limit(UINT64_MAX);
        Client refused(server.address());
        EXPECT_TRUE(refused.until([&] { return !refused.connected(); }));
    }
    // Their acknowledgements go out meanwhile.
    clients[0]->until([] { return false; }, 500 * kNsPerMs);
    server.listener().set_idle_limit(100 * kNsPerMs);
    Client late(server.address());
    EXPECT_TRUE(is_success(late.call(Message(T_NULL).sent())));
    int living = 0;
    for (const auto& client : clients) {
        client->until([&] { return !client->connected(); }, 100 * kNsPerMs);
        living += client->connected() ? 1 : 0;
    }
    EXPECT_EQ(living, 2);
    EXPECT_FALSE(clients[0]->connected());
}

// A connection whose arguments are being fetched is not idle, however long that takes.
TEST(SvcListener, ACallUnderWayDoesNotGiveWay) {
    rpcrdma_opts opts = make_opts();
    opts.connections_max = 1;
    Server server(opts);
    server.listener().set_idle_limit(100 * kNsPerMs);
    Client client(server.address());
    ASSERT_TRUE(is_success(client.call(Message(T_NULL).sent())));
    Message echo(T_ECHO);
    const std::vector<char> data = pattern(200000, 2);
    echo.put(static_cast<std::uint32_t>(data.size()));
    Sent sent = echo.sent();
    sent.payload = data;
    sent.result_room = 200000;
    Client::Flight flight;
    ASSERT_TRUE(client.send(flight, sent));
    client.loop().run_once(0);
    // Nothing drives this client, so that its data stays where it is. A Client drives those of its
    // own thread.
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::thread another([&server] {
        Client refused(server.address());
        EXPECT_TRUE(refused.until([&] { return !refused.connected(); }));
    });
    another.join();
    EXPECT_EQ(server.listener().counts().reaped, 0u);
    const Reply reply = client.wait(flight);
    EXPECT_TRUE(is_success(reply));
    EXPECT_EQ(reply.payload, data);
}

// What svc_run polls, of which another thread may take a copy at any time, never grows: there are
// slots for all connections of all listeners.
TEST(SvcListener, ForThreadsThereAreSlotsBefore) {
    rpcrdma_opts opts = make_opts(RPCRDMA_SVC_THREADS);
    opts.connections_max = 40;
    const auto free_slots = [] {
        int count = 0;
        for (int i = 0; i < svc_max_pollfd; ++i)
            count += svc_pollfd[i].fd == -1 ? 1 : 0;
        return count;
    };
    const int before = svc_pollfd == nullptr ? 0 : free_slots();
    SVCXPRT* const first = svc_rdma_create((own_address(0) + ":0").c_str(), &opts);
    ASSERT_NE(first, nullptr) << rpcrdma_strerror();
    const int one = free_slots();
    EXPECT_GE(one, before + 40 + 16);
    SVCXPRT* const second = svc_rdma_create((own_address(1) + ":0").c_str(), &opts);
    ASSERT_NE(second, nullptr) << rpcrdma_strerror();
    EXPECT_GE(free_slots(), one + 40 + 16);
    svc_destroy(second);
    svc_destroy(first);
}

// The objects of connections that are over serve others, after a while; until then there are new
// ones. None are mixed up.
TEST(SvcListener, ConnectionsAfterConnections) {
    Server server;
    for (int i = 0; i < 60; ++i) {
        Client client(server.address());
        const auto a = static_cast<std::uint32_t>(i);
        const Reply reply = client.call(Message(T_ADD).put(a).put(a).sent());
        ASSERT_TRUE(is_success(reply));
        EXPECT_EQ(word(reply, 6), 2 * a);
        if (i == 30) std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    }
}

TEST(SvcListener, TwoHundredConnectionsAreServed) {
    constexpr unsigned kThreads = 4, kEach = 50;
    Server server;
    std::atomic<unsigned> connected{0}, good{0};
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
        threads.emplace_back([&] {
            std::vector<std::unique_ptr<Client>> clients;
            for (unsigned i = 0; i < kEach; ++i) {
                clients.push_back(std::make_unique<Client>(server.address()));
                connected += clients.back()->connected() ? 1 : 0;
                for (const auto& client : clients)
                    client->loop().run_once(0);
            }
            for (int round = 0; round < 3; ++round) {
                for (const auto& client : clients)
                    good += is_success(client->call(Message(T_ADD).put(1).put(1).sent())) ? 1 : 0;
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    EXPECT_EQ(connected, kThreads * kEach);
    EXPECT_EQ(good, 3 * kThreads * kEach);
}

}  // namespace
}  // namespace nfsrdma::tirpc::svc_test
