#include "verbs/softroce/qp.hpp"

#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

using Ids = std::vector<std::uint64_t>;
using Statuses = std::vector<WcStatus>;

TEST(Qp, SendArrivesWithItsLengthAndCompletesWhenAcknowledged) {
    World w;
    w.a.fill(7);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100), w.b.sge(5000, 4000)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(10, 300), w.a.sge(8000, 2001)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1) && w.run_until_logged(w.b, 1));
    EXPECT_EQ(w.b.log.entries[0].wc.byte_len, 2301u);
    EXPECT_EQ(w.a.log.statuses(), Statuses{WcStatus::success});
    EXPECT_EQ(std::memcmp(w.b.memory, w.a.memory + 10, 100), 0);
    EXPECT_EQ(std::memcmp(w.b.memory + 5000, w.a.memory + 110, 200), 0);
    EXPECT_EQ(std::memcmp(w.b.memory + 5200, w.a.memory + 8000, 2001), 0);
    EXPECT_EQ(w.b.owner.first_packets, 1);
    EXPECT_EQ(w.a.device->counters().tx_copied_bytes, 0u);
    EXPECT_EQ(w.b.device->counters().rx_copied_bytes, 2301u);
    EXPECT_EQ(w.b.device->counters().rx_payload_bytes, 2301u);
}

TEST(Qp, BothEndsTalkAtOnce) {
    World w;
    for (std::uint64_t i = 0; i < 32; ++i) {
        ASSERT_TRUE(w.a.recv(i, {w.a.sge(i * 4096, 4096)}));
        ASSERT_TRUE(w.b.recv(i, {w.b.sge(i * 4096, 4096)}));
    }
    for (std::uint64_t i = 0; i < 32; ++i) {
        ASSERT_TRUE(w.a.post(SendOp::send, 100 + i, {w.a.sge(1 << 20, 100 * i)}));
        ASSERT_TRUE(w.b.post(SendOp::send, 100 + i, {w.b.sge(1 << 20, 100 * i)}));
    }
    EXPECT_TRUE(w.run_until_logged(w.a, 64));
    EXPECT_TRUE(w.run_until_logged(w.b, 64));
}

// Sizes around multiples of the path MTU, by each operation.
TEST(B37, EverySizeUpToThreeMtuByEveryOperation) {
    for (const std::uint32_t pmtu : {256u, 1024u, 4096u}) {
        WorldOptions o;
        o.pmtu = pmtu;
        World w(o);
        w.a.fill(1);
        auto source = w.a.fast(0, 4 * pmtu, Access::remote_read);
        auto sink = w.b.fast(0, 4 * pmtu, Access::remote_write);
        ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *source, source->rkey(), false));
        ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 1, *sink, sink->rkey(), false));
        w.run_for(kNsPerMs);
        std::vector<std::uint32_t> sizes;
        for (std::uint32_t k = 0; k <= 3; ++k) {
            for (std::uint32_t d = 0; d <= 5; ++d) {
                sizes.push_back(k * pmtu + d);
                if (k * pmtu >= d) sizes.push_back(k * pmtu - d);
            }
        }
        for (const std::uint32_t size : sizes) {
            std::memset(w.b.memory, 0xEE, w.b.memory_size);
            w.a.log.entries.clear();
            w.b.log.entries.clear();
            ASSERT_TRUE(w.b.recv(9, {w.b.sge(1 << 20, 4 * pmtu)}));
            ASSERT_TRUE(w.a.post(SendOp::rdma_write, 1, {w.a.sge(3, size)}, sink->iova() + 1,
                                 sink->rkey()));
            ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(3, size)}));
            ASSERT_TRUE(w.b.post(SendOp::rdma_read, 3, {w.b.sge(2 << 20, size)}, source->iova() + 3,
                                 source->rkey()));
            ASSERT_TRUE(w.run_until_logged(w.a, 2) && w.run_until_logged(w.b, 2)) << size;
            for (const auto& e : w.a.log.entries)
                ASSERT_EQ(e.wc.status, WcStatus::success);
            for (const auto& e : w.b.log.entries) {
                ASSERT_EQ(e.wc.status, WcStatus::success);
                ASSERT_EQ(e.wc.byte_len, size);
            }
            for (const std::size_t at :
                 {std::size_t{1}, std::size_t{1} << 20, std::size_t{2} << 20}) {
                ASSERT_EQ(std::memcmp(w.b.memory + at, w.a.memory + 3, size), 0)
                    << size << " " << at;
                ASSERT_EQ(w.b.memory[at + size], std::byte{0xEE}) << size << " " << at;
            }
            ASSERT_EQ(w.b.memory[0], std::byte{0xEE});
        }
    }
}

