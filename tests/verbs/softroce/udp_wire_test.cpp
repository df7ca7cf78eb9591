#include "verbs/softroce/udp_wire.hpp"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "base/unique_fd.hpp"
#include "verbs/softroce/icrc.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

// Addresses of this file only; UDP ports are free ones, so that tests may run side by side.
const SockAddr kA = SockAddr::v4(0x7F2B0001, 0), kB = SockAddr::v4(0x7F2B0002, 0);
const SockAddr kA6 = SockAddr::v6(in6addr_loopback, 0);

struct Received final : RxSink {
    struct Packet {
        SockAddr from, to;
        std::vector<std::byte> bytes;
    };
    std::vector<Packet> packets;
    void on_packet(const RxPacket& p) noexcept override {
        packets.push_back({p.from, p.to, {p.bytes.begin(), p.bytes.end()}});
    }
};

std::unique_ptr<Wire> make_wire(const SockAddr& bind) {
    auto wire = create_udp_wire({.bind = bind});
    EXPECT_TRUE(wire) << to_string(wire.error());
    return std::move(*wire);
}

void receive(Wire& wire, Received& sink, std::size_t count) {
    for (int tries = 0; tries < 1000 && sink.packets.size() < count; ++tries) {
        if (wire.poll(sink) > 0) continue;
        pollfd readable{wire.fd(), POLLIN, 0};
        ::poll(&readable, 1, 5);
    }
}

// A packet with a recognisable header and payload.
struct TestPacket {
    std::array<std::byte, 28> header{};
    std::vector<std::byte> payload;
    std::array<PayloadPiece, 2> pieces{};
    std::uint8_t pad;

    TestPacket(std::uint32_t qpn, std::uint32_t number, std::size_t size)
        : payload(size), pad(static_cast<std::uint8_t>((4 - size % 4) % 4)) {
        store_u8(header.data(), 0x0A);
        store_be24(header.data() + 5, qpn);
        store_be24(header.data() + 9, number);
        for (std::size_t i = 0; i < size; ++i)
            payload[i] = static_cast<std::byte>(i * 31 + number);
        const auto half = static_cast<std::uint32_t>(size / 2);
        pieces[0] = {payload.data(), half};
        pieces[1] = {payload.data() + half, static_cast<std::uint32_t>(size) - half};
    }
    TxPacket tx() const { return {header, pieces, pad}; }
    std::vector<std::byte> flat() const {
        std::vector<std::byte> bytes(header.begin(), header.end());
        bytes.insert(bytes.end(), payload.begin(), payload.end());
        bytes.resize(bytes.size() + pad);
        return bytes;
    }
};

std::vector<TestPacket> make_packets(std::uint32_t qpn, const std::vector<std::size_t>& sizes) {
    std::vector<TestPacket> packets;
    packets.reserve(sizes.size());  // they point into themselves
    for (std::uint32_t i = 0; i < sizes.size(); ++i)
        packets.emplace_back(qpn, i, sizes[i]);
    return packets;
}

void expect_round_trip(Wire& from, Wire& to, const Path& path,
                       const std::vector<TestPacket>& packets) {
    for (const TestPacket& packet : packets)
        from.send(path, packet.tx());
    from.flush();
    Received got;
    receive(to, got, packets.size());
    ASSERT_EQ(got.packets.size(), packets.size());
    for (std::size_t i = 0; i < packets.size(); ++i) {
        EXPECT_EQ(got.packets[i].bytes, packets[i].flat()) << i;
        EXPECT_EQ(got.packets[i].from, path.local);
        EXPECT_EQ(got.packets[i].to, path.peer);
    }
    EXPECT_EQ(from.counters().tx_errors, 0u);
    EXPECT_EQ(to.counters().rx_bad_icrc, 0u);
}

