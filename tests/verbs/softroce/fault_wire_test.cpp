#include "verbs/softroce/fault_wire.hpp"

#include <poll.h>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "verbs/softroce/loop_wire.hpp"
#include "verbs/softroce/packet.hpp"
#include "verbs/softroce/udp_wire.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

const SockAddr kA = SockAddr::v4(0x0A000001, kRoceV2Port);
const SockAddr kB = SockAddr::v4(0x0A000002, kRoceV2Port);
const Path kThere{kA, kB}, kBack{kB, kA};

struct Received final : RxSink {
    std::vector<std::uint32_t> psns;
    bool intact = true;
    void on_packet(const RxPacket& p) noexcept override {
        psns.push_back(load_bth(p.bytes.data()).psn);
        for (const std::byte b : p.bytes.subspan(kBthSize))
            intact = intact && b == static_cast<std::byte>(psns.back());
    }
};

void send_one(Wire& wire, const Path& path, std::uint32_t psn, std::uint32_t size = 1000) {
    std::array<std::byte, kBthSize> header{};
    Bth bth;
    bth.opcode = static_cast<std::uint8_t>(Opcode::send_middle);
    bth.dest_qpn = 0x1234;
    bth.psn = psn;
    store_bth(header.data(), bth);
    std::vector<std::byte> payload(size, static_cast<std::byte>(psn));
    const PayloadPiece piece{payload.data(), size};
    wire.send(path, TxPacket{header, {&piece, 1}, 0});
    wire.flush();  // the payload is lent until here
}

// A host with faults and one without, in virtual time.
class FaultWireTest : public ::testing::Test {
  protected:
    void make(const FaultSpec& spec, std::uint64_t seed = 1) {
        dice = FaultDice(seed);
        net = std::make_unique<LoopNet>(*loop, 1,
                                        LinkFaults{.delay_ns_min = 1'000, .delay_ns_max = 1'000},
                                        LoopNetOptions{.receive_window = 64 << 20});
        a = std::make_unique<FaultWire>(*loop, net->add_host(kA), spec, dice, counters);
        b = net->add_host(kB);
    }
    // Both directions; everything has arrived afterwards.
    void exchange(std::uint32_t count) {
        for (std::uint32_t psn = 0; psn < count; ++psn) {
            send_one(*a, kThere, psn);
            send_one(*b, kBack, psn);
            turn(20 * kNsPerUs);
        }
        turn(kNsPerSec);
    }
    void turn(std::uint64_t ns) {
        const std::uint64_t end = loop->now_ns() + ns;
        while (loop->now_ns() < end) {
            const std::uint64_t next = std::min(end, loop->next_timer_ns());
            loop->run_until([](void*) { return false; }, nullptr,
                            std::max<std::uint64_t>(next, loop->now_ns() + 1) - loop->now_ns());
            while (a->poll(at_a) + b->poll(at_b) > 0)
                a->flush();
            a->flush();
        }
    }

    ManualClock clock;
    std::unique_ptr<Loop> loop =
        *Loop::create({.backend = LoopBackend::simulated, .clock = &clock});
    FaultDice dice{1};
    FaultCounters counters;
    std::unique_ptr<LoopNet> net;
    std::unique_ptr<Wire> a, b;
    Received at_a, at_b;
};

TEST_F(FaultWireTest, LossIsEachWayAndAsOftenAsAskedFor) {
    FaultSpec spec;
    spec.link.loss_ppm = 200'000;
    make(spec);
    exchange(1000);
    EXPECT_NEAR(static_cast<double>(at_a.psns.size()), 800, 60);
    EXPECT_NEAR(static_cast<double>(at_b.psns.size()), 800, 60);
    EXPECT_EQ(at_a.psns.size() + at_b.psns.size() + counters.lost, 2000u);
    EXPECT_TRUE(at_a.intact && at_b.intact);
}

TEST_F(FaultWireTest, DuplicatesComeTwiceAndIntact) {
    FaultSpec spec;
    spec.link.dup_ppm = 200'000;
    make(spec);
    exchange(1000);
    EXPECT_EQ(at_a.psns.size() + at_b.psns.size(), 2000 + counters.duplicated);
    EXPECT_NEAR(static_cast<double>(counters.duplicated), 400, 80);
    EXPECT_TRUE(at_a.intact && at_b.intact);
}

TEST_F(FaultWireTest, ReorderedOnesComeLateAndNoneIsLost) {
    FaultSpec spec;
    spec.link.reorder_ppm = 100'000;
    make(spec);
    exchange(1000);
    for (const Received* at : {&at_a, &at_b}) {
        EXPECT_EQ(at->psns.size(), 1000u);
        EXPECT_FALSE(std::is_sorted(at->psns.begin(), at->psns.end()));
    }
    EXPECT_NEAR(static_cast<double>(counters.reordered), 200, 60);
    EXPECT_EQ(counters.lost, 0u);
}

TEST_F(FaultWireTest, DelayKeepsTheOrder) {
    FaultSpec spec;
    spec.link.delay_ns_min = kNsPerMs;
    spec.link.delay_ns_max = 3 * kNsPerMs;
    make(spec);
    const std::uint64_t began = loop->now_ns();
    send_one(*a, kThere, 0);
    turn(900 * kNsPerUs);
    EXPECT_TRUE(at_b.psns.empty());
    turn(3 * kNsPerMs);
    EXPECT_EQ(at_b.psns.size(), 1u);
    EXPECT_GT(loop->now_ns(), began);
    exchange(300);
    EXPECT_TRUE(std::is_sorted(at_a.psns.begin(), at_a.psns.end()));
    EXPECT_EQ(at_a.psns.size(), 300u);
    EXPECT_EQ(at_b.psns.size(), 301u);
}