TEST(Qp, UnsignaledSuccessIsSilentAndEndsOutstanding) {
    World w;
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 50)}, 0, {}, false));
    EXPECT_EQ(w.a.qp->outstanding(), 1u);
    ASSERT_TRUE(w.run_until_logged(w.b, 1));
    w.run_for(kNsPerMs);
    EXPECT_TRUE(w.a.log.entries.empty());
    EXPECT_EQ(w.a.qp->outstanding(), 0u);
}

TEST(Qp, ErrorFlushesEverythingOnceInOrder) {
    World w;
    for (std::uint64_t i = 0; i < 4; ++i)
        ASSERT_TRUE(w.a.recv(i, {w.a.sge(0, 64)}));
    for (std::uint64_t i = 10; i < 15; ++i)
        ASSERT_TRUE(w.a.post(SendOp::send, i, {w.a.sge(0, 64)}, 0, {}, i % 2 == 0));
    w.a.qp->set_error();
    w.a.qp->set_error();
    EXPECT_EQ(w.a.qp->outstanding(), 9u);
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.a.log.ids(), (Ids{10, 11, 12, 13, 14, 0, 1, 2, 3}));
    for (const WcStatus s : w.a.log.statuses())
        EXPECT_EQ(s, WcStatus::flushed);
    EXPECT_EQ(w.a.qp->outstanding(), 0u);
    EXPECT_EQ(w.a.qp->send_room(), 64u);
    EXPECT_EQ(w.a.owner.fatals, 0);  // done on purpose
    EXPECT_EQ(w.a.post(SendOp::send, 20, {}).error().code, Errc::reconnect);
    EXPECT_EQ(w.a.recv(21, {}).error().code, Errc::reconnect);
}

TEST(Qp, FirstErrorSaysWhyTheRestIsFlushedAndTheOwnerIsToldOnce) {
    World w;
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 64)}));
    ASSERT_TRUE(w.a.recv(2, {w.a.sge(0, 64)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 10, {w.a.sge(0, 64)}));
    ASSERT_TRUE(
        w.a.post(SendOp::rdma_write, 11, {w.a.sge(0, 64)}, 0x1000, Rkey{0x12345678}, false));
    ASSERT_TRUE(w.a.post(SendOp::send, 12, {w.a.sge(0, 64)}, 0, {}, false));
    ASSERT_TRUE(w.run_until_logged(w.a, 4));
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.a.log.ids(), (Ids{10, 11, 12, 2}));
    EXPECT_EQ(w.a.log.statuses(), (Statuses{WcStatus::success, WcStatus::remote_access,
                                            WcStatus::flushed, WcStatus::flushed}));
    EXPECT_EQ(w.a.owner.fatals, 1);
    EXPECT_EQ(w.b.owner.fatals, 1);
    EXPECT_TRUE(w.b.qp->in_error());
    EXPECT_EQ(w.b.device->counters().access_refused, 1u);
}

// Errors of posting: nothing is taken but what stood before a full queue.
TEST(B50, PostErrorsTakeNothing) {
    WorldOptions o;
    o.connect = false;
    o.qp = {.send_wrs = 4, .recv_wrs = 2, .send_sges = 1, .recv_sges = 1};
    World w(o);
    // Not connected: receives are taken, sends are not.
    EXPECT_EQ(w.a.post(SendOp::send, 1, {}).error().code, Errc::reconnect);
    EXPECT_EQ(w.a.qp->send_room(), 4u);
    ASSERT_TRUE(w.a.recv(1, {w.a.sge(0, 64)}));
    EXPECT_EQ(w.a.recv(2, {w.a.sge(0, 1), w.a.sge(1, 1)}).error().code, Errc::invalid_argument);
    EXPECT_EQ(w.a.qp->outstanding(), 1u);
    RecvWr third{nullptr, w.a.cqe(4), {}};
    RecvWr second{&third, w.a.cqe(3), {}};
    EXPECT_EQ(w.a.qp->post_recv(second).error().code, Errc::again);
    EXPECT_EQ(w.a.qp->outstanding(), 2u);  // the one that fitted was kept
    EXPECT_EQ(second.next, &third);
    w.connect(w.a, w.b, 1, 2);
    EXPECT_EQ(w.a.post(SendOp::send, 1, {w.a.sge(0, 1), w.a.sge(1, 1)}).error().code,
              Errc::invalid_argument);
    EXPECT_EQ(w.a.qp->send_room(), 4u);
    WrChain chain;
    std::array<SendWr, 5> wrs;
    for (SendWr& wr : wrs)
        chain.push_back(wr);
    EXPECT_EQ(w.a.qp->post_send(chain).error().code, Errc::again);
    EXPECT_EQ(w.a.qp->send_room(), 4u);
    EXPECT_EQ(w.a.qp->counters().doorbells, 0u);
    EXPECT_EQ(w.a.qp->connect(w.attr(w.a, w.b, 1, 2)).error().code, Errc::invalid_argument);
}