TEST(UdpWire, EqualPacketsAndAShorterLastOneAreOneCall) {
    auto a = make_wire(kA), b = make_wire(kB);
    const Path path{kA.with_port(a->port()), kB.with_port(b->port())};
    std::vector<std::size_t> sizes(14, 4096);
    sizes.push_back(100);
    expect_round_trip(*a, *b, path, make_packets(5, sizes));
    EXPECT_EQ(a->counters().tx_calls, 1u);
    EXPECT_EQ(a->counters().tx_packets, 15u);
    EXPECT_EQ(b->counters().rx_calls, 1u) << "segments arrive as one";
    EXPECT_EQ(b->counters().rx_solved_ip_id, 0u) << "segment k has IP id k";
}

TEST(UdpWire, EverySizeAndPadOverIpv4) {
    auto a = make_wire(kA), b = make_wire(kB);
    const Path path{kA.with_port(a->port()), kB.with_port(b->port())};
    std::vector<std::size_t> sizes;
    for (std::size_t size = 0; size < 70; ++size)
        sizes.push_back(size);
    for (const std::size_t size : {255u, 256u, 257u, 1024u, 4095u, 4096u})
        sizes.push_back(size);
    expect_round_trip(*a, *b, path, make_packets(5, sizes));
}

TEST(UdpWire, RoundTripOverIpv6Loopback) {
    auto a = make_wire(kA6), b = make_wire(kA6);
    const Path path{kA6.with_port(a->port()), kA6.with_port(b->port())};
    expect_round_trip(*a, *b, path, make_packets(5, {4096, 4096, 4096, 17, 0, 1, 2, 3}));
    EXPECT_EQ(b->counters().rx_solved_ip_id, 0u);
}

TEST(UdpWire, PacketsOfTwoQueuePairsAreTwoBatches) {
    auto a = make_wire(kA), b = make_wire(kB);
    const Path path{kA.with_port(a->port()), kB.with_port(b->port())};
    std::vector<TestPacket> packets;
    packets.reserve(4);
    for (std::uint32_t i = 0; i < 4; ++i)
        packets.emplace_back(5 + i / 2, i, 64);
    expect_round_trip(*a, *b, path, packets);
    EXPECT_EQ(a->counters().tx_calls, 1u) << "one sendmmsg";
    EXPECT_EQ(b->counters().rx_calls, 2u);
}

TEST(UdpWire, MoreThanIsQueuedAtOnceKeepsItsOrder) {
    auto a = make_wire(kA), b = make_wire(kB);
    const Path path{kA.with_port(a->port()), kB.with_port(b->port())};
    std::vector<std::size_t> sizes;
    for (std::size_t i = 0; i < 600; ++i)
        sizes.push_back(i % 7 == 0 ? 300 : 800);
    expect_round_trip(*a, *b, path, make_packets(5, sizes));
}

TEST(UdpWire, AnyAddressAnswersFromTheAddressThatWasAsked) {
    auto any = make_wire(SockAddr::v4(0, 0)), b = make_wire(kB);
    const SockAddr asked = SockAddr::v4(0x7F2B0099, any->port());
    const Path there{kB.with_port(b->port()), asked};
    expect_round_trip(*b, *any, there, make_packets(5, {64, 64, 64}));
    expect_round_trip(*any, *b, Path{asked, there.local}, make_packets(5, {64, 64, 64}));
    auto local = any->local_towards(kB.with_port(4791));
    ASSERT_TRUE(local);
    EXPECT_TRUE(local->is_loopback());
    EXPECT_FALSE(local->is_any());
}

TEST(UdpWire, LocalTowardsSaysWhatIsImpossible) {
    auto a = make_wire(kA);
    auto local = a->local_towards(kB.with_port(4791));
    ASSERT_TRUE(local);
    EXPECT_EQ(*local, kA.with_port(a->port()));
    auto other_family = a->local_towards(kA6.with_port(4791));
    ASSERT_FALSE(other_family);
    EXPECT_EQ(other_family.error().code, Errc::system);
    EXPECT_EQ(other_family.error().sys, EAFNOSUPPORT);
}