TEST_F(FaultWireTest, CorruptedOnesAreFoundByTheIcrc) {
    FaultSpec spec;
    spec.link.corrupt_ppm = 200'000;
    make(spec);
    exchange(1000);
    EXPECT_TRUE(at_a.intact && at_b.intact);
    EXPECT_EQ(a->counters().rx_bad_icrc + b->counters().rx_bad_icrc, counters.corrupted);
    EXPECT_GT(a->counters().rx_bad_icrc, 100u);
    EXPECT_GT(b->counters().rx_bad_icrc, 100u);
    EXPECT_EQ(at_a.psns.size() + at_b.psns.size() + counters.corrupted, 2000u);
}

TEST_F(FaultWireTest, ARateLetsOnlySoMuchThrough) {
    FaultSpec spec;
    spec.link.bytes_per_sec = 1'000'000;  // one packet of 1,000 bytes a millisecond
    make(spec);
    for (std::uint32_t psn = 0; psn < 100; ++psn)
        send_one(*a, kThere, psn);
    turn(50 * kNsPerMs);
    EXPECT_NEAR(static_cast<double>(at_b.psns.size()), 49, 3);
    turn(60 * kNsPerMs);
    EXPECT_EQ(at_b.psns.size(), 100u);
}

TEST_F(FaultWireTest, WhatFindsNoFrameIsLostAndCounted) {
    FaultSpec spec;
    spec.link.delay_ns_min = spec.link.delay_ns_max = kNsPerSec;
    make(spec);
    for (std::uint32_t psn = 0; psn < 3000; ++psn)
        send_one(*a, kThere, psn);
    EXPECT_GT(counters.overflows, 0u);
    const std::uint64_t lost = counters.overflows;
    turn(2 * kNsPerSec);
    EXPECT_EQ(at_b.psns.size() + lost, 3000u);
    EXPECT_EQ(static_cast<FaultWire&>(*a).frames_in_use(), 0u) << "every frame came home";
}

TEST_F(FaultWireTest, WhatFindsNoFrameTakesNoTimeOfTheLine) {
    FaultSpec spec;
    spec.link.bytes_per_sec = 1'000'000;
    make(spec);
    for (std::uint32_t psn = 0; psn < 6000; ++psn)
        send_one(*a, kThere, psn);
    ASSERT_GT(counters.overflows, 3000u);
    const std::uint64_t held = 6000 - counters.overflows;
    turn(held * 1100 * kNsPerUs);  // a packet is 1,012 bytes
    ASSERT_EQ(at_b.psns.size(), held);
    send_one(*a, kThere, 6000);
    turn(10 * kNsPerMs);
    EXPECT_EQ(at_b.psns.size(), held + 1);
}

TEST_F(FaultWireTest, EqualSeedsGiveEqualRuns) {
    FaultSpec spec;
    spec.link.loss_ppm = spec.link.dup_ppm = spec.link.reorder_ppm = 100'000;
    make(spec, 5);
    exchange(300);
    const std::vector<std::uint32_t> first = at_b.psns;
    a.reset();
    b.reset();
    at_b.psns.clear();
    make(spec, 5);
    exchange(300);
    EXPECT_EQ(at_b.psns, first);
    a.reset();
    b.reset();
    at_b.psns.clear();
    make(spec, 6);
    exchange(300);
    EXPECT_NE(at_b.psns, first);
}

// Batches of segments keep being batches: what is lost is left out of them.
TEST(FaultWireLive, SegmentationOffloadStaysInUse) {
    const SockAddr here = SockAddr::v4(0x7F2B0011, 0), there = SockAddr::v4(0x7F2B0012, 0);
    auto loop = *Loop::create({});
    FaultDice dice(3);
    FaultCounters counters;
    FaultSpec spec;
    spec.link.loss_ppm = 100'000;
    auto below = create_udp_wire({.bind = here});
    auto other = create_udp_wire({.bind = there});
    ASSERT_TRUE(below && other);
    FaultWire wire(*loop, *std::move(below), spec, dice, counters);
    const Path path{here.with_port(wire.port()), there.with_port((*other)->port())};
    std::vector<std::byte> payload(1024, std::byte{9});
    const PayloadPiece piece{payload.data(), 1024};
    for (std::uint32_t psn = 0; psn < 60; ++psn) {
        std::array<std::byte, kBthSize> header{};
        Bth bth;
        bth.dest_qpn = 0x1234;
        bth.psn = psn;
        store_bth(header.data(), bth);
        wire.send(path, TxPacket{header, {&piece, 1}, 0});
    }
    wire.flush();
    EXPECT_EQ(wire.counters().tx_calls, 1u);
    EXPECT_GT(counters.lost, 0u);
    struct Count final : RxSink {
        std::size_t packets = 0;
        void on_packet(const RxPacket&) noexcept override { ++packets; }
    } count;
    for (int tries = 0; tries < 1000 && count.packets + counters.lost < 60; ++tries) {
        if ((*other)->poll(count) > 0) continue;
        pollfd readable{(*other)->fd(), POLLIN, 0};
        ::poll(&readable, 1, 5);
    }
    EXPECT_EQ(count.packets + counters.lost, 60u);
    EXPECT_EQ((*other)->counters().rx_bad_icrc, 0u);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
