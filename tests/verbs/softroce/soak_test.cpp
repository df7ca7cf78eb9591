// Random work in both directions over a bad network, with an oracle of bytes: everything completes
// once, in order, with the right data, in bounded time.
#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint64_t kIova = 0x7000'0000'0000;
constexpr std::size_t kMib = 1024 * 1024;
// Memory of each end: [0, 1 MiB) is the source of everything, never written; [1, 2) is the peer's
// window, written and read by slots; [2, 3) takes Receives; [3, 4) takes READs.
constexpr std::size_t kSlots = 16, kSlotSize = kMib / kSlots;

class Side {
  public:
    Side(End& self, End& peer, std::uint64_t seed) : self_(self), peer_(peer), prng_(seed) {}

    void start() {
        window_ = *self_.pd->alloc_fast_mr(kMib / 4096);
        map_window();
        post_reg();
        for (std::size_t i = 0; i < kSlots; ++i)
            post_recv();
    }
    Rkey key() const { return window_->rkey(); }
    bool done() const {
        return posted_ == total_ && completed_ == posted_ && received_ == peer_sends;
    }

    // Posts something if a slot and room are free.
    void step(Side& other) {
        while (posted_ < total_ && posted_ - completed_ < kSlots && self_.qp->send_room() > 2) {
            if (!rnr_allowed_ && other.receives_posted_ <= sends_) return;
            post_one(other);
        }
    }
    void repost_recvs(std::uint32_t chance_ppm) {
        while (receives_posted_ - received_ < kSlots && prng_.chance_ppm(chance_ppm))
            post_recv();
    }
    void run(std::uint64_t total, bool rnr_allowed) {
        total_ = total;
        rnr_allowed_ = rnr_allowed;
    }
    std::uint64_t peer_sends = 0;  // that the peer has posted, in all
    bool good() const { return good_; }
    std::uint64_t completed() const { return completed_; }
    std::uint64_t received() const { return received_; }
    std::vector<std::pair<std::size_t, std::uint32_t>>
        sent_messages;  // offset in the source, length

  private:
    struct Op : Cqe {
        Side* side = nullptr;
        SendOp op = SendOp::send;
        std::uint64_t number = 0;
        std::size_t slot = 0, source = 0;
        std::uint32_t length = 0;
    };
    struct Recv : Cqe {
        Side* side = nullptr;
        std::uint64_t number = 0;
        std::size_t slot = 0;
    };

