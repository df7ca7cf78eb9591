#include "verbs/softroce/loop_wire.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

struct Collected : RxSink {
    void on_packet(const RxPacket& packet) noexcept override {
        numbers.push_back(load_be32(&packet.bytes[12]));
        from = packet.from;
        size = packet.bytes.size();
    }
    virtual ~Collected() = default;
    std::vector<std::uint32_t> numbers;
    SockAddr from;
    std::size_t size = 0;
};

struct NetTest : ::testing::Test {
    void make(const LoopFaults& faults, const LoopNetOptions& options = {}) {
        LoopOptions lo;
        lo.backend = LoopBackend::simulated;
        lo.clock = &clock;
        loop = *Loop::create(lo);
        net = std::make_unique<LoopNet>(*loop, 42, faults, options);
        one = net->add_host(SockAddr::v4(0x7F000001, 4791));
        two = net->add_host(SockAddr::v4(0x7F000002, 4791));
    }
    void TearDown() override {
        one.reset();
        two.reset();
        if (net != nullptr) {
            EXPECT_EQ(leftover(), 0u);
        }
        net.reset();
    }
    // Frames that are still under way to a host that is gone arrive nowhere, and are free then.
    std::uint32_t leftover() {
        run(kNsPerSec);
        return net->frames_in_use();
    }
    void send(std::uint32_t number, std::size_t payload = 0) {
        std::array<std::byte, 16> header{};
        store_be32(&header[12], number);
        const std::vector<std::byte> bytes(payload, std::byte{7});
        const PayloadPiece piece{bytes.data(), static_cast<std::uint32_t>(payload)};
        one->send({SockAddr::v4(0x7F000001, 4791), SockAddr::v4(0x7F000002, 4791)},
                  TxPacket{header, {&piece, 1}, static_cast<std::uint8_t>((4 - payload % 4) % 4)});
    }
    void run(std::uint64_t ns) {
        loop->run_until([](void*) { return false; }, nullptr, ns);
    }
    void collect() {
        run(kNsPerMs);
        while (two->poll(sink) > 0) {
        }
    }
    ManualClock clock;
    std::unique_ptr<Loop> loop;
    std::unique_ptr<LoopNet> net;
    std::unique_ptr<Wire> one, two;
    Collected sink;
};

TEST_F(NetTest, CleanNetKeepsOrderEvenWithJitter) {
    make({.delay_ns_min = 100, .delay_ns_max = 100'000});
    for (std::uint32_t i = 0; i < 1000; ++i)
        send(i, 5);
    collect();
    ASSERT_EQ(sink.numbers.size(), 1000u);
    for (std::uint32_t i = 0; i < 1000; ++i)
        EXPECT_EQ(sink.numbers[i], i);
    EXPECT_EQ(sink.from, SockAddr::v4(0x7F000001, 4791));
    EXPECT_EQ(sink.size, 16u + 5 + 3);
    EXPECT_EQ(two->counters().rx_packets, 1000u);
}

TEST_F(NetTest, FaultsHitAboutAsOftenAsAskedAndAreCounted) {
    make({.loss_ppm = 100'000, .dup_ppm = 100'000, .reorder_ppm = 100'000, .corrupt_ppm = 100'000});
    for (std::uint32_t i = 0; i < 2000; ++i)
        send(i);
    collect();
    const LoopNetCounters& c = net->counters();
    EXPECT_NEAR(static_cast<double>(c.lost), 200, 60);
    EXPECT_NEAR(static_cast<double>(c.duplicated), 180, 60);
    EXPECT_NEAR(static_cast<double>(c.corrupted), 180, 60);
    EXPECT_NEAR(static_cast<double>(c.reordered), 180, 60);
    // Each corrupted frame is caught by its ICRC; all else arrives.
    EXPECT_EQ(two->counters().rx_bad_icrc + two->counters().rx_short, c.corrupted);
    EXPECT_EQ(sink.numbers.size(), 2000 - c.lost + c.duplicated - c.corrupted);
    EXPECT_FALSE(std::is_sorted(sink.numbers.begin(), sink.numbers.end()));
}

TEST_F(NetTest, FullReceiveBufferLoses) {
    make({}, {.frames = 64, .receive_window = 20'000});
    for (std::uint32_t i = 0; i < 60; ++i)
        send(i, 1000);
    collect();
    EXPECT_LT(sink.numbers.size(), 20u);
    EXPECT_EQ(sink.numbers.size() + net->counters().overflows, 60u);
    EXPECT_EQ(two->receive_window(), 20'000u);
}

TEST_F(NetTest, PoolOfFramesIsBounded) {
    make({}, {.frames = 16});
    for (std::uint32_t i = 0; i < 100; ++i)
        send(i);
    EXPECT_EQ(net->counters().overflows, 84u);
    collect();
    EXPECT_EQ(sink.numbers.size(), 16u);
    EXPECT_EQ(net->frames_in_use(), 0u);
}

TEST_F(NetTest, LineRateSpreadsArrivals) {
    make({.delay_ns_min = 0, .delay_ns_max = 0, .bytes_per_sec = 1'000'000});
    for (std::uint32_t i = 0; i < 10; ++i)
        send(i, 984);  // about 1 ms each
    run(5'500 * kNsPerUs);
    while (two->poll(sink) > 0) {
    }
    EXPECT_EQ(sink.numbers.size(), 5u);
}

TEST_F(NetTest, TapSeesChangesAndDrops) {
    make({});
    struct Odd : LoopTap {
        bool on_frame(LoopFrame& seen) noexcept override {
            const std::uint32_t number = load_be32(&seen.bytes[12]);
            store_be32(&seen.bytes[12], number + 100);
            return number % 2 == 1;
        }
        virtual ~Odd() = default;
    } tap;
    net->set_tap(&tap);
    for (std::uint32_t i = 0; i < 4; ++i)
        send(i);
    collect();
    EXPECT_EQ(sink.numbers, (std::vector<std::uint32_t>{101, 103}));
    EXPECT_EQ(two->counters().rx_bad_icrc, 0u);
}

TEST_F(NetTest, UnknownHostsAreUnreachable) {
    make({});
    std::array<std::byte, 16> header{};
    one->send({{}, SockAddr::v4(0x7F000009, 4791)}, TxPacket{header, {}, 0});
    EXPECT_EQ(net->counters().unreachable, 1u);
    EXPECT_EQ((*one->local_towards(SockAddr::v4(1, 1))), SockAddr::v4(0x7F000001, 4791));
    EXPECT_EQ(one->local_towards(SockAddr::v6(in6addr_loopback, 1)).error().code, Errc::system);
}

TEST_F(NetTest, HostThatLeavesLosesWhatIsUnderWay) {
    make({});
    send(1);
    run(5'000);
    send(2);
    two.reset();
    run(kNsPerMs);
    EXPECT_EQ(net->frames_in_use(), 0u);
    two = net->add_host(SockAddr::v4(0x7F000002, 4791));
    send(3);
    collect();
    EXPECT_EQ(sink.numbers, (std::vector<std::uint32_t>{3}));
}

TEST_F(NetTest, SameSeedSameFate) {
    std::vector<std::uint32_t> first;
    for (int round = 0; round < 2; ++round) {
        make({.loss_ppm = 200'000, .reorder_ppm = 200'000});
        sink.numbers.clear();
        for (std::uint32_t i = 0; i < 200; ++i)
            send(i);
        collect();
        if (round == 0) {
            first = sink.numbers;
            TearDown();
        }
    }
    EXPECT_EQ(sink.numbers, first);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
