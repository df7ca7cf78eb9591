#include "verbs/softroce/udp_socket.hpp"

#include <cerrno>
#include <sys/socket.h>
#include <thread>

#include <gtest/gtest.h>

namespace nfsrdma::verbs::softroce {
namespace {

const SockAddr kHere = SockAddr::v4(0x7F2B0301, 0);

TEST(UdpSocket, SaysWhatItGot) {
    auto socket = open_udp_socket({.bind = kHere}, kHere, Sharing::alone);
    ASSERT_TRUE(socket);
    EXPECT_TRUE(socket->bound.same_address(kHere));
    EXPECT_NE(socket->bound.port(), 0);
    EXPECT_LT(socket->bound.port(), kFirstEntropyPort);
    EXPECT_EQ(socket->mtu, 4096u);
    int given = 0;
    socklen_t size = sizeof given;
    ASSERT_EQ(::getsockopt(socket->fd.get(), SOL_SOCKET, SO_RCVBUF, &given, &size), 0);
    EXPECT_LE(socket->window, static_cast<std::uint32_t>(given));
    EXPECT_GT(socket->window, 0u);
}

TEST(UdpSocket, ANarrowWayMakesASmallMtu) {
    const auto mtu_at_most = [](std::uint32_t max) {
        UdpOptions options{.bind = kHere};
        options.path_mtu_max = max;
        return open_udp_socket(options, kHere, Sharing::alone)->mtu;
    };
    EXPECT_EQ(mtu_at_most(4096), 4096u);
    EXPECT_EQ(mtu_at_most(4095), 2048u);
    EXPECT_EQ(mtu_at_most(1024), 1024u);
    EXPECT_EQ(mtu_at_most(0), 256u) << "the least that there is";
}

TEST(UdpSocket, ASmallBufferMakesASmallWindow) {
    auto small =
        open_udp_socket({.bind = kHere, .receive_buffer_bytes = 65'536}, kHere, Sharing::alone);
    ASSERT_TRUE(small);
    EXPECT_LE(small->window, 128u * 1024);
}

TEST(UdpSocket, APortThatIsFreedInTimeIsTaken) {
    auto first = open_udp_socket({.bind = kHere}, kHere, Sharing::alone);
    ASSERT_TRUE(first);
    const SockAddr at = first->bound;
    auto refused = open_udp_socket({.bind = at, .bind_patience_ms = 0}, at, Sharing::alone);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().sys, EADDRINUSE);
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        first->fd.reset();
    });
    EXPECT_TRUE(open_udp_socket({.bind = at, .bind_patience_ms = 50'000}, at, Sharing::alone));
    later.join();
}

TEST(UdpSocket, OnlyThoseWhoAreToldToJoinShareAPort) {
    auto first = open_udp_socket({.bind = kHere}, kHere, Sharing::first);
    ASSERT_TRUE(first);
    const SockAddr at = first->bound;
    EXPECT_FALSE(open_udp_socket({.bind = at, .bind_patience_ms = 0}, at, Sharing::alone));
    EXPECT_FALSE(open_udp_socket({.bind = at, .bind_patience_ms = 0}, at, Sharing::first));
    EXPECT_TRUE(open_udp_socket({.bind = at, .bind_patience_ms = 0}, at, Sharing::joins));
    EXPECT_TRUE(steer_by_qpn(first->fd.get(), 2));
}

TEST(UdpSocket, RouteTowardsAPeer) {
    const SockAddr any = SockAddr::v4(0, 0);
    auto route = route_towards(any, SockAddr::v4(0x7F000001, 4791));
    ASSERT_TRUE(route);
    EXPECT_TRUE(route->local.is_loopback());
    EXPECT_EQ(route->mtu, 4096u);
    EXPECT_EQ(route_towards(any, SockAddr::v6(in6addr_loopback, 4791)).error().sys, EAFNOSUPPORT);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