TEST(Qp, ConnectRefusesWhatIsOutOfRange) {
    WorldOptions o;
    o.connect = false;
    World w(o);
    QpAttr at = w.attr(w.a, w.b, 1, 2);
    at.pmtu = 1000;
    EXPECT_FALSE(w.a.qp->connect(at));
    at.pmtu = 8192;
    EXPECT_FALSE(w.a.qp->connect(at));
    at.pmtu = 1024;
    at.dest_qpn = 0x1000000;
    EXPECT_FALSE(w.a.qp->connect(at));
    at.dest_qpn = 77;
    EXPECT_TRUE(w.a.qp->connect(at));
}

// Rings and PSNs wrap without a stall.
TEST(B52, RingAndPsnWrap) {
    WorldOptions o;
    o.qp = {.send_wrs = 8, .recv_wrs = 8, .send_sges = 1, .recv_sges = 1};
    o.psn_a = 0xFFFFF0;
    o.psn_b = 0xFFFFFF;
    World w(o);
    struct Receiver : Cqe {
        End* end;
        std::uint32_t slot = 0;
        std::uint64_t* expected;
        bool* good;
    };
    std::uint64_t expected = 0;
    bool good = true;
    std::array<Receiver, 8> receivers;
    const auto post = [](Receiver& r) {
        RecvWr wr;
        const Sge sge = r.end->sge(r.slot * 8, 8);
        wr.cqe = &r;
        wr.sgl = {&sge, 1};
        return static_cast<bool>(r.end->qp->post_recv(wr));
    };
    static decltype(post)* repost = nullptr;
    repost = &post;
    for (std::uint32_t i = 0; i < 8; ++i) {
        receivers[i].end = &w.b;
        receivers[i].slot = i;
        receivers[i].expected = &expected;
        receivers[i].good = &good;
        receivers[i].done = [](Cqe& cqe, const Wc& wc) noexcept {
            auto& r = static_cast<Receiver&>(cqe);
            if (wc.status != WcStatus::success) return;
            if (load_be64(r.end->memory + r.slot * 8) != *r.expected) *r.good = false;
            ++*r.expected;
            if (!(*repost)(r)) *r.good = false;
        };
        ASSERT_TRUE(post(receivers[i]));
    }
    Cqe silent;
    constexpr std::uint64_t kSends = 1'000'000;
    std::uint64_t sent = 0;
    while (sent < kSends) {
        while (sent < kSends && w.a.qp->send_room() > 0) {
            // The slot is free: at most eight are under way.
            store_be64(w.a.memory + (sent % 8) * 8, sent);
            SendWr wr;
            const Sge sge = w.a.sge((sent % 8) * 8, 8);
            wr.cqe = &silent;
            wr.sgl = {&sge, 1};
            WrChain chain;
            chain.push_back(wr);
            ASSERT_TRUE(w.a.qp->post_send(chain));
            ++sent;
        }
        ASSERT_TRUE(w.run_until([&] { return w.a.qp->send_room() > 0; }));
    }
    w.run_until([&] { return expected == kSends; });
    EXPECT_EQ(expected, kSends);
    EXPECT_TRUE(good);
    EXPECT_FALSE(w.a.qp->in_error());
    w.stop();
}

TEST(Qp, PacketsOfStrangersAreDropped) {
    World w;
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 64)}));
    auto bytes = frame(Opcode::send_only, w.b.qp->qpn(), w.options.psn_a);
    add_payload(bytes, 8, 1);
    w.net->inject(SockAddr::v4(0x7F000009, kRoceV2Port), w.b.address, bytes);
    w.net->inject(w.a.address.with_port(5000), w.b.address, bytes);
    w.run_for(kNsPerMs);
    EXPECT_EQ(w.b.device->counters().rx_dropped, 2u);
    EXPECT_TRUE(w.b.log.entries.empty());
    // A standard peer chooses source ports above 0xC000.
    w.net->inject(w.a.address.with_port(0xC123), w.b.address, bytes);
    EXPECT_TRUE(w.run_until_logged(w.b, 1));
}

TEST(Qp, ForeignPartitionOrVersionIsDropped) {
    World w;
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 64)}));
    auto bytes = frame(Opcode::send_only, w.b.qp->qpn(), w.options.psn_a);
    store_be16(&bytes[2], 0x7FFF);
    w.inject(w.b, bytes);
    store_be16(&bytes[2], 0xFFFF);
    bytes[1] |= std::byte{1};
    w.inject(w.b, bytes);
    w.inject(w.b, {std::byte{4}});
    w.run_for(kNsPerMs);
    EXPECT_TRUE(w.b.log.entries.empty());
    EXPECT_FALSE(w.b.qp->in_error());
}

TEST(Qp, DestroyedWithWorkPostedLeavesNothingBehind) {
    World w;
    ASSERT_TRUE(w.a.recv(1, {w.a.sge(0, 64)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 64)}));
    w.a.qp->set_error();
    w.a.qp.reset();
    w.run_for(kNsPerMs);
    EXPECT_TRUE(w.a.log.entries.empty());
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
