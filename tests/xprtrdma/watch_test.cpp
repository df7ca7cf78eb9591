#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {
namespace {

// Everything that one host sends, or both, is lost while `on`.
struct Cut final : verbs::softroce::LoopTap {
    bool on_frame(verbs::softroce::LoopFrame&) noexcept override {
        ++frames;
        return !on;
    }
    bool on = false;
    std::uint64_t frames = 0;
};

class Watch : public ClientFixture {
  protected:
    Watch() { world_.net->set_tap(&cut_); }
    // The world runs once more at the end: not with a tap that is gone.
    ~Watch() override {
        end();
        world_.net->set_tap(nullptr);
    }
    Cut cut_;
};

// Pings are answered by the device below a server that thinks: it is not taken for dead.
TEST_F(Watch, SlowServerIsPingedAndKept) {
    options_.recovery.on = true;
    start_connected();
    auto calls = send_many(2);
    world_.run_for(31 * kNsPerSec);
    EXPECT_TRUE(transport_->connected());
    // After 0.2, 0.4, 0.8, 1.6 s, and then each 3 s.
    EXPECT_EQ(transport_->counters().pings, 13u);
    EXPECT_EQ(transport_->counters().probes, 0u);
    EXPECT_EQ(transport_->counters().ping_timeouts, 0u);
    EXPECT_EQ(peer().inbox.size(), 1u);  // a ping is no message, takes no Receive and no credit
    peer().send(inline_reply(1));
    EXPECT_TRUE(run_until([&] { return calls[0]->ok(); }));
    EXPECT_EQ(peer().failed_ops, 0u);
}

// The long times belong to one silence; the next one begins with the shortest.
TEST_F(Watch, ReplyEndsTheSilenceAndTheNextOneIsFoundSoon) {
    start_connected();
    auto calls = send_many(2);  // one credit
    world_.run_for(31 * kNsPerSec);
    peer().send(inline_reply(1));
    ASSERT_TRUE(run_until([&] { return calls[0]->ok(); }));
    const std::uint64_t pings = transport_->counters().pings;
    world_.run_for(250 * kNsPerMs);
    EXPECT_EQ(transport_->counters().pings, pings + 1);
}

TEST_F(Watch, NothingOutstandingNothingIsSent) {
    start_connected();
    answer_inline();
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return all_done(calls); }));
    world_.run_for(10 * kNsPerSec);
    const std::uint64_t frames = cut_.frames;
    world_.run_for(600 * kNsPerSec);
    EXPECT_EQ(cut_.frames, frames);
    EXPECT_EQ(transport_->counters().pings, 0u);
    EXPECT_TRUE(transport_->connected());
}

// It acknowledged every call and died: with all credits in use, nothing else would find out.
TEST_F(Watch, B23_PeerThatDiedAfterItsAcknowledgementIsNoticedInSeconds) {
    start_connected();
    peer().script = [](RawConn& conn, RawMessage message) {
        const std::uint32_t xid = SeenCall(message).header.xid;
        if (xid == 1) conn.send(inline_reply(1, 8));
    };
    auto calls = send_many(9);  // one more than there are credits
    world_.run_for(100 * kNsPerMs);
    EXPECT_TRUE(calls[0]->ok());
    cut_.on = true;
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 3 * kNsPerSec));
    EXPECT_EQ(transport_->counters().pings, 1u);
    EXPECT_EQ(transport_->counters().reply_timeouts, 0u);
    for (std::size_t i = 1; i < calls.size(); ++i)
        EXPECT_EQ(calls[i]->error(), Errc::reconnect);
}

// A device that repeats for ever, as some cards do: the ping has its own time.
TEST_F(Watch, PingHasItsOwnTime) {
    options_.ping = {.after_ns = kNsPerSec, .timeout_ns = 500 * kNsPerMs};
    start_connected();
    auto calls = send_many(1);
    world_.run_for(100 * kNsPerMs);
    cut_.on = true;
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 2 * kNsPerSec));
    EXPECT_EQ(transport_->counters().ping_timeouts, 1u);
}

TEST_F(Watch, PingsMayBeTurnedOff) {
    options_.ping.after_ns = 0;
    options_.reply_timeout_ns = 20 * kNsPerSec;
    start_connected();
    auto calls = send_many(1);
    world_.run_for(100 * kNsPerMs);
    cut_.on = true;
    world_.run_for(19 * kNsPerSec);
    EXPECT_TRUE(transport_->connected());
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 2 * kNsPerSec));
    EXPECT_EQ(transport_->counters().pings, 0u);
    EXPECT_EQ(transport_->counters().reply_timeouts, 1u);
}

