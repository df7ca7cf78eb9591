// The completer: acknowledgements, NAKs, retries and their timers.
#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint64_t kIova = 0x7000'0000'0000;
using Ids = std::vector<std::uint64_t>;

struct Key {
    Key(World& world, Access access, std::uint32_t length = 64 * 1024) {
        mr = world.b.fast(0, length, access);
        EXPECT_TRUE(world.b.post_local(SendOp::reg_mr, 900, *mr, mr->rkey(), false));
        world.run_for(kNsPerUs);
    }
    std::unique_ptr<FastMr> mr;
};

// An acknowledgement of a later packet does not complete a READ whose data was lost.
TEST(B42, AcknowledgementBehindALostReadResponse) {
    WorldOptions o;
    o.psn_a = 40;
    World w(o);
    Key key(w, Access::remote_read | Access::remote_write);
    w.b.fill(4);
    int responses = 0;
    std::vector<std::pair<Opcode, std::uint32_t>> requests;
    Tap tap([&](LoopFrame& seen, const Bth& bth) {
        const auto op = static_cast<Opcode>(bth.opcode);
        if (seen.from == w.a.address) requests.emplace_back(op, bth.psn);
        return op != Opcode::read_response_only || ++responses > 1;
    });
    w.net->set_tap(&tap);
    const Rkey rkey = key.mr->rkey();
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 40, {w.a.sge(0, 100)}, kIova + 8192, rkey));
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 41, {w.a.sge(4096, 100)}, kIova, rkey));
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 42, {w.a.sge(0, 100)}, kIova + 16384, rkey));
    ASSERT_TRUE(w.run_until_logged(w.a, 3));
    w.net->set_tap(nullptr);
    EXPECT_EQ(w.a.log.ids(), (Ids{40, 41, 42}));
    for (const WcStatus s : w.a.log.statuses())
        EXPECT_EQ(s, WcStatus::success);
    EXPECT_EQ(std::memcmp(w.a.memory + 4096, w.b.memory, 100), 0);
    EXPECT_EQ(responses, 2);
    ASSERT_GE(requests.size(), 4u);
    EXPECT_EQ(requests[3], std::make_pair(Opcode::read_request, 41u));
    // By the acknowledgement that passed it, not by the timer.
    EXPECT_LT(w.clock.now_ns(), kNsPerSec + 10 * kNsPerMs);
}

// The retransmit timer does not end an RNR wait.
TEST(B44, RnrWaitIsNotCutShortByTheRetryTimer) {
    WorldOptions o;
    o.ack_timeout_exp = 12;  // 16.8 ms
    o.soft.min_rnr_timer_us = 655'360;
    o.retry = 1;
    World w(o);
    std::vector<std::uint64_t> sends;
    Tap tap([&](LoopFrame&, const Bth& bth) {
        if (bth.opcode == static_cast<std::uint8_t>(Opcode::send_only))
            sends.push_back(w.clock.now_ns());
        return true;
    });
    w.net->set_tap(&tap);
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    w.run_for(400 * kNsPerMs);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    w.net->set_tap(nullptr);
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
    ASSERT_EQ(sends.size(), 2u);
    EXPECT_GE(sends[1] - sends[0], 655'360 * kNsPerUs);
    EXPECT_LT(sends[1] - sends[0], 657 * kNsPerMs);
}

TEST(Rnr, SevenMeansForEver) {
    WorldOptions o;
    o.soft.min_rnr_timer_us = 491'520;
    World w(o);
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    w.run_for(30 * kNsPerSec);
    EXPECT_FALSE(w.a.qp->in_error());
    EXPECT_GE(w.a.device->counters().rnr_naks_received, 59u);
    EXPECT_LE(w.a.device->counters().rnr_naks_received, 62u);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
}

TEST(Rnr, CountedRetriesEnd) {
    WorldOptions o;
    o.rnr_retry = 3;
    World w(o);
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::rnr_exceeded);
    EXPECT_EQ(w.b.device->counters().rnr_naks_sent, 4u);
}

