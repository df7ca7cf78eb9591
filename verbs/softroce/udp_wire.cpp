#include "verbs/softroce/udp_wire.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <netinet/udp.h>
#include <poll.h>
#include <span>
#include <sys/socket.h>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/unique_fd.hpp"
#include "verbs/softroce/icrc.hpp"
#include "verbs/softroce/udp_socket.hpp"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint32_t kBthBytes = 12, kTailMax = 3 + kIcrcBytes;
constexpr std::uint32_t kSegmentsMax = 64;        // of UDP_SEGMENT
constexpr std::uint32_t kBatchBytesMax = 65'000;  // below 64 KiB less the IPv6 and UDP headers
constexpr std::uint32_t kBatchesMax = 16;         // a sendmmsg
constexpr std::uint32_t kPacketsMax = 256;        // queued, all batches
constexpr std::uint32_t kPiecesMax = kPacketsMax * (kPayloadPieces + 1) + kBatchesMax;
constexpr std::uint32_t kReceiveBytes = 65'536;
constexpr std::uint32_t kReceivesPerPoll = 8;
constexpr int kSendWaitMs = 10;  // for room in the socket; after that the packets are lost
// Ancillary data of one message: segment size and our address.
struct Ancillary {
    alignas(cmsghdr) std::array<std::byte, 128> bytes;
};

// Consecutive packets to one destination that go down in one sendmsg.
struct Batch {
    SockAddr local, peer;
    IcrcHead icrc_head;
    std::uint32_t qpn = 0;
    std::uint32_t packets = 0, bytes = 0, segment_size = 0;
    bool closed = false;  // its last packet was shorter
    std::uint32_t first_piece = 0, pieces = 0;
};

class UdpWire final : public Wire {
  public:
    explicit UdpWire(UdpSocket socket)
        : fd_(std::move(socket.fd)),
          bound_(socket.bound),
          mtu_(socket.mtu),
          window_(socket.window),
          meta_(std::size_t{kPacketsMax} * (kHeaderMax + kTailMax)),
          pieces_(kPiecesMax),
          receive_buffer_(kReceiveBytes) {}

    void send(const Path& path, const TxPacket& packet) noexcept override;
    void flush() noexcept override;
    std::uint32_t poll(RxSink& sink) noexcept override;
    Result<SockAddr> local_towards(const SockAddr& peer) noexcept override;
    std::uint32_t mtu() const noexcept override { return mtu_; }
    std::uint32_t receive_window() const noexcept override { return window_; }
    std::uint16_t port() const noexcept override { return bound_.port(); }
    int fd() const noexcept override { return fd_.get(); }

  private:
    Batch& batch_for(const Path& path, std::uint32_t qpn, std::uint32_t size) noexcept;
    void append_meta(Batch& batch, std::span<const std::byte> bytes) noexcept;
    void append_piece(Batch& batch, const std::byte* data, std::uint32_t size) noexcept;
    void fill_message(const Batch& batch, msghdr& message, Ancillary& ancillary) noexcept;
    std::uint32_t send_some(std::uint32_t first) noexcept;
    void on_send_error(const Batch& batch, int error) noexcept;
    std::uint32_t deliver(std::span<std::byte> bytes, std::uint32_t segment_size,
                          const RxPacket& addresses, RxSink& sink) noexcept;
    bool check_icrc(const RxPacket& packet, IcrcHead& head, std::uint16_t segment) noexcept;
    std::uint32_t read_ancillary(msghdr& message, SockAddr& to) noexcept;

    UniqueFd fd_;
    SockAddr bound_;
    std::uint32_t mtu_, window_;
    bool segmentation_ = true;

    std::array<Batch, kBatchesMax> batches_;
    std::uint32_t batches_used_ = 0, packets_queued_ = 0;
    std::vector<std::byte> meta_;  // headers, pads and ICRCs of what is queued, in order
    std::uint32_t meta_used_ = 0;
    std::vector<iovec> pieces_;
    std::uint32_t pieces_used_ = 0;
    std::array<mmsghdr, kBatchesMax> messages_{};
    std::array<Ancillary, kBatchesMax> ancillaries_{};

    std::vector<std::byte> receive_buffer_;
    Ancillary receive_ancillary_{};
};

