#include "verbs/softroce/group.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tests/verbs/softroce/cm_world.hpp"
#include "verbs/softroce/qp.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using test::End;
using test::run_until;
using test::Server;

constexpr std::uint32_t kLoops = 2;
const SockAddr kGroup = SockAddr::v4(0x7F2B0201, 0), kClient = SockAddr::v4(0x7F2B0202, 0),
               kOther = SockAddr::v4(0x7F2B0203, 0);

// Two loops on two threads behind one port, and a client on this thread.
class GroupTest : public ::testing::Test {
  protected:
    GroupTest() {
        std::array<Loop*, kLoops> loops{};
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            loops_[i] = std::move(*Loop::create({}));
            loops[i] = loops_[i].get();
        }
        auto made = DeviceGroup::create(loops, {.bind = kGroup}, {});
        EXPECT_TRUE(made) << to_string(made.error());
        group_ = std::move(*made);
        client_loop_ = std::move(*Loop::create({}));
        SoftOptions options;
        options.peer_port = group_->local().port();
        for (auto& [device, address] :
             {std::pair{&client_device_, kClient}, std::pair{&other_device_, kOther}}) {
            auto opened = SoftDevice::create(
                *client_loop_, std::move(*create_udp_wire({.bind = address})), options);
            EXPECT_TRUE(opened);
            *device = std::move(*opened);
        }
    }
    void listen_on(std::uint32_t loop) {
        servers_[loop] = std::make_unique<Server>(group_->device(loop), kGroup.with_port(7174));
    }
    void start() {
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            threads_[i] = std::thread([loop = loops_[i].get()] { loop->run(); });
        }
    }
    void stop() {
        for (std::uint32_t i = 0; i < kLoops; ++i) {
            loops_[i]->stop();
            threads_[i].join();
        }
    }
    // From one device, or from two by turns.
    std::vector<std::unique_ptr<End>> connect(std::size_t count, bool by_turns = false) {
        std::vector<std::unique_ptr<End>> clients;
        for (std::size_t i = 0; i < count; ++i) {
            SoftDevice& from = by_turns && i % 2 == 1 ? *other_device_ : *client_device_;
            clients.push_back(std::make_unique<End>(from));
            EXPECT_TRUE(clients.back()->connect(kGroup.with_port(7174)));
            EXPECT_TRUE(run_until(*client_loop_, [&] { return !clients.back()->events.empty(); }));
        }
        return clients;
    }

    std::array<std::unique_ptr<Loop>, kLoops> loops_;
    std::unique_ptr<Loop> client_loop_;
    std::unique_ptr<DeviceGroup> group_;
    std::unique_ptr<SoftDevice> client_device_, other_device_;
    std::array<std::unique_ptr<Server>, kLoops> servers_;
    std::array<std::thread, kLoops> threads_;
};

TEST_F(GroupTest, ConnectionsGoToTheLoopsInTurn) {
    for (std::uint32_t i = 0; i < kLoops; ++i)
        listen_on(i);
    start();
    auto clients = connect(20);
    for (auto& client : clients) {
        EXPECT_TRUE(client->established());
        client->id->disconnect();
    }
    EXPECT_TRUE(run_until(*client_loop_, [&] {
        return std::all_of(clients.begin(), clients.end(), [](auto& c) { return c->over(); });
    }));
    stop();
    for (std::uint32_t i = 0; i < kLoops; ++i) {
        // The last DREQ may still lie in its socket.
        auto& ends = servers_[i]->ends;
        EXPECT_TRUE(run_until(*loops_[i], [&] {
            return std::all_of(ends.begin(), ends.end(), [](auto& end) { return end->over(); });
        }));
        EXPECT_EQ(servers_[i]->requests, 10u);
        for (auto& end : servers_[i]->ends) {
            EXPECT_EQ(end->events.size(), 2u) << "established and disconnected";
            const auto& qp = static_cast<SoftQp&>(*end->id->qp());
            EXPECT_EQ((qp.qpn() & 0xFF) % kLoops, i);
        }
        servers_[i].reset();
    }
}

// Not all of one peer's on one loop and all of the other's on the other.
TEST_F(GroupTest, APeersConnectionsAreSpreadWhoeverElseConnects) {
    for (std::uint32_t i = 0; i < kLoops; ++i)
        listen_on(i);
    start();
    auto clients = connect(8, true);
    clients.clear();
    run_until(
        *client_loop_, [] { return false; }, 20 * kNsPerMs);
    stop();
    for (std::uint32_t i = 0; i < kLoops; ++i) {
        EXPECT_EQ(servers_[i]->requests, 4u);
        for (const SockAddr& peer : {kClient, kOther}) {
            const auto& ends = servers_[i]->ends;
            EXPECT_EQ(std::count_if(ends.begin(), ends.end(),
                                    [&](auto& end) { return end->id->peer().same_address(peer); }),
                      2)
                << peer.to_string() << " on loop " << i;
        }
        servers_[i].reset();
    }
}

TEST_F(GroupTest, OnlyLoopsThatListenGetRequests) {
    listen_on(0);
    start();
    auto clients = connect(4);
    for (auto& client : clients)
        EXPECT_TRUE(client->established());
    clients.clear();
    run_until(
        *client_loop_, [] { return false; }, 20 * kNsPerMs);
    stop();
    EXPECT_EQ(servers_[0]->requests, 4u);
    servers_[0].reset();
}

TEST_F(GroupTest, NobodyListensIsRejected) {
    start();
    auto clients = connect(2);
    for (auto& client : clients)
        EXPECT_EQ(client->events, std::vector{CmEventType::rejected});
    stop();
}

TEST_F(GroupTest, DiesWithMadsOnTheirWay) {
    for (std::uint32_t i = 0; i < kLoops; ++i)
        listen_on(i);
    End one(*client_device_), two(*client_device_);
    EXPECT_TRUE(one.connect(kGroup.with_port(7174)));
    EXPECT_TRUE(two.connect(kGroup.with_port(7174)));
    run_until(
        *client_loop_, [] { return false; }, 5 * kNsPerMs);
    for (int i = 0; i < 10; ++i)
        loops_[1]->run_once(kNsPerMs);  // the home; loop 0 does not run
    for (auto& server : servers_)
        server.reset();
    group_.reset();
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
