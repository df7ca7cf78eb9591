#include "verbs/softroce/device.hpp"

#include <set>

#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

TEST(Device, CapsSayWhatItCan) {
    World w;
    const DeviceCaps& caps = w.a.device->caps();
    EXPECT_TRUE(caps.fast_reg && caps.page_list_reg && caps.remote_invalidate && caps.local_keys);
    EXPECT_FALSE(caps.read_sink_needs_key);
    EXPECT_GE(caps.max_fast_reg_pages, 257u);
    EXPECT_STREQ(w.a.device->name(), "softroce");
    EXPECT_EQ(&w.a.device->loop(), w.loop.get());
}

TEST(Device, OptionsOutOfRangeAreRefused) {
    World w;
    for (const SoftOptions& bad :
         {SoftOptions{.loop_index = 1, .loop_count = 1}, SoftOptions{.loop_count = 0},
          SoftOptions{.loop_count = 257}, SoftOptions{.ack_timeout_exp = 32}}) {
        auto made = create_device(*w.loop, w.net->add_host(SockAddr::v4(0x7F000003, 4791)), bad);
        ASSERT_FALSE(made);
        EXPECT_EQ(made.error().code, Errc::invalid_argument);
    }
}

// The kernel steers by the low byte of the QPN modulo the number of loops.
TEST(Device, QpnsAreSteeredToTheirLoopAndDiffer) {
    World w;
    for (const std::uint32_t count : {1u, 2u, 3u, 7u, 256u}) {
        for (const std::uint32_t index : {0u, count / 2, count - 1}) {
            SoftOptions options;
            options.loop_index = index;
            options.loop_count = count;
            auto device = *SoftDevice::create(
                *w.loop, w.net->add_host(SockAddr::v4(0x7F000004, 4791)), options);
            auto pd = *device->alloc_pd();
            auto cq = *device->create_cq(16);
            std::set<std::uint32_t> seen;
            for (int i = 0; i < 200; ++i) {
                auto qp = *device->create_qp(*pd, *cq, {.send_wrs = 1, .recv_wrs = 1});
                EXPECT_EQ((qp->qpn() & 0xFF) % count, index);
                EXPECT_GE(qp->qpn(), 0x100u);
                EXPECT_LT(qp->qpn(), 0xFFFFFFu);
                EXPECT_TRUE(seen.insert(qp->qpn()).second);  // not given again soon
            }
        }
    }
}

TEST(Device, SeededDevicesRepeatAndUnseededOnesDiffer) {
    World w;
    const auto draw = [&](std::uint64_t seed) {
        auto device = *SoftDevice::create(*w.loop, w.net->add_host(SockAddr::v4(0x7F000005, 4791)),
                                          SoftOptions{.seed = seed});
        std::vector<std::uint64_t> out;
        for (int i = 0; i < 100; ++i)
            out.push_back(device->random());
        return out;
    };
    EXPECT_EQ(draw(5), draw(5));
    EXPECT_NE(draw(5), draw(6));
    EXPECT_NE(draw(0), draw(0));
}

TEST(Device, QueuePairOptionsOutOfRangeAreRefused) {
    World w;
    for (const QpOptions& bad :
         {QpOptions{.send_wrs = 0}, QpOptions{.recv_wrs = 0}, QpOptions{.send_wrs = 1u << 20},
          QpOptions{.send_sges = kSendSgesMax + 1}, QpOptions{.recv_sges = 0}})
        EXPECT_FALSE(w.a.device->create_qp(*w.a.pd, *w.a.cq, bad));
    // Of another device.
    EXPECT_FALSE(w.a.device->create_qp(*w.b.pd, *w.a.cq, {}));
    EXPECT_FALSE(w.a.device->create_qp(*w.a.pd, *w.b.cq, {}));
    EXPECT_FALSE(w.a.device->create_cq(0));
}

TEST(Device, PacketsForNobodyAreCounted) {
    World w;
    w.inject(w.b, frame(Opcode::send_only, 0x123456 ^ w.b.qp->qpn(), 0));
    w.inject(w.b, frame(Opcode::send_only, 0, 0));
    w.inject(w.b, frame(Opcode::send_only, kQpnMask, 0));
    w.run_for(kNsPerMs);
    EXPECT_EQ(counters(static_cast<const Device&>(*w.b.device)).rx_dropped, 3u);
    EXPECT_EQ(wire_counters(static_cast<const Device&>(*w.b.device)).rx_packets, 3u);
}

