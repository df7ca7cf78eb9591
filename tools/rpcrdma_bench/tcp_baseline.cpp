#include "tools/rpcrdma_bench/tcp_baseline.hpp"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::bench {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kSend = 1u << 20, kSlots = 8;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

// One stream to its end; then the peer hears how much has come.
void receive_stream(int fd, std::vector<std::byte>& target) {
    std::uint64_t total = 0;
    while (true) {
        const std::size_t at = (total / kSend % kSlots) * kSend + total % kSend;
        const ssize_t n = recv(fd, target.data() + at, kSend - total % kSend, 0);
        if (n <= 0) break;
        total += static_cast<std::uint64_t>(n);
    }
    send(fd, &total, sizeof total, MSG_NOSIGNAL);
}

}  // namespace

int serve_tcp_stream(const std::string& address) {
    auto local = SockAddr::parse(address, 0);
    if (!local) return 1;
    const UniqueFd listener(socket(local->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(listener.get(), local->sa(), local->sa_len()) != 0) return 1;
    if (listen(listener.get(), 4) != 0) return 1;
    sockaddr_in6 bound{};
    socklen_t length = sizeof bound;
    sockaddr* any = static_cast<sockaddr*>(static_cast<void*>(&bound));
    getsockname(listener.get(), any, &length);
    (void)std::printf("%d\n", SockAddr::from(any).port());
    (void)std::fflush(stdout);
    std::vector<std::byte> target(kSend * kSlots);
    while (true) {
        const UniqueFd stream(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (stream) receive_stream(stream.get(), target);
    }
}

TcpStreamClient::TcpStreamClient(const std::string& address, int port)
    : address_(address), port_(port), payload_(kSend * kSlots, std::byte{0x5A}) {}

double TcpStreamClient::rate(double seconds) {
    auto peer = SockAddr::parse(address_, static_cast<std::uint16_t>(port_));
    if (!peer) return -1;
    const UniqueFd stream(socket(peer->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connect(stream.get(), peer->sa(), peer->sa_len()) != 0) return -1;
    const auto start = Clock::now();
    for (std::size_t slot = 0; seconds_since(start) < seconds; slot = (slot + 1) % kSlots) {
        for (std::size_t done = 0; done < kSend;) {
            const ssize_t n = send(stream.get(), payload_.data() + slot * kSend + done,
                                   kSend - done, MSG_NOSIGNAL);
            if (n <= 0) return -1;
            done += static_cast<std::size_t>(n);
        }
    }
    shutdown(stream.get(), SHUT_WR);
    std::uint64_t total = 0;
    if (recv(stream.get(), &total, sizeof total, MSG_WAITALL) != sizeof total) return -1;
    return static_cast<double>(total) / seconds_since(start);
}

}  // namespace nfsrdma::bench