void UdpWire::send(const Path& path, const TxPacket& packet) noexcept {
    NR_ASSERT(packet.header.size() >= kBthBytes && packet.header.size() <= kHeaderMax);
    NR_ASSERT(packet.payload.size() <= kPayloadPieces && packet.pad < 4);
    std::uint32_t size = static_cast<std::uint32_t>(packet.header.size()) + packet.pad + kIcrcBytes;
    for (const PayloadPiece& piece : packet.payload)
        size += piece.size;
    Batch& batch = batch_for(path, load_be24(packet.header.data() + 5), size);

    const auto id = static_cast<std::uint16_t>(batch.packets);
    const std::uint32_t icrc = icrc_of(batch.icrc_head, id, packet) ^ packet.icrc_xor;
    append_meta(batch, packet.header);
    for (const PayloadPiece& piece : packet.payload)
        append_piece(batch, piece.data, piece.size);
    std::array<std::byte, kTailMax> tail{};
    store_icrc(tail.data() + packet.pad, icrc);
    append_meta(batch, std::span(tail).first(packet.pad + kIcrcBytes));

    ++batch.packets;
    batch.bytes += size;
    if (batch.segment_size == 0) batch.segment_size = size;
    if (size < batch.segment_size || !segmentation_) batch.closed = true;
    ++packets_queued_;
    ++counters_.tx_packets;
    counters_.tx_bytes += size;
}

// The open batch that takes a packet of `size`, or a new one.
Batch& UdpWire::batch_for(const Path& path, std::uint32_t qpn, std::uint32_t size) noexcept {
    if (packets_queued_ == kPacketsMax) flush();
    if (batches_used_ > 0) {
        Batch& last = batches_[batches_used_ - 1];
        // One queue pair: a receiver with several loops steers a whole batch by its first packet.
        if (!last.closed && last.qpn == qpn && size <= last.segment_size &&
            last.packets < kSegmentsMax && last.bytes + size <= kBatchBytesMax &&
            last.peer == path.peer && last.local == path.local) {
            return last;
        }
    }
    if (batches_used_ == kBatchesMax) flush();
    Batch& batch = batches_[batches_used_++];
    batch = Batch{};
    batch.local = path.local;
    batch.peer = path.peer;
    batch.icrc_head = IcrcHead(path.local, path.peer);
    batch.qpn = qpn;
    batch.first_piece = pieces_used_;
    return batch;
}

// A packet's tail and the next one's header lie side by side: one piece.
void UdpWire::append_meta(Batch& batch, std::span<const std::byte> bytes) noexcept {
    std::byte* to = meta_.data() + meta_used_;
    std::memcpy(to, bytes.data(), bytes.size());
    meta_used_ += static_cast<std::uint32_t>(bytes.size());
    if (batch.pieces > 0) {
        iovec& last = pieces_[pieces_used_ - 1];
        if (static_cast<std::byte*>(last.iov_base) + last.iov_len == to) {
            last.iov_len += bytes.size();
            return;
        }
    }
    pieces_[pieces_used_++] = {to, bytes.size()};
    ++batch.pieces;
}

void UdpWire::append_piece(Batch& batch, const std::byte* data, std::uint32_t size) noexcept {
    if (size == 0) return;
    // The kernel only reads what an iovec of sendmsg names.
    pieces_[pieces_used_++] = {const_cast<std::byte*>(data), size};
    ++batch.pieces;
}

void UdpWire::flush() noexcept {
    std::uint32_t next = 0;
    while (next < batches_used_)
        next += send_some(next);
    batches_used_ = packets_queued_ = meta_used_ = pieces_used_ = 0;
}

// Sends or drops batches from `first` on; returns how many.
std::uint32_t UdpWire::send_some(std::uint32_t first) noexcept {
    const std::uint32_t count = batches_used_ - first;
    for (std::uint32_t i = 0; i < count; ++i) {
        fill_message(batches_[first + i], messages_[i].msg_hdr, ancillaries_[i]);
    }
    ++counters_.tx_calls;
    int sent = ::sendmmsg(fd_.get(), messages_.data(), count, MSG_DONTWAIT);
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
        pollfd writable{fd_.get(), POLLOUT, 0};
        if (::poll(&writable, 1, kSendWaitMs) > 0) {
            sent = ::sendmmsg(fd_.get(), messages_.data(), count, MSG_DONTWAIT);
        }
    }
    if (sent > 0) return static_cast<std::uint32_t>(sent);
    on_send_error(batches_[first], errno);
    return 1;
}

void UdpWire::on_send_error(const Batch& batch, int error) noexcept {
    counters_.tx_errors += batch.packets;
    // A route whose device cannot segment; what was dropped is sent again, one by one.
    if (batch.packets > 1 && (error == EIO || error == EINVAL)) segmentation_ = false;
}

