#include "tests/xprtrdma/client_fixture.hpp"

// Of a transport that recovers: whose patience it is, and when it begins.
namespace nfsrdma::test {
namespace {

class Patience : public ClientFixture {
  protected:
    Patience() {
        options_.recovery.on = true;
        options_.recovery.seed = 1;
    }
    // One call is answered: the connection worked.
    void warm_up() {
        answer_inline();
        auto calls = send_many(1, 1000);
        ASSERT_TRUE(run_until([&] { return all_done(calls); }));
        EXPECT_TRUE(calls[0]->ok());
    }
};

// It asks again each time, and its patience ends all the same.
TEST_F(Patience, WhoGoesOnWaitingHasNoNewPatience) {
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    start_connected();
    warm_up();
    transport_->on_slot(
        [](void* arg) noexcept {
            EXPECT_FALSE(static_cast<bool>(static_cast<xprtrdma::Transport*>(arg)->get_rqst(40)));
        },
        transport_.get());
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    world_.run_for(4900 * kNsPerMs);
    EXPECT_EQ(lost_, 0u);
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 300 * kNsPerMs));
}

// A caller whose time was over is nobody who waits.
TEST_F(Patience, CallerThatWentAwayNeedsNoConnection) {
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    start_connected();
    warm_up();
    transport_->on_slot([](void*) noexcept {}, nullptr);
    world_.run_for(2 * kNsPerSec);
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    world_.run_for(600 * kNsPerSec);
    EXPECT_EQ(lost_, 0u);
    EXPECT_LT(transport_->counters().reconnect_tries, 20u);
    EXPECT_EQ(transport_->why_down().code, Errc::refused);
}

// Nobody needed the attempt that is under way, nor those before.
TEST_F(Patience, PatienceBeginsWithACallThatComesDuringAnAttempt) {
    struct Cut final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame&) noexcept override { return false; }
    } cut;
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    options_.recovery.tries_max = 100;
    start_connected();
    warm_up();
    world_.run_for(2 * kNsPerSec);
    peer().disconnect();
    world_.run_for(kNsPerSec);
    world_.net->set_tap(&cut);
    ASSERT_TRUE(
        run_until([&] { return transport_->counters().reconnect_tries == 1; }, 61 * kNsPerSec));
    world_.run_for(500 * kNsPerMs);
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    world_.run_for(4900 * kNsPerMs);
    EXPECT_EQ(lost_, 0u);
    EXPECT_TRUE(run_until([&] { return lost_ > 0; }, 300 * kNsPerMs));
    world_.net->set_tap(nullptr);
}

TEST_F(Patience, ServerThatDropsWhatItTakesIsAskedMoreAndMoreSlowly) {
    start_connected();
    warm_up();
    const std::uint64_t begin = world_.loop->now_ns();
    for (int round = 0; round < 10; ++round) {
        ASSERT_TRUE(run_until([&] { return transport_->connected(); })) << round;
        peer().disconnect();
        ASSERT_TRUE(run_until([&] { return !transport_->connected(); })) << round;
    }
    EXPECT_GT(world_.loop->now_ns() - begin, 4 * kNsPerSec);
    // One that lasts is as good as one that answers.
    ASSERT_TRUE(run_until([&] { return transport_->connected(); }));
    world_.run_for(5 * kNsPerSec);
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return !transport_->connected(); }));
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    EXPECT_TRUE(run_until([&] { return transport_->connected(); }, 10 * kNsPerMs));
}

}  // namespace
}  // namespace nfsrdma::test
