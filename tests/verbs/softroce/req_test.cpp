// The requester: order, fence, windows, READ limits.
#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint64_t kIova = 0x7000'0000'0000;
using Ids = std::vector<std::uint64_t>;

TEST(Requester, KeyBoundInTheSamePostIsUsableByThePeerOfTheSend) {
    World w;
    w.a.fill(1);
    auto mr = w.a.fast(100, 9000, Access::remote_read);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 64)}));
    SendWr reg, send;
    reg.op = SendOp::reg_mr;
    reg.mr = mr.get();
    reg.rkey = mr->rkey();
    const Sge sge = w.a.sge(0, 16);
    send.cqe = w.a.cqe(2);
    send.sgl = {&sge, 1};
    send.signaled = true;
    WrChain chain;
    chain.push_back(reg);
    chain.push_back(send);
    ASSERT_TRUE(w.a.qp->post_send(chain));
    EXPECT_EQ(w.a.qp->counters().doorbells, 1u);
    EXPECT_EQ(w.a.qp->counters().reg_mrs, 1u);
    ASSERT_TRUE(w.run_until_logged(w.b, 1));
    ASSERT_TRUE(w.b.post(SendOp::rdma_read, 3, {w.b.sge(4096, 9000)}, kIova, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.b, 2));
    EXPECT_EQ(std::memcmp(w.b.memory + 4096, w.a.memory + 100, 9000), 0);
}

TEST(Requester, FencedSendWaitsForTheReadAndPlainSendDoesNot) {
    for (const bool fenced : {false, true}) {
        World w;
        auto mr = w.b.fast(0, 200'000, Access::remote_read);
        ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 9, *mr, mr->rkey(), false));
        ASSERT_TRUE(w.b.recv(1, {w.b.sge(1 << 20, 64)}));
        w.run_for(kNsPerUs);
        int responses = 0, before_send = -1;
        Tap tap([&](LoopFrame&, const Bth& bth) {
            if (info_of(bth.opcode).kind == OpKind::read_response) ++responses;
            if (info_of(bth.opcode).kind == OpKind::send) before_send = responses;
            return true;
        });
        w.net->set_tap(&tap);
        ASSERT_TRUE(w.a.post(SendOp::rdma_read, 1, {w.a.sge(0, 100'000)}, kIova, mr->rkey()));
        ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 10)}, 0, {}, true, fenced));
        ASSERT_TRUE(w.run_until_logged(w.a, 2));
        w.net->set_tap(nullptr);
        EXPECT_EQ(w.a.log.ids(), (Ids{1, 2}));
        EXPECT_EQ(before_send, fenced ? 98 : 0);
    }
}

TEST(Requester, FencedLocalInvWaitsForTheRead) {
    World w;
    auto far = w.b.fast(0, 100'000, Access::remote_read);
    ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 9, *far, far->rkey(), false));
    w.run_for(kNsPerUs);
    auto near = w.a.fast(0, 100'000, Access::remote_write);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *near, near->rkey(), false));
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 2, {w.a.sge(0, 100'000)}, kIova, far->rkey()));
    ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 3, *near, near->rkey(), true, true));
    w.run_for(kNsPerUs);
    EXPECT_EQ(static_cast<SoftFastMr&>(*near).state(), MrState::valid);
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_EQ(static_cast<SoftFastMr&>(*near).state(), MrState::free);
    EXPECT_EQ(w.a.log.ids(), (Ids{2, 3}));
}

TEST(Requester, LocalOperationsBehindASlowSendCompleteInOrder) {
    WorldOptions o;
    o.faults.delay_ns_min = o.faults.delay_ns_max = kNsPerMs;
    World w(o);
    auto mr = w.a.fast(0, 100, Access::remote_read);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 64)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 10)}));
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 2, *mr, mr->rkey()));
    ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 3, *mr, mr->rkey()));
    w.run_for(100 * kNsPerUs);
    EXPECT_TRUE(w.a.log.entries.empty());
    ASSERT_TRUE(w.run_until_logged(w.a, 3));
    EXPECT_EQ(w.a.log.ids(), (Ids{1, 2, 3}));
}

TEST(Requester, ReadDepthLimitsRequestsUnderWay) {
    WorldOptions o;
    o.read_depth = 3;
    o.read_responses = 3;
    World w(o);
    auto mr = w.b.fast(0, 64 * 1024, Access::remote_read);
    ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 9, *mr, mr->rkey(), false));
    w.run_for(kNsPerUs);
    for (std::uint64_t i = 0; i < 40; ++i)
        ASSERT_TRUE(w.a.post(SendOp::rdma_read, i, {w.a.sge(i * 4096, 3000)}, kIova, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 40));
    for (const WcStatus s : w.a.log.statuses())
        ASSERT_EQ(s, WcStatus::success);
}

TEST(Requester, ReadOfNoDepthIsAnError) {
    WorldOptions o;
    o.read_depth = 0;
    World w(o);
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 1, {w.a.sge(0, 10)}, kIova, Rkey{1}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::local_error);
}