TEST(UdpWire, TowardsAPeerTakesTheAddressThatLeadsThere) {
    auto first = create_udp_wire_towards(kB.with_port(7174));
    auto second = create_udp_wire_towards(kB.with_port(7174));
    ASSERT_TRUE(first && second) << "the second takes a free port";
    EXPECT_NE((*first)->port(), (*second)->port());
    EXPECT_LT((*second)->port(), 0xC000);
    EXPECT_EQ(create_udp_wire_towards({}).error().code, Errc::system);
}

TEST(UdpWire, OptionsOutOfRangeAreRefused) {
    EXPECT_EQ(create_udp_wire({.bind = kA.with_port(0xC000)}).error().code, Errc::invalid_argument);
    EXPECT_EQ(create_udp_wire({}).error().code, Errc::invalid_argument);
    EXPECT_EQ(create_udp_wires({.bind = kA}, 0).error().code, Errc::invalid_argument);
    auto a = make_wire(kA);
    auto taken = create_udp_wire({.bind = kA.with_port(a->port()), .bind_patience_ms = 30});
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().sys, EADDRINUSE);
    EXPECT_LT(a->port(), 0xC000) << "a return address";
}

// What a peer that is not one of ours sends: one raw datagram.
class RawPeer {
  public:
    RawPeer() : fd_(::socket(AF_INET, SOCK_DGRAM, 0)) {
        const SockAddr at = kA;
        EXPECT_EQ(::bind(fd_.get(), at.sa(), at.sa_len()), 0);
        sockaddr_in6 name{};
        socklen_t size = sizeof name;
        auto* any = static_cast<sockaddr*>(static_cast<void*>(&name));
        ::getsockname(fd_.get(), any, &size);
        local_ = SockAddr::from(any);
    }
    void send(const SockAddr& to, std::vector<std::byte> bytes, std::uint32_t icrc) {
        bytes.resize(bytes.size() + kIcrcBytes);
        store_icrc(bytes.data() + bytes.size() - kIcrcBytes, icrc);
        send_raw(to, bytes);
    }
    void send_raw(const SockAddr& to, const std::vector<std::byte>& bytes) {
        EXPECT_EQ(::sendto(fd_.get(), bytes.data(), bytes.size(), 0, to.sa(), to.sa_len()),
                  static_cast<ssize_t>(bytes.size()));
    }
    const SockAddr& local() const { return local_; }

  private:
    UniqueFd fd_;
    SockAddr local_;
};

TEST(UdpWire, AnIpIdThatIsNotTheSegmentIsSolvedAndCounted) {
    auto b = make_wire(kB);
    const SockAddr to = kB.with_port(b->port());
    RawPeer peer;
    const auto bytes = TestPacket(5, 0, 640).flat();
    peer.send(to, bytes, icrc_of(IcrcPath{peer.local(), to, 0xF32E}, bytes));
    Received got;
    receive(*b, got, 1);
    ASSERT_EQ(got.packets.size(), 1u);
    EXPECT_EQ(b->counters().rx_solved_ip_id, 1u);
}

TEST(UdpWire, BadIcrcAndRuntsAreDroppedAndCounted) {
    auto b = make_wire(kB);
    const SockAddr to = kB.with_port(b->port());
    RawPeer peer;
    const auto bytes = TestPacket(5, 0, 64).flat();
    const std::uint32_t good = icrc_of(IcrcPath{peer.local(), to, 0}, bytes);
    for (std::size_t size = 0; size < 16; ++size)
        peer.send_raw(to, std::vector<std::byte>(size));
    for (std::uint32_t bit = 16; bit < 32; ++bit)
        peer.send(to, bytes, good ^ (0x9E3779B9u << bit));
    peer.send(to, bytes, good);
    Received got;
    receive(*b, got, 1);
    EXPECT_EQ(b->counters().rx_short, 16u);
    EXPECT_EQ(b->counters().rx_bad_icrc + got.packets.size(), 17u);
    EXPECT_LE(got.packets.size(), 2u);
}