// Nobody was asked for an hour, and the peer is long gone.
TEST_F(Watch, DeadPeerOfAnIdleConnectionIsNoticedAtTheNextUse) {
    start_connected();
    answer_inline();
    auto first = send_many(1);
    ASSERT_TRUE(run_until([&] { return all_done(first); }));
    cut_.on = true;
    world_.run_for(3600 * kNsPerSec);
    EXPECT_TRUE(transport_->connected());
    auto calls = send_many(1, 10);
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 3 * kNsPerSec));
    EXPECT_EQ(calls[0]->error(), Errc::reconnect);
}

// What is left of a server that was killed and started again: connection management answers, and
// nobody knows the queue pair.
class Restarted : public Watch {
  protected:
    struct OnlyCm final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
            if (none) return false;
            const bool cm = load_be24(frame.bytes.data() + 5) == 1;  // to queue pair 1
            return cm || !only_cm;
        }
        bool only_cm = false, none = false;
    };
    Restarted() {
        world_.net->set_tap(&tap_);
        options_.recovery.on = true;
    }
    ~Restarted() override {
        end();
        world_.net->set_tap(nullptr);
    }
    OnlyCm tap_;
};

TEST_F(Restarted, ServerIsFoundOutInLessThanASecond) {
    start_connected();
    auto calls = send_many(1);
    world_.run_for(10 * kNsPerMs);
    tap_.only_cm = true;
    ASSERT_TRUE(run_until([&] { return transport_->counters().probes_told == 1; }, kNsPerSec));
    tap_.only_cm = false;
    ASSERT_TRUE(run_until([&] { return transport_->counters().reconnects == 1; }, kNsPerSec));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    peer().send(inline_reply(1));
    ASSERT_TRUE(run_until([&] { return calls[0]->ok(); }));
}

// A request that gets no answer is sent again, so that the server is found when it is back.
TEST_F(Restarted, ServerThatComesBackLaterIsFoundSoon) {
    start_connected();
    auto calls = send_many(1);
    world_.run_for(10 * kNsPerMs);
    tap_.none = true;
    world_.run_for(800 * kNsPerMs);
    EXPECT_EQ(transport_->counters().probes, 1u);
    EXPECT_TRUE(transport_->connected());
    tap_.none = false;
    tap_.only_cm = true;
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }, kNsPerSec));
}

// A question has an end of its own, before the silence has.
TEST_F(Restarted, QuestionThatNobodyAnsweredIsAskedAgain) {
    options_.ping.probe_after_ns = 10 * kNsPerMs;
    start_connected();
    auto calls = send_many(1);
    world_.run_for(10 * kNsPerMs);
    tap_.none = true;
    ASSERT_TRUE(run_until([&] { return transport_->counters().probes == 2; }, 3 * kNsPerSec));
    EXPECT_TRUE(transport_->connected());
}

// A peer that was not scheduled for a while answers both: nothing is lost.
TEST_F(Restarted, SilenceOfBothEndsInLife) {
    start_connected();
    auto calls = send_many(1);
    world_.run_for(10 * kNsPerMs);
    tap_.none = true;
    world_.run_for(1200 * kNsPerMs);
    tap_.none = false;
    world_.run_for(10 * kNsPerSec);
    EXPECT_TRUE(transport_->connected());
    EXPECT_EQ(transport_->counters().reconnect_tries, 0u);
    EXPECT_EQ(transport_->counters().probes, 1u);
    peer().send(inline_reply(1));
    ASSERT_TRUE(run_until([&] { return calls[0]->ok(); }));
}

// Who does not recover loses too much by a mistake.
TEST_F(Restarted, WithoutRecoveryNobodyIsAsked) {
    options_.recovery.on = false;
    start_connected();
    auto calls = send_many(1);
    world_.run_for(10 * kNsPerMs);
    tap_.only_cm = true;
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 4 * kNsPerSec));
    EXPECT_EQ(transport_->counters().probes, 0u);
}

TEST_F(Restarted, ClosedWhileItAsks) {
    start_connected();
    auto calls = send_many(1);
    world_.run_for(10 * kNsPerMs);
    tap_.none = true;
    ASSERT_TRUE(run_until([&] { return transport_->counters().probes == 1; }));
    transport_->close();
    ASSERT_TRUE(run_until([&] { return all_done(calls); }, kNsPerSec));
    EXPECT_EQ(calls[0]->error(), Errc::closed);
}

}  // namespace
}  // namespace nfsrdma::test
