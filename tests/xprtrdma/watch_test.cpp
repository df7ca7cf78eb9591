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
    Cut cut_;
};

// Pings are answered by the device below a server that thinks: it is not taken for dead.
TEST_F(Watch, SlowServerIsPingedAndKept) {
    options_.ping = {.after_ns = 3 * kNsPerSec, .timeout_ns = 5 * kNsPerSec};
    start_connected();
    auto calls = send_many(2);
    world_.run_for(31 * kNsPerSec);
    EXPECT_TRUE(transport_->connected());
    EXPECT_EQ(transport_->counters().pings, 10u);
    EXPECT_EQ(transport_->counters().ping_timeouts, 0u);
    EXPECT_EQ(peer().inbox.size(), 1u);  // a ping is no message, takes no Receive and no credit
    peer().send(inline_reply(1));
    EXPECT_TRUE(run_until([&] { return calls[0]->ok(); }));
    EXPECT_EQ(peer().failed_ops, 0u);
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
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 9 * kNsPerSec));
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
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 9 * kNsPerSec));
    EXPECT_EQ(calls[0]->error(), Errc::reconnect);
}

}  // namespace
}  // namespace nfsrdma::test