// A slow receiver and every kind of timer: slower, never stuck.
TEST(B53, SlowReceiverNeverStalls) {
    for (const std::uint32_t timer_us : {10u, 640u, 655'360u}) {
        WorldOptions o;
        o.soft.min_rnr_timer_us = timer_us;
        World w(o);
        constexpr std::uint64_t kMessages = 50;
        for (std::uint64_t i = 0; i < kMessages; ++i)
            ASSERT_TRUE(w.a.post(SendOp::send, i, {w.a.sge(0, 3000)}));
        for (std::uint64_t i = 0; i < kMessages; ++i) {
            w.run_for(kNsPerMs);
            ASSERT_TRUE(w.b.recv(i, {w.b.sge(0, 4096)}));
        }
        ASSERT_TRUE(w.run_until_logged(w.a, kMessages)) << timer_us;
        for (const WcStatus s : w.a.log.statuses())
            ASSERT_EQ(s, WcStatus::success);
        EXPECT_EQ(w.b.log.entries.size(), kMessages);
        // Not more than one try a timer period, and a few.
        EXPECT_LE(w.b.device->counters().rnr_naks_sent, 60'000 / timer_us + 60);
    }
}

TEST(Retry, PeerThatIsGoneEndsInRetryExceededAfterTwoSeconds) {
    World w;
    Tap tap([](LoopFrame&, const Bth&) { return false; });
    w.net->set_tap(&tap);
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 100)}));
    const std::uint64_t start = w.clock.now_ns();
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    w.net->set_tap(nullptr);
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::retry_exceeded);
    EXPECT_EQ(w.a.log.entries[1].wc.status, WcStatus::flushed);
    EXPECT_GE(w.clock.now_ns() - start, 2 * kNsPerSec);
    EXPECT_LE(w.clock.now_ns() - start, 6 * kNsPerSec);
    EXPECT_EQ(w.a.owner.fatals, 1);
}

TEST(Retry, PeerThatWasAwayForALongSecondIsForgiven) {
    World w;
    bool away = true;
    Tap tap([&](LoopFrame&, const Bth&) { return !away; });
    w.net->set_tap(&tap);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    w.run_for(1'900 * kNsPerMs);
    away = false;
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    w.net->set_tap(nullptr);
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
}

TEST(Retry, LostAcknowledgementIsAskedForAgain) {
    World w;
    int acks = 0;
    Tap tap([&](LoopFrame&, const Bth& bth) {
        return bth.opcode != static_cast<std::uint8_t>(Opcode::acknowledge) || ++acks > 1;
    });
    w.net->set_tap(&tap);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.b.recv(2, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    w.net->set_tap(nullptr);
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
    EXPECT_EQ(w.b.log.entries.size(), 1u);
    EXPECT_EQ(w.a.device->counters().retransmits, 1u);
}

// A lost SEND costs round trips; a READ whose answer is late is not asked for again before the time
// that the connection agreed on, 67 ms, and takes along the SEND before it.
TEST(Retry, ReadUnderWayIsGivenTheWholeTime) {
    for (const bool reads : {false, true}) {
        World w;
        Key key(w, Access::remote_read);
        bool away = false;
        std::uint32_t sends = 0, requests = 0;
        Tap tap([&](LoopFrame&, const Bth& bth) {
            const OpKind kind = info_of(bth.opcode).kind;
            sends += kind == OpKind::send;
            requests += kind == OpKind::read_request;
            return !away || (kind != OpKind::ack && kind != OpKind::read_response);
        });
        w.net->set_tap(&tap);
        for (std::uint64_t i = 1; i <= 2; ++i)
            ASSERT_TRUE(w.b.recv(i, {w.b.sge(0, 100)}));
        ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
        ASSERT_TRUE(w.run_until_logged(w.a, 1));  // a round trip is known from now on
        away = true;
        sends = 0;
        ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, 100)}));
        if (reads) {
            ASSERT_TRUE(w.a.post(SendOp::rdma_read, 3, {w.a.sge(0, 5000)}, kIova, key.mr->rkey()));
        }
        w.run_for(40 * kNsPerMs);
        EXPECT_EQ(requests, reads ? 1u : 0u);
        if (reads) {
            EXPECT_EQ(sends, 1u);
        } else {
            EXPECT_GT(sends, 1u);
        }
        away = false;
        ASSERT_TRUE(w.run_until_logged(w.a, reads ? 3 : 2));
        w.net->set_tap(nullptr);
        for (const WcStatus s : w.a.log.statuses())
            EXPECT_EQ(s, WcStatus::success);
    }
}