TEST(UdpWire, PathMtuOfLoopbackIs4096) {
    EXPECT_EQ(make_wire(kA)->mtu(), 4096u);
    EXPECT_EQ(make_wire(kA6)->mtu(), 4096u);
}

// The window must not promise more than the socket holds, whatever the packets' size.
TEST(UdpWire, AWindowOfUnreadPacketsIsNotDropped) {
    for (const std::size_t size : {4096u, 1024u, 256u}) {
        auto a = make_wire(kA), b = make_wire(kB);
        const Path path{kA.with_port(a->port()), kB.with_port(b->port())};
        EXPECT_GE(b->receive_window(), 64u * 1024);
        const TestPacket packet(5, 0, size);
        const std::size_t count = b->receive_window() / packet.flat().size();
        for (std::size_t i = 0; i < count; ++i)
            a->send(path, packet.tx());
        a->flush();
        Received got;
        receive(*b, got, count);
        EXPECT_EQ(got.packets.size(), count) << size;
    }
}

TEST(UdpWire, WhatTheSocketDropsIsCounted) {
    auto a = make_wire(kA);
    auto made = create_udp_wire({.bind = kB, .receive_buffer_bytes = 65'536});
    ASSERT_TRUE(made);
    Wire& b = **made;
    const Path path{kA.with_port(a->port()), kB.with_port(b.port())};
    const TestPacket packet(5, 0, 4096);
    // A small window holds as well, and more does not.
    const std::size_t fits = b.receive_window() / packet.flat().size();
    for (std::size_t i = 0; i < fits; ++i)
        a->send(path, packet.tx());
    a->flush();
    Received got;
    receive(b, got, fits);
    EXPECT_EQ(got.packets.size(), fits);
    EXPECT_EQ(b.counters().rx_overflows, 0u);
    for (std::size_t i = 0; i < 20 * fits; ++i)
        a->send(path, packet.tx());
    a->flush();
    receive(b, got, 2 * fits);
    a->send(path, packet.tx());  // the next packet tells of it
    a->flush();
    receive(b, got, got.packets.size() + 1);
    EXPECT_GT(b.counters().rx_overflows, 0u);
}

TEST(UdpWire, AGroupGetsEachPacketByItsQueuePairNumber) {
    constexpr std::uint32_t kLoops = 3;
    auto wires = create_udp_wires({.bind = kB}, kLoops);
    ASSERT_TRUE(wires) << to_string(wires.error());
    ASSERT_EQ(wires->size(), kLoops);
    auto a = make_wire(kA);
    const Path path{kA.with_port(a->port()), kB.with_port((*wires)[0]->port())};
    std::vector<TestPacket> packets;
    packets.reserve(256);
    for (std::uint32_t qpn = 1; qpn <= 256; ++qpn)
        packets.emplace_back(qpn | 0x345600, qpn, 64);
    for (const TestPacket& packet : packets)
        a->send(path, packet.tx());
    a->flush();
    for (std::uint32_t loop = 0; loop < kLoops; ++loop) {
        Received got;
        const auto expected = static_cast<std::size_t>(std::count_if(
            packets.begin(), packets.end(),
            [&](const TestPacket& p) { return load_u8(p.header.data() + 7) % kLoops == loop; }));
        receive(*(*wires)[loop], got, expected);
        EXPECT_EQ(got.packets.size(), expected);
        for (const auto& packet : got.packets) {
            EXPECT_EQ(load_u8(packet.bytes.data() + 7) % kLoops, loop);
        }
    }
    EXPECT_FALSE(create_udp_wire({.bind = path.peer, .bind_patience_ms = 0}))
        << "the port is taken";
    EXPECT_FALSE(create_udp_wires({.bind = path.peer, .bind_patience_ms = 0}, 2))
        << "nobody joins a group from outside";
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