// Any datagram for QP 1 that is not a whole MAD with the right Q_Key is dropped.
TEST(Device, MadsAreCheckedBeforeCmSeesThem) {
    World w;
    const auto mad = [](std::uint32_t qkey, std::uint32_t source, std::size_t size,
                        Opcode op = Opcode::ud_send_only) {
        auto bytes = frame(op, kGsiQpn, 0);
        bytes.resize(kBthSize + kDethSize);
        store_be32(&bytes[kBthSize], qkey);
        store_be32(&bytes[kBthSize + 4], source);
        bytes.resize(kBthSize + kDethSize + size);
        return bytes;
    };
    w.inject(w.b, mad(kGsiQkey, 1, 255));
    w.inject(w.b, mad(kGsiQkey, 1, 257));
    w.inject(w.b, mad(kGsiQkey, 1, 0));
    w.inject(w.b, mad(0x11111111, 1, 256));
    w.inject(w.b, mad(kGsiQkey, 2, 256));
    w.inject(w.b, mad(kGsiQkey, 1, 256, Opcode::send_only));
    w.inject(w.b, frame(Opcode::ud_send_only, kGsiQpn, 0));
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.b.device->counters().mads_dropped, 7u);
    EXPECT_EQ(w.b.device->counters().mads_received, 0u);
    w.inject(w.b, mad(kGsiQkey, 1, 256));
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.b.device->counters().mads_received, 1u);
}

TEST(Device, ManyMadsInOneTurnAllLeave) {
    World w;
    std::array<std::byte, kMadSize> bytes{};
    for (int i = 0; i < 50; ++i)
        w.a.device->send_mad({w.a.address, w.b.address}, bytes);
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.b.device->counters().mads_received, 50u);
}

// SoftOptions::acks_wait.
TEST(Device, AcknowledgementsWaitForATurnWhereTheyAreAskedTo) {
    for (const bool wait : {false, true}) {
        WorldOptions o;
        o.soft.acks_wait = wait;
        World w(o);
        ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 4096)}));
        ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 100)}));
        ASSERT_TRUE(w.run_until_logged(w.b, 1));
        EXPECT_EQ(w.b.device->wire().counters().tx_packets, wait ? 0u : 1u);
        // By the next turn, and without a timer, though nothing else is sent.
        const std::uint64_t begun = w.clock.now_ns();
        ASSERT_TRUE(w.run_until_logged(w.a, 1));
        EXPECT_LT(w.clock.now_ns() - begun, 10 * kNsPerUs);
        EXPECT_EQ(w.b.device->wire().counters().tx_packets, 1u);
    }
}

TEST(Device, AcknowledgementsThatWaitGoWithTheReply) {
    WorldOptions o;
    o.soft.acks_wait = true;
    World w(o);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 4096)}) && w.a.recv(1, {w.a.sge(0, 4096)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 100)}));
    ASSERT_TRUE(w.run_until_logged(w.b, 1));
    ASSERT_TRUE(w.b.post(SendOp::send, 3, {w.b.sge(0, 100)}));
    w.loop->run_once(0);
    EXPECT_EQ(w.b.device->wire().counters().tx_packets, 2u);
    EXPECT_TRUE(w.run_until_logged(w.a, 2) && w.run_until_logged(w.b, 2));
}

// As a client's call ends when the key of its memory is gone: one turn after the reply came.
TEST(Device, AcknowledgementsWaitForWhatRanLocally) {
    for (const bool local : {false, true}) {
        WorldOptions o;
        o.soft.acks_wait = true;
        World w(o);
        const auto mr = w.b.fast(8192, 100, Access::remote_read);
        ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 4096)}));
        ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 100)}));
        while (w.a.device->wire().counters().tx_packets == 0)
            w.loop->run_once(0);
        if (local) {
            ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 3, *mr, mr->rkey()));
        }
        ASSERT_TRUE(w.run_until_logged(w.b, local ? 2 : 1));
        EXPECT_EQ(w.b.device->wire().counters().tx_packets, 0u);
        w.loop->run_once(0);
        EXPECT_EQ(w.b.device->wire().counters().tx_packets, 1u);
        ASSERT_TRUE(w.run_until_logged(w.a, 1));
    }
}

// A sender whose window is full is not kept waiting.
TEST(Device, AcknowledgementsInTheMidstOfAMessageDoNotWait) {
    std::array<std::uint64_t, 2> took{};
    for (const bool wait : {false, true}) {
        WorldOptions o;
        o.soft.acks_wait = wait;
        o.net.receive_window = 64 * 1024;
        World w(o);
        ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 1 << 20)}));
        ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 1 << 20)}));
        ASSERT_TRUE(w.run_until_logged(w.a, 1));
        took[wait ? 1 : 0] = w.loop->counters().iterations;
    }
    EXPECT_LE(took[1], took[0] + 4);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