void UdpWire::fill_message(const Batch& batch, msghdr& message, Ancillary& ancillary) noexcept {
    message = {};
    message.msg_name = const_cast<sockaddr*>(batch.peer.sa());
    message.msg_namelen = batch.peer.sa_len();
    message.msg_iov = pieces_.data() + batch.first_piece;
    message.msg_iovlen = batch.pieces;
    message.msg_control = ancillary.bytes.data();
    message.msg_controllen = ancillary.bytes.size();
    std::memset(ancillary.bytes.data(), 0, ancillary.bytes.size());
    std::size_t used = 0;
    cmsghdr* control = CMSG_FIRSTHDR(&message);
    const auto add = [&](int level, int type, const auto& value) {
        control->cmsg_level = level;
        control->cmsg_type = type;
        control->cmsg_len = CMSG_LEN(sizeof value);
        std::memcpy(CMSG_DATA(control), &value, sizeof value);
        used += CMSG_SPACE(sizeof value);
        control = CMSG_NXTHDR(&message, control);
    };
    if (batch.packets > 1) {
        add(IPPROTO_UDP, UDP_SEGMENT, static_cast<std::uint16_t>(batch.segment_size));
    }
    if (bound_.is_any()) {
        const auto gid = batch.local.gid();
        if (batch.local.is_v4()) {
            in_pktinfo info{};
            std::memcpy(&info.ipi_spec_dst, gid.data() + 12, 4);
            add(IPPROTO_IP, IP_PKTINFO, info);
        } else {
            in6_pktinfo info{};
            std::memcpy(&info.ipi6_addr, gid.data(), gid.size());
            add(IPPROTO_IPV6, IPV6_PKTINFO, info);
        }
    }
    message.msg_controllen = used;
    if (used == 0) message.msg_control = nullptr;
}

std::uint32_t UdpWire::poll(RxSink& sink) noexcept {
    std::uint32_t delivered = 0;
    for (std::uint32_t i = 0; i < kReceivesPerPoll; ++i) {
        sockaddr_storage from{};
        iovec piece{receive_buffer_.data(), receive_buffer_.size()};
        msghdr message{};
        message.msg_name = &from;
        message.msg_namelen = sizeof from;
        message.msg_iov = &piece;
        message.msg_iovlen = 1;
        message.msg_control = receive_ancillary_.bytes.data();
        message.msg_controllen = receive_ancillary_.bytes.size();
        const ssize_t size = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
        if (size < 0) break;
        ++counters_.rx_calls;
        RxPacket addresses;
        addresses.from = SockAddr::from(static_cast<const sockaddr*>(message.msg_name));
        addresses.to = bound_;
        const std::uint32_t segment_size = read_ancillary(message, addresses.to);
        const auto bytes =
            std::span<std::byte>(receive_buffer_).first(static_cast<std::size_t>(size));
        delivered += deliver(bytes, segment_size, addresses, sink);
    }
    return delivered;
}

// Segment size of a batch, 0 for a single packet; the address that it was sent to, where we listen
// at any.
std::uint32_t UdpWire::read_ancillary(msghdr& message, SockAddr& to) noexcept {
    std::uint32_t segment_size = 0;
    for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        const auto read = [&](auto& value) { std::memcpy(&value, CMSG_DATA(c), sizeof value); };
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
            int size = 0;
            read(size);
            segment_size = size > 0 ? static_cast<std::uint32_t>(size) : 0;
        } else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL) {
            std::uint32_t dropped = 0;  // since the socket was made
            read(dropped);
            counters_.rx_overflows = dropped;
        } else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            in_pktinfo info{};
            read(info);
            std::array<std::byte, 4> address;
            std::memcpy(address.data(), &info.ipi_addr, sizeof info.ipi_addr);
            to = SockAddr::v4(load_be32(address.data()), bound_.port());
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            in6_pktinfo info{};
            read(info);
            const bool scoped = IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr);
            to = SockAddr::v6(info.ipi6_addr, bound_.port(), scoped ? info.ipi6_ifindex : 0);
        }
    }
    return segment_size;
}