// A path that becomes longer than the timer: what is sent in vain does not go on for ever.
TEST(Retry, TimerFollowsARoundTripThatGrows) {
    World w;
    const auto network = [&](std::uint64_t one_way_ns) {
        LoopFaults faults;
        faults.delay_ns_min = faults.delay_ns_max = one_way_ns;
        w.net->set_faults(faults);
    };
    std::uint64_t sent = 0;
    const auto exchange = [&](int messages) {
        for (int i = 0; i < messages; ++i) {
            ASSERT_TRUE(w.b.recv(++sent, {w.b.sge(0, 100)}));
            ASSERT_TRUE(w.a.post(SendOp::send, sent, {w.a.sge(0, 100)}));
            ASSERT_TRUE(w.run_until_logged(w.a, sent));
        }
    };
    network(100 * kNsPerUs);
    exchange(50);
    const SoftCounters& counters = w.a.device->counters();
    EXPECT_EQ(counters.retransmits, 0u);
    network(2'500 * kNsPerUs);
    exchange(10);
    EXPECT_GT(counters.retransmits, 0u) << "it was too short";
    const std::uint64_t learnt = counters.retransmits;
    exchange(100);
    EXPECT_EQ(counters.retransmits, learnt);
    for (const WcStatus s : w.a.log.statuses())
        EXPECT_EQ(s, WcStatus::success);
}

// All that was sent is lost: more than a small window is sent again only after the whole time.
TEST(Retry, MuchUnderWayIsGivenTheWholeTimeAndATailIsNot) {
    for (const bool much : {true, false}) {
        World w;
        bool away = false;
        std::uint64_t lost_ns = 0, again_ns = 0;
        Tap tap([&](LoopFrame&, const Bth& bth) {
            if (!away || info_of(bth.opcode).kind != OpKind::send) return true;
            if (lost_ns == 0) lost_ns = w.clock.now_ns();
            if (w.clock.now_ns() < lost_ns + kNsPerMs) return false;
            away = false;
            again_ns = w.clock.now_ns();
            return true;
        });
        w.net->set_tap(&tap);
        for (std::uint64_t i = 1; i <= 2; ++i)
            ASSERT_TRUE(w.b.recv(i, {w.b.sge(0, 64 * 1024)}));
        ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
        ASSERT_TRUE(w.run_until_logged(w.a, 1));  // a round trip is known from now on
        away = true;
        ASSERT_TRUE(w.a.post(SendOp::send, 2, {w.a.sge(0, much ? 40'000 : 4'000)}));
        ASSERT_TRUE(w.run_until_logged(w.a, 2));
        w.net->set_tap(nullptr);
        const std::uint64_t whole_ns = std::uint64_t{4096} << w.options.ack_timeout_exp;
        if (much) {
            EXPECT_GE(again_ns - lost_ns, whole_ns);
        } else {
            EXPECT_LT(again_ns - lost_ns, whole_ns / 2);
        }
    }
}

TEST(Retry, GapIsFilledByGoingBackAtOnce) {
    World w;
    int sends = 0;
    Tap tap([&](LoopFrame&, const Bth& bth) {
        return info_of(bth.opcode).kind != OpKind::send || ++sends != 3;
    });
    w.net->set_tap(&tap);
    w.a.fill(8);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 1 << 20)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 500'000)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    w.net->set_tap(nullptr);
    EXPECT_EQ(std::memcmp(w.a.memory, w.b.memory, 500'000), 0);
    EXPECT_LT(w.clock.now_ns(), kNsPerSec + 20 * kNsPerMs);
    EXPECT_EQ(w.b.device->counters().naks_sent, 1u);
}

TEST(Retry, ReadIsAskedForAgainFromTheFirstMissingPacket) {
    World w;
    Key key(w, Access::remote_read);
    w.b.fill(2);
    int responses = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> asked;
    Tap tap([&](LoopFrame& seen, const Bth& bth) {
        if (bth.opcode == static_cast<std::uint8_t>(Opcode::read_request)) {
            asked.emplace_back(bth.psn, load_reth(&seen.bytes[kBthSize]).length);
        }
        return info_of(bth.opcode).kind != OpKind::read_response || ++responses != 11;
    });
    w.net->set_tap(&tap);
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 1, {w.a.sge(0, 50'000)}, kIova, key.mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    w.net->set_tap(nullptr);
    EXPECT_EQ(std::memcmp(w.a.memory, w.b.memory, 50'000), 0);
    ASSERT_EQ(asked.size(), 2u);
    EXPECT_EQ(asked[1].first, (w.options.psn_a + 10) & kPsnMask);
    EXPECT_EQ(asked[1].second, 50'000u - 10 * 1024);
    EXPECT_LT(w.clock.now_ns(), kNsPerSec + 10 * kNsPerMs);
}

TEST(Completer, AnswersToNothingAreDropped) {
    World w;
    const std::uint32_t qpn = w.a.qp->qpn();
    const auto answer = [&](std::uint32_t psn, std::uint8_t syndrome) {
        auto bytes = frame(Opcode::acknowledge, qpn, psn, false);
        bytes.resize(kBthSize + kAethSize);
        store_aeth(&bytes[kBthSize], syndrome, 0);
        w.inject(w.a, bytes);
    };
    for (const std::uint8_t syndrome :
         {ack_syndrome(), nak_syndrome(NakCode::remote_access), nak_syndrome(NakCode::sequence),
          rnr_syndrome(1), std::uint8_t{0x40}}) {
        answer(w.options.psn_a, syndrome);
        answer(w.options.psn_a + 1000, syndrome);
        answer(w.options.psn_a - 1, syndrome);
    }
    auto response = frame(Opcode::read_response_only, qpn, w.options.psn_a, false);
    response.resize(kBthSize + kAethSize + 64);
    w.inject(w.a, response);
    w.run_for(kNsPerMs);
    EXPECT_FALSE(w.a.qp->in_error());
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 100)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
}

TEST(Completer, ReadResponseOfAWrongLengthIsDroppedAndAskedForAgain) {
    World w;
    Key key(w, Access::remote_read);
    int responses = 0;
    Tap tap([&](LoopFrame& seen, const Bth& bth) {
        if (info_of(bth.opcode).kind != OpKind::read_response || ++responses != 2) return true;
        // A middle of another length: as a broken peer would send it.
        auto bytes = frame(Opcode::read_response_middle, bth.dest_qpn, bth.psn, false);
        add_payload(bytes, 64, 0x66);
        w.net->inject(seen.from, seen.to, bytes);
        return false;
    });
    w.net->set_tap(&tap);
    w.b.fill(3);
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 1, {w.a.sge(0, 5000)}, kIova, key.mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    w.net->set_tap(nullptr);
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
    EXPECT_EQ(std::memcmp(w.a.memory, w.b.memory, 5000), 0);
    EXPECT_EQ(w.a.memory[5000], std::byte{0});
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