    void map_window() {
        std::vector<std::byte*> pages;
        for (std::size_t at = 0; at < kMib; at += 4096)
            pages.push_back(self_.memory + kMib + at);
        ASSERT_TRUE(
            window_->map(pages, 4096, 0, kMib, kIova, Access::remote_read | Access::remote_write));
    }
    void post_reg() {
        SendWr wr;
        wr.op = SendOp::reg_mr;
        wr.mr = window_.get();
        WrChain chain;
        chain.push_back(wr);
        ASSERT_TRUE(self_.qp->post_send(chain));
    }
    void post_recv() {
        Recv& recv = recvs_[receives_posted_ % kSlots];
        recv.side = this;
        recv.number = receives_posted_;
        recv.slot = receives_posted_ % kSlots;
        recv.done = [](Cqe& cqe, const Wc& wc) noexcept {
            auto& r = static_cast<Recv&>(cqe);
            r.side->on_received(r, wc);
        };
        RecvWr wr;
        const std::size_t at = 2 * kMib + recv.slot * kSlotSize;
        const Sge sges[] = {self_.sge(at, 1000), self_.sge(at + 1000, kSlotSize - 1000)};
        wr.cqe = &recv;
        wr.sgl = sges;
        ASSERT_TRUE(self_.qp->post_recv(wr));
        ++receives_posted_;
    }
    void on_received(Recv& r, const Wc& wc) {
        if (wc.status == WcStatus::flushed) return;
        const auto& [source, length] = peer_side->sent_messages.at(received_);
        good_ = good_ && wc.status == WcStatus::success && r.number == received_ &&
                wc.byte_len == length &&
                std::memcmp(self_.memory + 2 * kMib + r.slot * kSlotSize, peer_.memory + source,
                            length) == 0;
        EXPECT_TRUE(good_) << "receive " << r.number;
        ++received_;
    }
    void post_one(Side& other) {
        Op& op = ops_[posted_ % kSlots];
        op.side = this;
        op.number = posted_;
        op.slot = posted_ % kSlots;
        op.length = static_cast<std::uint32_t>(prng_.chance_ppm(300'000) ? prng_.below(kSlotSize)
                                                                         : prng_.below(3000));
        op.source = static_cast<std::size_t>(prng_.below(kMib - kSlotSize));
        op.done = [](Cqe& cqe, const Wc& wc) noexcept {
            auto& o = static_cast<Op&>(cqe);
            o.side->on_done(o, wc);
        };
        const std::uint64_t kind = prng_.below(3);
        SendWr wr;
        wr.cqe = &op;
        wr.signaled = true;
        wr.fenced = prng_.chance_ppm(100'000);
        Sge sges[2];
        const std::uint32_t cut = static_cast<std::uint32_t>(prng_.below(op.length + 1));
        std::size_t local = op.source;
        if (kind == 0) {
            wr.op = SendOp::send;
            sent_messages.emplace_back(op.source, op.length);
            ++sends_;
            ++other.peer_sends;
        } else if (kind == 1) {
            wr.op = SendOp::rdma_write;
            wr.remote_addr = kIova + op.slot * kSlotSize;
            wr.rkey = other.key();
        } else {
            wr.op = SendOp::rdma_read;
            // From what is never written.
            wr.remote_addr = address_of(peer_.memory) + op.source;
            wr.rkey = other.open_key;
            local = 3 * kMib + op.slot * kSlotSize;
        }
        op.op = wr.op;
        sges[0] = self_.sge(local, cut);
        sges[1] = self_.sge(local + cut, op.length - cut);
        wr.sgl = sges;
        WrChain chain;
        chain.push_back(wr);
        ASSERT_TRUE(self_.qp->post_send(chain));
        ++posted_;
    }
    void on_done(Op& op, const Wc& wc) {
        if (wc.status == WcStatus::flushed) return;
        good_ = good_ && wc.status == WcStatus::success && op.number == completed_;
        const std::byte* const source = self_.memory + op.source;
        if (op.op == SendOp::rdma_write) {
            good_ = good_ &&
                    std::memcmp(peer_.memory + kMib + op.slot * kSlotSize, source, op.length) == 0;
        } else if (op.op == SendOp::rdma_read) {
            good_ = good_ && wc.byte_len == op.length &&
                    std::memcmp(self_.memory + 3 * kMib + op.slot * kSlotSize,
                                peer_.memory + op.source, op.length) == 0;
        }
        EXPECT_TRUE(good_) << "op " << op.number << " " << to_string(op.op) << " "
                           << to_string(wc.status);
        ++completed_;
    }

    End& self_;
    End& peer_;
    Prng prng_;
    std::unique_ptr<FastMr> window_;
    std::array<Op, kSlots> ops_;
    std::array<Recv, kSlots> recvs_;
    std::uint64_t total_ = 0, posted_ = 0, completed_ = 0, sends_ = 0;
    std::uint64_t receives_posted_ = 0, received_ = 0;
    bool good_ = true, rnr_allowed_ = false;

  public:
    Side* peer_side = nullptr;
    Rkey open_key{};
};

struct Soak {
    LoopFaults faults;
    std::uint32_t repost_ppm = 1'000'000;
    std::uint64_t operations = 200;
    std::uint64_t limit_ns = 120 * kNsPerSec;
};

void soak(std::uint64_t seed, const Soak& what) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    WorldOptions o;
    o.seed = seed;
    o.faults = what.faults;
    o.pmtu = 256u << prng.below(5);
    o.psn_a = 0xFFFFF0 + static_cast<std::uint32_t>(prng.below(16));
    o.psn_b = static_cast<std::uint32_t>(prng.next()) & kPsnMask;
    o.read_depth = o.read_responses = static_cast<std::uint8_t>(1 + prng.below(16));
    o.qp.send_wrs = o.qp.recv_wrs = 32;
    World w(o);
    w.a.fill(seed);
    w.b.fill(~seed);
    auto open_a = *w.a.pd->register_memory({w.a.memory, kMib}, Access::remote_read);
    auto open_b = *w.b.pd->register_memory({w.b.memory, kMib}, Access::remote_read);
    Side a(w.a, w.b, seed * 2), b(w.b, w.a, seed * 2 + 1);
    a.peer_side = &b;
    b.peer_side = &a;
    a.open_key = open_a->rkey();
    b.open_key = open_b->rkey();
    a.start();
    b.start();
    w.run_for(10 * kNsPerUs);
    const bool rnr = what.repost_ppm < 1'000'000;
    a.run(what.operations, rnr);
    b.run(what.operations, rnr);
    const std::uint64_t limit = w.clock.now_ns() + what.limit_ns;
    std::uint64_t most_in_a_turn = 0;
    while (!(a.done() && b.done()) && w.clock.now_ns() < limit && a.good() && b.good()) {
        a.step(b);
        b.step(a);
        a.repost_recvs(what.repost_ppm);
        b.repost_recvs(what.repost_ppm);
        const std::uint64_t before = w.net->counters().sent;
        w.loop->run_once(kNsPerMs);
        most_in_a_turn = std::max(most_in_a_turn, w.net->counters().sent - before);
    }
    EXPECT_TRUE(a.done() && b.done())
        << "a " << a.completed() << "/" << a.received() << " b " << b.completed() << "/"
        << b.received() << " time " << w.clock.now_ns() / kNsPerMs;
    EXPECT_EQ(w.a.device->counters().access_refused + w.b.device->counters().access_refused, 0u);
    if (what.faults.loss_ppm >= 5'000) {
        EXPECT_GT(w.a.device->counters().retransmits + w.b.device->counters().retransmits, 0u);
        EXPECT_GT(w.net->counters().lost, 0u);
    }
    w.stop();
    // B49: however bad the network is, a turn of the loop does so much and ends.
    EXPECT_LE(most_in_a_turn, 4096u);  // packets
}

TEST(Soak, CleanNetwork) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed)
        soak(seed, {});
}