std::uint32_t UdpWire::deliver(std::span<std::byte> bytes, std::uint32_t segment_size,
                               const RxPacket& addresses, RxSink& sink) noexcept {
    if (segment_size == 0) segment_size = static_cast<std::uint32_t>(bytes.size());
    std::uint32_t delivered = 0;
    RxPacket packet = addresses;
    IcrcHead head(addresses.from, addresses.to);
    if (bytes.empty()) {
        ++counters_.rx_packets;
        ++counters_.rx_short;
    }
    for (std::uint16_t segment = 0; !bytes.empty(); ++segment) {
        const std::size_t size = std::min<std::size_t>(segment_size, bytes.size());
        if (tamper_ != nullptr) tamper_->on_raw(bytes.first(size));
        packet.bytes = bytes.first(size);
        bytes = bytes.subspan(size);
        ++counters_.rx_packets;
        counters_.rx_bytes += size;
        if (size < kBthBytes + kIcrcBytes) {
            ++counters_.rx_short;
        } else if (!check_icrc(packet, head, segment)) {
            ++counters_.rx_bad_icrc;
        } else {
            packet.bytes = packet.bytes.first(size - kIcrcBytes);
            sink.on_packet(packet);
            ++delivered;
        }
    }
    return delivered;
}

bool UdpWire::check_icrc(const RxPacket& packet, IcrcHead& head, std::uint16_t segment) noexcept {
    const auto covered = packet.bytes.first(packet.bytes.size() - kIcrcBytes);
    const std::uint32_t received = load_icrc(covered.data() + covered.size());
    const std::uint32_t computed = icrc_of(head, segment, covered);
    if (computed == received) return true;
    if (!packet.to.is_v4()) return false;
    const auto id = solve_ip_id(computed, received, segment, packet.bytes.size());
    counters_.rx_solved_ip_id += id.has_value();
    return id.has_value();
}

Result<SockAddr> UdpWire::local_towards(const SockAddr& peer) noexcept {
    NR_TRY_ASSIGN(const Route route, route_towards(bound_, peer));
    return route.local.with_port(bound_.port());
}

Result<void> check_options(const UdpOptions& options) noexcept {
    if (!options.bind.is_v4() && !options.bind.is_v6()) {
        return Error{Errc::invalid_argument, 0, "softroce: bind to an IP address"};
    }
    if (options.bind.port() >= kFirstEntropyPort) {
        return Error{Errc::invalid_argument, 0, "softroce: UDP port must be below 49152"};
    }
    return {};
}

Result<std::unique_ptr<Wire>> create_wire(const UdpOptions& options, const SockAddr& address,
                                          Sharing sharing) {
    NR_TRY_ASSIGN(UdpSocket socket, open_udp_socket(options, address, sharing));
    return std::unique_ptr<Wire>(std::make_unique<UdpWire>(std::move(socket)));
}

}  // namespace

Result<std::unique_ptr<Wire>> create_udp_wire(const UdpOptions& options) {
    NR_TRY(check_options(options));
    return create_wire(options, options.bind, Sharing::alone);
}

Result<std::unique_ptr<Wire>> create_udp_wire_at_address(UdpOptions options) {
    options.bind = options.bind.with_port(kRoceV2Port);
    options.bind_patience_ms = 0;
    auto wire = create_udp_wire(options);
    if (wire || wire.error().sys != EADDRINUSE) return wire;
    options.bind = options.bind.with_port(0);
    return create_udp_wire(options);
}

Result<std::unique_ptr<Wire>> create_udp_wire_towards(const SockAddr& peer) {
    const SockAddr any = peer.is_v6() ? SockAddr::v6(in6addr_any, 0) : SockAddr::v4(0, 0);
    NR_TRY_ASSIGN(const Route route, route_towards(any, peer));
    UdpOptions options;
    options.bind = route.local;
    options.path_mtu_max = route.mtu;
    return create_udp_wire_at_address(options);
}

Result<std::vector<std::unique_ptr<Wire>>> create_udp_wires(const UdpOptions& options,
                                                            std::uint32_t count) {
    NR_TRY(check_options(options));
    if (count == 0 || count > 64) {
        return Error{Errc::invalid_argument, 0, "softroce: 1 to 64 loops"};
    }
    std::vector<std::unique_ptr<Wire>> wires;
    SockAddr address = options.bind;
    const Sharing first = count == 1 ? Sharing::alone : Sharing::first;
    for (std::uint32_t i = 0; i < count; ++i) {
        NR_TRY_ASSIGN(auto wire, create_wire(options, address, i == 0 ? first : Sharing::joins));
        address = address.with_port(wire->port());
        wires.push_back(std::move(wire));
    }
    if (count > 1) NR_TRY(steer_by_qpn(wires.front()->fd(), count));
    return wires;
}

}  // namespace nfsrdma::verbs::softroce
