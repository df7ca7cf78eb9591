#include "tools/rpcrdma_bench/udp_baseline.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock_addr.hpp"

namespace nfsrdma::bench {
namespace {

using Clock = std::chrono::steady_clock;

// A RoCEv2 packet's shape: header, one path MTU, CRC.
constexpr std::size_t kHeader = 16, kPayload = 4096, kCrc = 4, kPacket = kHeader + kPayload + kCrc;
constexpr std::size_t kPackets = 15, kBatch = kPackets * kPacket;  // a sendmsg
constexpr std::size_t kTargetBytes = 8u << 20;                     // eight writes of 1 MiB
constexpr std::uint64_t kWindow = 1u << 20;  // payload on its way; below the socket's buffer
constexpr std::uint64_t kAckEvery = 4 * kPackets * kPayload;
constexpr int kSocketBuffer = 4 << 20;
constexpr double kPatience = 0.2, kSpin = 50e-6;  // seconds

std::uint32_t crc_of(const std::byte* data, std::size_t size) {
    return crc32_gzip_refl(0, static_cast<const unsigned char*>(static_cast<const void*>(data)),
                           size);
}

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

int open_socket(const SockAddr& address) {
    const int fd = socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBuffer, sizeof kSocketBuffer);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBuffer, sizeof kSocketBuffer);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kSocketBuffer, sizeof kSocketBuffer);
    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);
    if (bind(fd, address.sa(), address.sa_len()) == 0) return fd;
    close(fd);
    return -1;
}

// Receives a run of packets into their place and answers every few batches with how much has come.
class Receiver {
  public:
    explicit Receiver(int fd) : fd_(fd), buffer_(65536), target_(kTargetBytes) {}
    bool step() {
        sockaddr_in6 from{};
        socklen_t length = sizeof from;
        sockaddr* any = static_cast<sockaddr*>(static_cast<void*>(&from));
        const ssize_t n = recvfrom(fd_, buffer_.data(), buffer_.size(), 0, any, &length);
        if (n < 0) return false;
        if (static_cast<std::size_t>(n) < kPacket) {  // a start
            received_ = answered_ = 0;
            return sendto(fd_, &received_, sizeof received_, 0, any, length) > 0;
        }
        for (std::size_t at = 0; at + kPacket <= static_cast<std::size_t>(n); at += kPacket) {
            place(buffer_.data() + at);
        }
        if (received_ - answered_ < kAckEvery) return true;
        answered_ = received_;
        return sendto(fd_, &received_, sizeof received_, 0, any, length) > 0;
    }

  private:
    void place(const std::byte* packet) {
        std::uint64_t offset = 0;
        std::uint32_t crc = 0;
        std::memcpy(&offset, packet, sizeof offset);
        std::memcpy(&crc, packet + kHeader + kPayload, sizeof crc);
        if (crc_of(packet + kHeader, kPayload) != crc || offset > kTargetBytes - kPayload) return;
        std::memcpy(target_.data() + offset, packet + kHeader, kPayload);
        received_ += kPayload;
    }

    int fd_;
    std::vector<std::byte> buffer_, target_;
    std::uint64_t received_ = 0, answered_ = 0;
};

}  // namespace

int serve_udp_stream(const std::string& address) {
    auto local = SockAddr::parse(address, 0);
    const int fd = local ? open_socket(*local) : -1;
    if (fd < 0) return 1;
    sockaddr_in6 bound{};
    socklen_t length = sizeof bound;
    sockaddr* any = static_cast<sockaddr*>(static_cast<void*>(&bound));
    getsockname(fd, any, &length);
    (void)std::printf("%d\n", SockAddr::from(any).port());
    (void)std::fflush(stdout);
    Receiver receiver(fd);
    while (true)
        receiver.step();
}

UdpStreamClient::UdpStreamClient(const std::string& address, int port)
    : payload_(kTargetBytes), headers_(kPackets * kHeader) {
    auto any = SockAddr::parse("127.0.0.1", 0);
    auto peer = SockAddr::parse(address, static_cast<std::uint16_t>(port));
    if (!any || !peer) return;
    fd_ = open_socket(*any);
    if (fd_ >= 0 && connect(fd_, peer->sa(), peer->sa_len()) != 0) {
        close(fd_);
        fd_ = -1;
    }
    for (std::size_t i = 0; i < payload_.size(); ++i)
        payload_[i] = static_cast<std::byte>(i * 31 >> 3);
}

UdpStreamClient::~UdpStreamClient() {
    if (fd_ >= 0) close(fd_);
}

bool UdpStreamClient::send_batch() {
    std::array<iovec, 3 * kPackets> pieces;
    std::array<std::uint32_t, kPackets> crcs;
    for (std::size_t i = 0; i < kPackets; ++i) {
        std::byte* data = payload_.data() + next_;
        std::byte* header = headers_.data() + i * kHeader;
        const std::uint64_t offset = next_;
        std::memcpy(header, &offset, sizeof offset);
        crcs[i] = crc_of(data, kPayload);
        pieces[3 * i] = {header, kHeader};
        pieces[3 * i + 1] = {data, kPayload};
        pieces[3 * i + 2] = {&crcs[i], kCrc};
        next_ = (next_ + kPayload) % kTargetBytes;
    }
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(std::uint16_t))> control{};
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* segment = CMSG_FIRSTHDR(&message);
    segment->cmsg_level = IPPROTO_UDP;
    segment->cmsg_type = UDP_SEGMENT;
    segment->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto size = static_cast<std::uint16_t>(kPacket);
    std::memcpy(CMSG_DATA(segment), &size, sizeof size);
    if (sendmsg(fd_, &message, 0) != static_cast<ssize_t>(kBatch)) return false;
    sent_ += kPackets * kPayload;
    return true;
}

bool UdpStreamClient::take_acks(bool wait) {
    std::uint64_t received = 0;
    if (wait) {
        pollfd readable{fd_, POLLIN, 0};
        if (poll(&readable, 1, static_cast<int>(kPatience * 1000)) <= 0) return false;
    }
    while (recv(fd_, &received, sizeof received, MSG_DONTWAIT) > 0) {
        acknowledged_ = std::max(acknowledged_, received);
    }
    return true;
}

// Spins a little before it sleeps, as the device does; false when nothing comes any more.
bool UdpStreamClient::wait_for_room() {
    const auto start = Clock::now();
    while (sent_ - acknowledged_ + kPackets * kPayload > kWindow) {
        const double waited = seconds_since(start);
        if (waited > kPatience) return false;
        if (!take_acks(waited > kSpin)) return false;
    }
    return true;
}

double UdpStreamClient::rate(double seconds) {
    if (fd_ < 0) return -1;
    sent_ = acknowledged_ = 0;
    const std::uint64_t start_message = 0;
    if (send(fd_, &start_message, sizeof start_message, 0) < 0 || !take_acks(true)) return -1;
    acknowledged_ = 0;
    const auto start = Clock::now();
    while (seconds_since(start) < seconds) {
        while (sent_ - acknowledged_ + kPackets * kPayload <= kWindow) {
            if (!send_batch()) return -1;
            take_acks(false);
        }
        if (sent_ - acknowledged_ + kPackets * kPayload > kWindow && !wait_for_room()) {
            sent_ = acknowledged_;  // what was lost is not counted, and not sent again
        }
    }
    return static_cast<double>(acknowledged_) / seconds_since(start);
}

}  // namespace nfsrdma::bench