TEST(Soak, LossDuplicationReorderingCorruption) {
    for (std::uint64_t seed = 100; seed < 140; ++seed) {
        Soak what;
        what.faults = {.loss_ppm = 5'000,
                       .dup_ppm = 5'000,
                       .reorder_ppm = 5'000,
                       .corrupt_ppm = 2'000,
                       .delay_ns_min = 1'000,
                       .delay_ns_max = 20'000};
        soak(seed, what);
        if (::testing::Test::HasFailure()) return;
    }
}

TEST(Soak, ScarceReceives) {
    for (std::uint64_t seed = 200; seed < 220; ++seed) {
        Soak what;
        what.faults = {.loss_ppm = 1'000, .dup_ppm = 1'000, .reorder_ppm = 1'000};
        what.repost_ppm = 20'000;
        soak(seed, what);
        if (::testing::Test::HasFailure()) return;
    }
}

// Two writers, from a little loss to a lot: progress goes on and no turn of the loop takes long.
TEST(B49, LossOfManyStrengths) {
    for (const std::uint32_t loss_ppm : {1'000u, 10'000u, 100'000u}) {
        for (std::uint64_t seed = 300; seed < 306; ++seed) {
            Soak what;
            what.faults.loss_ppm = loss_ppm;
            what.operations = 100;
            what.limit_ns = 600 * kNsPerSec;
            soak(seed, what);
            if (::testing::Test::HasFailure()) return;
        }
    }
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
