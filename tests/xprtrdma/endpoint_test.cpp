#include "xprtrdma/endpoint.hpp"

#include <optional>

#include <gtest/gtest.h>

#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"

namespace nfsrdma::test {
namespace {

using xprtrdma::Endpoint;

struct EndpointTest : testing::Test {
    EndpointTest() {
        endpoint = *Endpoint::create(
            *world.client,
            {.connected = [](void* arg) noexcept { ++static_cast<EndpointTest*>(arg)->connected; },
             .drained =
                 [](void* arg, const Error& reason) noexcept {
                     auto& self = *static_cast<EndpointTest*>(arg);
                     ++self.drained;
                     self.why = reason;
                 },
             .arg = this});
    }
    void listen(const RawOptions& raw = {}) {
        listener = std::make_unique<RawListener>(*world.server, LoopWorld::server_address(), raw);
    }
    Result<void> start(const SockAddr& server) {
        auto qp = endpoint->make_queues({.qp = {}, .cq_entries = 256, .private_data = {}});
        EXPECT_TRUE(static_cast<bool>(qp));
        return endpoint->start(server, 2 * kNsPerSec);
    }
    ~EndpointTest() override {
        endpoint->disconnect({Errc::closed, 0, ""});
        EXPECT_TRUE(world.run_until([&] {
            return endpoint->state() == Endpoint::State::closed ||
                   endpoint->state() == Endpoint::State::idle;
        }));
    }
    LoopWorld world;
    std::unique_ptr<RawListener> listener;
    std::unique_ptr<Endpoint> endpoint;
    int connected = 0, drained = 0;
    std::optional<Error> why;
};

TEST_F(EndpointTest, ConnectsOnceAndDrainsOnce) {
    listen();
    ASSERT_TRUE(static_cast<bool>(start(LoopWorld::server_address())));
    EXPECT_EQ(endpoint->state(), Endpoint::State::connecting);
    ASSERT_TRUE(world.run_until([&] { return connected > 0; }));
    EXPECT_EQ(endpoint->inline_limits().send, 1024u);  // ours is the smaller here
    endpoint->disconnect({Errc::closed, 0, "test"});
    endpoint->disconnect({Errc::bad_message, 0, "later"});
    EXPECT_EQ(drained, 0);  // never from inside
    ASSERT_TRUE(world.run_until([&] { return drained > 0; }));
    world.run_for(kNsPerSec);
    EXPECT_EQ(connected, 1);
    EXPECT_EQ(drained, 1);
    EXPECT_EQ(why->code, Errc::closed);  // what ended it first
    EXPECT_TRUE(listener->last().ended);
}

TEST_F(EndpointTest, RefusalIsRefused) {
    listen();
    listener->refuse = true;
    ASSERT_TRUE(static_cast<bool>(start(LoopWorld::server_address())));
    ASSERT_TRUE(world.run_until([&] { return drained > 0; }));
    EXPECT_EQ(why->code, Errc::refused);
    EXPECT_EQ(connected, 0);
}

TEST_F(EndpointTest, SilenceIsTimedOut) {
    ASSERT_TRUE(static_cast<bool>(start(SockAddr::v4(0x7f0001fe, 20049))));
    ASSERT_TRUE(world.run_until([&] { return drained > 0; }, 10 * kNsPerSec));
    EXPECT_EQ(why->code, Errc::timed_out);
}

TEST_F(EndpointTest, NoRouteComesBackAtOnce) {
    in6_addr other{};
    other.s6_addr[15] = 1;
    EXPECT_FALSE(static_cast<bool>(start(SockAddr::v6(other, 20049))));
    EXPECT_EQ(endpoint->state(), Endpoint::State::closed);
}

TEST_F(EndpointTest, DisconnectWhileConnectingDrains) {
    listen();
    ASSERT_TRUE(static_cast<bool>(start(LoopWorld::server_address())));
    endpoint->disconnect({Errc::closed, 0, ""});
    ASSERT_TRUE(world.run_until([&] { return drained > 0; }));
    world.run_for(5 * kNsPerSec);
    EXPECT_EQ(connected, 0);
    EXPECT_EQ(drained, 1);
}

TEST_F(EndpointTest, PeersDisconnectIsReconnect) {
    listen();
    ASSERT_TRUE(static_cast<bool>(start(LoopWorld::server_address())));
    ASSERT_TRUE(world.run_until([&] { return connected > 0; }));
    listener->last().disconnect();
    ASSERT_TRUE(world.run_until([&] { return drained > 0; }));
    EXPECT_EQ(why->code, Errc::reconnect);
}

// The next server may take less, and a call of it may come before its answer is known.
TEST_F(EndpointTest, RenewedItKnowsNothingOfTheLastAgreement) {
    listen();
    const rpcrdma::PrivateData large{
        .remote_invalidation = false, .send_size = 4096, .recv_size = 4096};
    ASSERT_TRUE(static_cast<bool>(
        endpoint->make_queues({.qp = {}, .cq_entries = 256, .private_data = large})));
    ASSERT_TRUE(static_cast<bool>(endpoint->start(LoopWorld::server_address(), 2 * kNsPerSec)));
    ASSERT_TRUE(world.run_until([&] { return connected == 1; }));
    EXPECT_EQ(endpoint->inline_limits().send, 4096u);
    listener->last().disconnect();
    ASSERT_TRUE(world.run_until([&] { return drained == 1; }));
    ASSERT_TRUE(static_cast<bool>(endpoint->renew()));
    EXPECT_EQ(endpoint->inline_limits().send, 1024u);
    EXPECT_EQ(endpoint->inline_limits().recv, 1024u);
}

TEST_F(EndpointTest, RenewedItConnectsAgainByAnotherQueuePair) {
    listen();
    ASSERT_TRUE(static_cast<bool>(start(LoopWorld::server_address())));
    for (int round = 1; round <= 3; ++round) {
        ASSERT_TRUE(world.run_until([&] { return connected == round; }));
        if (round == 3) break;
        listener->last().disconnect();
        ASSERT_TRUE(world.run_until([&] { return drained == round; }));
        EXPECT_EQ(endpoint->state(), Endpoint::State::closed);
        auto qp = endpoint->renew();
        ASSERT_TRUE(static_cast<bool>(qp));
        EXPECT_EQ((*qp)->outstanding(), 0u);
        EXPECT_EQ(endpoint->state(), Endpoint::State::idle);
        ASSERT_TRUE(static_cast<bool>(endpoint->start(LoopWorld::server_address(), 2 * kNsPerSec)));
    }
    EXPECT_EQ(listener->conns.size(), 3u);
}

}  // namespace
}  // namespace nfsrdma::test