// Transfers far larger than the receive buffer lose nothing: windows and READ sizes follow it.
TEST(Requester, TransfersFollowTheReceiveWindow) {
    for (const std::uint32_t window : {64u * 1024, 200u * 1024, 1024u * 1024}) {
        WorldOptions o;
        o.net.receive_window = window;
        o.pmtu = 4096;
        o.faults.bytes_per_sec = 4'000'000'000;
        World w(o);
        w.a.fill(1);
        w.b.fill(2);
        auto mr = *w.b.pd->alloc_fast_mr(1024);
        std::vector<std::byte*> pages;
        for (std::size_t i = 0; i < 512; ++i)
            pages.push_back(w.b.memory + i * 4096);
        ASSERT_TRUE(
            mr->map(pages, 4096, 0, 2 << 20, kIova, Access::remote_read | Access::remote_write));
        ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 9, *mr, mr->rkey(), false));
        w.run_for(kNsPerUs);
        const std::uint32_t mib = 1 << 20;
        ASSERT_TRUE(w.a.post(SendOp::rdma_write, 1, {w.a.sge(0, mib)}, kIova + mib, mr->rkey()));
        ASSERT_TRUE(w.a.post(SendOp::rdma_write, 2, {w.a.sge(0, mib)}, kIova + mib, mr->rkey()));
        ASSERT_TRUE(w.a.post(SendOp::rdma_read, 3, {w.a.sge(2 * mib, mib)}, kIova, mr->rkey()));
        ASSERT_TRUE(w.a.post(SendOp::rdma_read, 4, {w.a.sge(3 * mib, mib)}, kIova, mr->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.a, 4));
        for (const WcStatus s : w.a.log.statuses())
            ASSERT_EQ(s, WcStatus::success);
        EXPECT_EQ(std::memcmp(w.b.memory + mib, w.a.memory, mib), 0);
        EXPECT_EQ(std::memcmp(w.a.memory + 2 * mib, w.b.memory, mib), 0);
        EXPECT_EQ(w.net->counters().overflows, 0u) << window;
        EXPECT_EQ(w.a.device->counters().retransmits, 0u) << window;
    }
}

TEST(Requester, ManyPiecesMakeOnePacket) {
    WorldOptions o;
    o.qp.send_sges = kSendSgesMax;
    World w(o);
    w.a.fill(6);
    std::vector<Sge> sges;
    std::vector<std::byte> expected;
    for (std::size_t i = 0; i < kSendSgesMax; ++i) {
        const std::size_t size = i % 3 == 1 ? 0 : 7 + i;
        sges.push_back(w.a.sge(1000 * i, size));
        expected.insert(expected.end(), w.a.memory + 1000 * i, w.a.memory + 1000 * i + size);
    }
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 500)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, sges));
    ASSERT_TRUE(w.run_until_logged(w.b, 1));
    EXPECT_EQ(w.b.log.entries[0].wc.byte_len, expected.size());
    EXPECT_EQ(std::memcmp(w.b.memory, expected.data(), expected.size()), 0);
}

// Both can share one batch of the wire, and an acknowledgement that is behind its reply costs the
// caller nothing.
TEST(Requester, ReplyLeavesBeforeTheAcknowledgementOfItsCall) {
    World w;
    struct Replying : Cqe {
        End* end = nullptr;
    } replying;
    replying.end = &w.b;
    replying.done = [](Cqe& cqe, const Wc& wc) noexcept {
        End& end = *static_cast<Replying&>(cqe).end;
        if (wc.status != WcStatus::success) return;
        EXPECT_TRUE(end.post(SendOp::send, 7, {end.sge(0, 10)}));
    };
    std::vector<std::pair<Opcode, std::uint64_t>> sent;
    Tap tap([&](LoopFrame& seen, const Bth& bth) {
        if (seen.from == w.b.address)
            sent.emplace_back(static_cast<Opcode>(bth.opcode), w.clock.now_ns());
        return true;
    });
    w.net->set_tap(&tap);
    RecvWr recv;
    const Sge sge = w.b.sge(0, 64);
    recv.cqe = &replying;
    recv.sgl = {&sge, 1};
    ASSERT_TRUE(w.b.qp->post_recv(recv));
    ASSERT_TRUE(w.a.recv(1, {w.a.sge(0, 64)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 10)}));
    w.run_for(kNsPerMs);
    w.net->set_tap(nullptr);
    ASSERT_EQ(sent.size(), 2u);
    EXPECT_EQ(sent[0].first, Opcode::send_only);
    EXPECT_EQ(sent[1].first, Opcode::acknowledge);
    EXPECT_EQ(sent[0].second, sent[1].second);  // of one flush
    EXPECT_EQ(w.a.log.entries.size(), 2u);
    w.stop();
}

TEST(Requester, TwoQueuePairsShareTheWire) {
    World w;
    auto second_a = *w.a.device->create_qp(*w.a.pd, *w.a.cq, {});
    auto second_b = *w.b.device->create_qp(*w.b.pd, *w.b.cq, {});
    QpAttr at = w.attr(w.a, w.b, 5, 6);
    at.dest_qpn = second_b->qpn();
    ASSERT_TRUE(second_a->connect(at));
    at = w.attr(w.b, w.a, 6, 5);
    at.dest_qpn = second_a->qpn();
    ASSERT_TRUE(second_b->connect(at));
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 1 << 20)}));
    RecvWr recv;
    const Sge small = w.b.sge(2 << 20, 64);
    recv.cqe = w.b.cqe(2);
    recv.sgl = {&small, 1};
    ASSERT_TRUE(second_b->post_recv(recv));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 1 << 20)}));
    SendWr wr;
    const Sge sge = w.a.sge(0, 64);
    wr.cqe = w.a.cqe(2);
    wr.sgl = {&sge, 1};
    wr.signaled = true;
    WrChain chain;
    chain.push_back(wr);
    ASSERT_TRUE(second_a->post_send(chain));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_EQ(w.a.log.ids(), (Ids{2, 1}));  // the small one does not wait for the large one
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
