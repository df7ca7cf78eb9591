#include "tools/rpcrdma_bench/udp_spin.hpp"

#include <array>
#include <chrono>
#include <cstdio>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock_addr.hpp"

namespace nfsrdma::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPingBytes = 128;

int open_socket(const SockAddr& address) {
    const int fd = socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, address.sa(), address.sa_len()) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

int serve_udp_spin(const std::string& address) {
    auto local = SockAddr::parse(address, 0);
    const int fd = local ? open_socket(*local) : -1;
    if (fd < 0) return 1;
    sockaddr_in6 bound{};
    socklen_t length = sizeof bound;
    sockaddr* any = static_cast<sockaddr*>(static_cast<void*>(&bound));
    getsockname(fd, any, &length);
    (void)std::printf("%d\n", SockAddr::from(any).port());
    (void)std::fflush(stdout);
    std::array<char, 2048> bytes;
    auto last = Clock::now();
    while (true) {
        length = sizeof bound;
        const ssize_t n = recvfrom(fd, bytes.data(), bytes.size(), 0, any, &length);
        if (n >= 0) {
            sendto(fd, bytes.data(), static_cast<std::size_t>(n), 0, any, length);
            last = Clock::now();
        } else if (seconds_since(last) > 0.001) {
            pollfd p{fd, POLLIN, 0};
            poll(&p, 1, -1);
            last = Clock::now();
        }
    }
}

UdpSpinClient::UdpSpinClient(const std::string& address, int port) {
    auto any = SockAddr::parse("127.0.0.1", 0);
    auto peer = SockAddr::parse(address, static_cast<std::uint16_t>(port));
    if (!any || !peer) return;
    fd_ = open_socket(*any);
    if (fd_ >= 0 && connect(fd_, peer->sa(), peer->sa_len()) != 0) {
        close(fd_);
        fd_ = -1;
    }
}

UdpSpinClient::~UdpSpinClient() {
    if (fd_ >= 0) close(fd_);
}

double UdpSpinClient::round_trip(double seconds) const {
    if (fd_ < 0) return -1;
    std::array<char, kPingBytes> ping{};
    const auto start = Clock::now();
    long trips = 0;
    double elapsed = 0;
    while ((elapsed = seconds_since(start)) < seconds) {
        for (int i = 0; i < 64; ++i) {
            if (send(fd_, ping.data(), ping.size(), 0) < 0) return -1;
            const auto sent = Clock::now();
            while (recv(fd_, ping.data(), ping.size(), 0) < 0) {
                if (seconds_since(sent) > 1) return -1;
            }
            ++trips;
        }
    }
    return elapsed / static_cast<double>(trips);
}

}  // namespace nfsrdma::bench
