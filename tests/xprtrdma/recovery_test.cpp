#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {
namespace {

class Recovery : public ClientFixture {
  protected:
    Recovery() {
        options_.recovery.on = true;
        options_.recovery.seed = 1;
    }
    // One call is answered, so that there are credits for the others.
    void warm_up(std::uint32_t credits = 8) {
        peer().script = [credits](RawConn& conn, RawMessage message) {
            conn.send(inline_reply(SeenCall(message).header.xid, credits));
        };
        auto calls = send_many(1, 1000);
        ASSERT_TRUE(run_until([&] { return all_done(calls); }));
        EXPECT_TRUE(calls[0]->ok());
        peer().script = nullptr;
    }
    static RawConn::Script answering(std::vector<std::uint32_t>* order = nullptr) {
        return [order](RawConn& conn, RawMessage message) {
            const std::uint32_t xid = SeenCall(message).header.xid;
            if (order != nullptr) order->push_back(xid);
            conn.send(inline_reply(xid, 8));
        };
    }
    void listen_again() {
        listener_ = std::make_unique<RawListener>(*world_.server, LoopWorld::server_address(),
                                                  RawOptions{});
    }
};

TEST_F(Recovery, LostCallsAreSentAgainOnceInOrderWithTheirXids) {
    start_connected();
    warm_up();
    auto calls = send_many(9);  // 8 go, one waits for a credit
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 8; }));
    std::vector<std::uint32_t> order;
    listener_->script = answering(&order);
    std::vector<std::unique_ptr<RawConn>>& conns = listener_->conns;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return all_done(calls); }));
    EXPECT_EQ(conns.size(), 2u);
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9}));
    for (const auto& call : calls) {
        EXPECT_TRUE(call->ok());
        EXPECT_EQ(call->rqst->resends, call->rqst->xid == 9 ? 0u : 1u);
    }
    EXPECT_EQ(transport_->counters().reconnects, 1u);
    EXPECT_EQ(transport_->counters().resends, 8u);
    EXPECT_EQ(lost_, 0u);
    EXPECT_EQ(told_, 1u);
}

// Each new connection: once.
TEST_F(Recovery, LostAgainIsSentAgain) {
    start_connected();
    auto calls = send_many(1);
    for (std::uint32_t round = 1; round <= 5; ++round) {
        ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; })) << round;
        EXPECT_EQ(SeenCall(peer().inbox[0]).bytes.size(), 28u + 100u);
        EXPECT_EQ(SeenCall(peer().inbox[0]).header.xid, 1u);
        EXPECT_EQ(calls[0]->rqst->resends, round - 1);
        if (round == 5) break;
        const std::size_t before = listener_->conns.size();
        peer().disconnect();
        ASSERT_TRUE(run_until([&] { return listener_->conns.size() > before; })) << round;
    }
    peer().send(inline_reply(1));
    ASSERT_TRUE(run_until([&] { return calls[0]->ok(); }));
    EXPECT_EQ(calls[0]->completions, 1u);
}

// The key of the first time is dead before there is a connection by which it could be used.
TEST_F(Recovery, StaleKeysReachNothingOnTheNextConnection) {
    start_connected();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    std::fill(room->memory().begin(), room->memory().end(), std::byte{0x11});
    auto read = send_read(77, room->memory());
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    const SeenCall first(peer().inbox[0]);
    const rpcrdma::Segment old = first.segment_of(first.header.write);
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return listener_->conns.size() == 2; }));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    const SeenCall second(peer().inbox[0]);
    const rpcrdma::Segment fresh = second.segment_of(second.header.write);
    EXPECT_NE(old.handle, fresh.handle);
    EXPECT_EQ(transport_->counters().keys_renewed, 1u);
    // The old one ends that connection; the call is sent a third time.
    bool refused = false;
    peer().write(old, pattern(8192, 9), [&](verbs::WcStatus status, const Bytes&) {
        refused = status == verbs::WcStatus::remote_access;
    });
    ASSERT_TRUE(run_until([&] { return listener_->conns.size() == 3; }));
    EXPECT_TRUE(refused);
    EXPECT_TRUE(std::all_of(room->memory().begin(), room->memory().end(),
                            [](std::byte b) { return b == std::byte{0x11}; }));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    const SeenCall third(peer().inbox[0]);
    const Bytes data = pattern(8192, 3);
    peer().write(third.segment_of(third.header.write), data);
    peer().send(msg_reply(third, 8192));
    ASSERT_TRUE(run_until([&] { return read->ok(); }));
    EXPECT_TRUE(std::equal(data.begin(), data.end(), read->placed.begin(), read->placed.end()));
    read->put();
}

// The payload of a call is needed for the next time, too.
TEST_F(Recovery, PayloadThatItsCallerLetGoIsKeptForTheNextTime) {
    start_connected();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    const Bytes data = pattern(8192, 5);
    std::copy(data.begin(), data.end(), room->memory().begin());
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(5, 100)));
    call.rqst->call.payload = room->memory();
    ASSERT_TRUE(static_cast<bool>(call.send()));
    room->reset();
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return listener_->conns.size() == 2; }));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    const SeenCall seen(peer().inbox[0]);
    Bytes got;
    peer().read(seen.segment_of(seen.header.read),
                [&](verbs::WcStatus, Bytes bytes) { got = std::move(bytes); });
    ASSERT_TRUE(run_until([&] { return !got.empty(); }));
    EXPECT_EQ(got, data);
    peer().send(inline_reply(5));
    ASSERT_TRUE(run_until([&] { return call.ok(); }));
}

TEST_F(Recovery, AbandonedCallIsNotSentAgain) {
    start_connected();
    warm_up();
    auto calls = send_many(3);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 3; }));
    calls[1]->put();
    std::vector<std::uint32_t> order;
    listener_->script = answering(&order);
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return calls[0]->done() && calls[2]->done(); }));
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 3}));
    EXPECT_EQ(calls[1]->completions, 0u);
}

TEST_F(Recovery, CallPutWhileItIsKeptIsNotSentAgain) {
    start_connected();
    warm_up();
    listener_->refuse = true;
    auto calls = send_many(3);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 3; }));
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    calls[1]->put();
    std::vector<std::uint32_t> order;
    listener_->script = answering(&order);
    listener_->refuse = false;
    ASSERT_TRUE(run_until([&] { return calls[0]->done() && calls[2]->done(); }));
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 3}));
}

// A reply that came before the end counts, though its keys were flushed on the way.
TEST_F(Recovery, AnsweredCallsAreNotSentAgain) {
    start_connected();
    warm_up();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    auto read = send_read(7, room->memory());
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    const SeenCall seen(peer().inbox[0]);
    listener_->script = answering();
    peer().write(seen.segment_of(seen.header.write), pattern(8192, 1));
    peer().send(msg_reply(seen, 8192), [&](verbs::WcStatus, const Bytes&) { peer().disconnect(); });
    ASSERT_TRUE(run_until([&] { return transport_->counters().reconnects == 1; }));
    EXPECT_TRUE(read->ok());
    EXPECT_EQ(transport_->counters().resends, 0u);
    read->put();
}

// Who waits is asked after each attempt whether it still does.
TEST_F(Recovery, MeanwhileNoSlotIsGivenAndTheWakeComesWithTheConnection) {
    struct Waiter {
        xprtrdma::Transport* transport;
        std::uint32_t asked, got;
    };
    start_connected();
    warm_up();
    Waiter waiter{transport_.get(), 0, 0};
    transport_->on_slot(
        [](void* arg) noexcept {
            Waiter& self = *static_cast<Waiter*>(arg);
            ++self.asked;
            auto rqst = self.transport->get_rqst(40);
            if (!rqst) return;
            ++self.got;
            self.transport->put_rqst(**rqst);
        },
        &waiter);
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    EXPECT_FALSE(transport_->connected());
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    world_.run_for(kNsPerSec);
    EXPECT_GT(waiter.asked, 1u);
    EXPECT_EQ(waiter.got, 0u);
    listener_->refuse = false;
    ASSERT_TRUE(run_until([&] { return waiter.got > 0; }));
    EXPECT_TRUE(transport_->connected());
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
}

// From the first moment: the old connection is still being drained.
TEST_F(Recovery, WhileTheOldConnectionEndsCallersAreToldToWait) {
    start_connected();
    warm_up();
    auto calls = send_many(8);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 8; }));
    const std::uint64_t lost = transport_->counters().disconnects;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return !transport_->connected(); }));
    ASSERT_EQ(transport_->counters().disconnects, lost);
    EXPECT_TRUE(transport_->recovering());
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    transport_->close();
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::closed);
}

// A call that its caller had prepared when the connection went is sent with the others.
TEST_F(Recovery, CallSentMeanwhileGoesBehindThoseThatWereLost) {
    start_connected();
    warm_up();
    auto calls = send_many(2);
    TestCall late(*transport_);
    ASSERT_TRUE(static_cast<bool>(late.prepare(50, 100)));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 2; }));
    std::vector<std::uint32_t> order;
    listener_->script = answering(&order);
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    ASSERT_TRUE(static_cast<bool>(late.send()));
    ASSERT_TRUE(run_until([&] { return all_done(calls) && late.done(); }));
    EXPECT_EQ(order, (std::vector<std::uint32_t>{1, 2, 50}));
    EXPECT_EQ(late.rqst->resends, 0u);
}

// ---- when ----

TEST_F(Recovery, AttemptsComeMoreAndMoreSlowly) {
    options_.recovery.first_delay_ns = 100 * kNsPerMs;
    options_.recovery.max_delay_ns = 2 * kNsPerSec;
    start_connected();
    warm_up();
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    listener_->refuse = true;
    peer().disconnect();
    std::vector<std::uint64_t> at;
    const std::uint64_t begin = world_.loop->now_ns();
    while (at.size() < 12) {
        const std::uint64_t tries = transport_->counters().reconnect_tries;
        ASSERT_TRUE(run_until([&] { return transport_->counters().reconnect_tries > tries; }));
        at.push_back(world_.loop->now_ns() - begin);
    }
    EXPECT_LT(at[0], 10 * kNsPerMs);  // the last one had worked
    std::uint64_t expected = 100 * kNsPerMs;
    for (std::size_t i = 1; i < at.size(); ++i) {
        const std::uint64_t gap = at[i] - at[i - 1];
        EXPECT_GE(gap, expected - expected / 4) << i;
        EXPECT_LE(gap, expected + expected / 4 + kNsPerMs) << i;
        expected = std::min(expected * 2, 2 * kNsPerSec);
    }
    listener_->refuse = false;
    ASSERT_TRUE(run_until([&] { return transport_->connected(); }));
    EXPECT_EQ(transport_->counters().reconnects, 1u);
}

TEST_F(Recovery, GivesUpInTimeAndAnswersEverybodyOnce) {
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    start_connected();
    warm_up();
    auto calls = send_many(3);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 3; }));
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    world_.run_for(4900 * kNsPerMs);
    EXPECT_FALSE(calls[0]->done());
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 300 * kNsPerMs));
    for (const auto& call : calls) {
        EXPECT_EQ(call->error(), Errc::reconnect);
        EXPECT_EQ(call->completions, 1u);
    }
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::reconnect);
    world_.run_for(10 * kNsPerSec);
    EXPECT_EQ(lost_, 1u);
}

// Also when no attempt ends by itself: a host that is gone does not refuse.
TEST_F(Recovery, GivesUpInTimeWhenNobodyAnswers) {
    struct Cut final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame&) noexcept override { return false; }
    } cut;
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    start_connected();
    warm_up();
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    world_.net->set_tap(&cut);
    ASSERT_TRUE(run_until([&] { return transport_->recovering(); }));
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 5100 * kNsPerMs));
    EXPECT_EQ(calls[0]->error(), Errc::reconnect);
    world_.net->set_tap(nullptr);
}

TEST_F(Recovery, GivesUpAfterItsTries) {
    options_.recovery.tries_max = 4;
    start_connected();
    warm_up();
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }));
    EXPECT_EQ(transport_->counters().reconnect_tries, 4u);
    EXPECT_EQ(calls[0]->error(), Errc::reconnect);
}

// A server that takes connections, and dies of the same call each time, is not asked for ever.
TEST_F(Recovery, ConnectionsWithoutAReplyDoNotRenewThePatience) {
    options_.recovery.give_up_ns = 10 * kNsPerSec;
    start_connected();
    listener_->script = [](RawConn& conn, const RawMessage&) { conn.disconnect(); };
    peer().script = listener_->script;
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 11 * kNsPerSec));
    EXPECT_EQ(calls[0]->error(), Errc::reconnect);
    EXPECT_GT(transport_->counters().reconnects, 5u);
    EXPECT_LT(transport_->counters().reconnects, 20u);  // ever more slowly
}

// A server closes what is idle: that is not undone at once, and the next call finds the way.
TEST_F(Recovery, B105_IdleConnectionThatTheServerClosesComesBackWithTheNextCall) {
    std::uint32_t woken = 0;
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    start_connected();
    warm_up();
    transport_->on_slot([](void* arg) noexcept { ++*static_cast<std::uint32_t*>(arg); }, &woken);
    world_.run_for(2 * kNsPerSec);
    peer().disconnect();
    world_.run_for(50 * kNsPerSec);
    EXPECT_EQ(transport_->counters().reconnect_tries, 0u);
    EXPECT_TRUE(transport_->recovering());
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    ASSERT_TRUE(run_until([&] { return woken > 0; }, kNsPerSec));
    EXPECT_EQ(transport_->counters().reconnect_tries, 1u);
    EXPECT_LT(transport_->counters().recover_ns_max, kNsPerSec);
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
}

// And when nobody needs a connection, nobody loses patience: one attempt a minute.
TEST_F(Recovery, B105_ServerThatIsGoneWhileNobodyNeedsItCostsNothing) {
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    start_connected();
    warm_up();
    world_.run_for(2 * kNsPerSec);
    listener_->refuse = true;
    peer().disconnect();
    world_.run_for(3600 * kNsPerSec);
    EXPECT_EQ(lost_, 0u);
    EXPECT_GE(transport_->counters().reconnect_tries, 55u);
    EXPECT_LE(transport_->counters().reconnect_tries, 60u);
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::again);
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 6 * kNsPerSec));
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::reconnect);
}

TEST_F(Recovery, PatienceBeginsWithTheNeed) {
    options_.recovery.give_up_ns = 10 * kNsPerSec;
    start_connected();
    warm_up();
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->counters().reconnects == 1; }));
    world_.run_for(3600 * kNsPerSec);
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    listener_->script = answering();
    peer().disconnect();  // it was asked, and brought no reply
    ASSERT_TRUE(run_until([&] { return calls[0]->done(); }));
    EXPECT_TRUE(calls[0]->ok());
}

TEST_F(Recovery, TheFirstAttemptFailsAtOnce) {
    start_connected();
    end();
    listener_->refuse = true;
    connect();
    ASSERT_TRUE(run_until([&] { return told_ == 2; }));
    EXPECT_EQ(connect_result_->error().code, Errc::refused);
    EXPECT_FALSE(transport_->recovering());
}

TEST_F(Recovery, TheFirstAttemptIsRepeatedWhereAskedFor) {
    options_.recovery.first_too = true;
    connect();  // nobody listens
    world_.run_for(5 * kNsPerSec);
    EXPECT_EQ(told_, 0u);
    EXPECT_TRUE(transport_->recovering());
    listen_again();
    ASSERT_TRUE(run_until([&] { return told_ > 0; }));
    EXPECT_TRUE(static_cast<bool>(*connect_result_));
    EXPECT_EQ(transport_->counters().reconnects, 0u);
    answer_inline();
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return all_done(calls); }));
    EXPECT_TRUE(calls[0]->ok());
}

TEST_F(Recovery, TheFirstConnectionHasItsLimitsToo) {
    options_.recovery.first_too = true;
    options_.recovery.give_up_ns = 5 * kNsPerSec;
    connect();  // nobody listens
    world_.run_for(4900 * kNsPerMs);
    EXPECT_EQ(told_, 0u);
    ASSERT_TRUE(run_until([&] { return told_ > 0; }, 300 * kNsPerMs));
    EXPECT_FALSE(static_cast<bool>(*connect_result_));
    EXPECT_FALSE(transport_->recovering());
    end();
    options_.recovery.give_up_ns = 0;
    options_.recovery.tries_max = 3;
    connect();
    ASSERT_TRUE(run_until([&] { return told_ > 1; }));
    EXPECT_EQ(transport_->counters().reconnect_tries, 3u);
    EXPECT_EQ(connect_result_->error().code, transport_->why_down().code);
}

// ---- close ----

TEST_F(Recovery, CloseBetweenAttemptsAnswersClosedAtOnceAndNotFromInside) {
    options_.recovery.first_delay_ns = options_.recovery.max_delay_ns = 100 * kNsPerSec;
    start_connected();
    warm_up();
    auto calls = send_many(8);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 8; }));
    listener_->refuse = true;
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->counters().reconnect_tries == 1; }));
    world_.run_for(kNsPerSec);
    transport_->close();
    EXPECT_FALSE(calls[0]->done());
    EXPECT_FALSE(transport_->idle());
    world_.run_for(kNsPerMs);
    for (const auto& call : calls) {
        EXPECT_EQ(call->error(), Errc::closed);
        EXPECT_EQ(call->completions, 1u);
    }
    EXPECT_EQ(lost_, 0u);
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::closed);
}

TEST_F(Recovery, CloseDuringAnAttemptAnswersClosed) {
    start_connected();
    warm_up();
    auto calls = send_many(2);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 2; }));
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->counters().reconnect_tries == 1; }));
    transport_->close();
    ASSERT_TRUE(run_until([&] { return all_done(calls); }, kNsPerSec));
    EXPECT_EQ(calls[0]->error(), Errc::closed);
    EXPECT_EQ(calls[1]->error(), Errc::closed);
}

TEST_F(Recovery, CloseFromInsideOfTheNews) {
    struct News {
        xprtrdma::Transport* transport;
        std::vector<bool> heard;
    } news{nullptr, {}};
    start_connected();
    warm_up();
    news.transport = transport_.get();
    transport_->on_recovery(
        [](void* arg, bool connected) noexcept {
            auto& self = *static_cast<News*>(arg);
            self.heard.push_back(connected);
            if (self.heard.size() == 3) self.transport->close();
        },
        &news);
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return news.heard.size() == 2; }));
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return transport_->idle(); }));
    EXPECT_EQ(news.heard, (std::vector<bool>{false, true, false}));
}

// The connection ends at any time, hundreds of times: each call is answered once and everything
// comes home.
TEST_F(Recovery, B26_LostAtAnyTimeEverythingIsAnsweredOnce) {
    start_connected();
    listener_->script = [](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        if (!seen.header.write.empty())
            conn.write(seen.segment_of(seen.header.write), pattern(8192, seen.header.xid));
        conn.send(msg_reply(seen, seen.header.write.empty() ? 0 : 8192, 8));
    };
    peer().script = listener_->script;
    Prng prng(7);
    std::uint32_t xid = 1;
    for (int round = 0; round < 150; ++round) {
        auto calls = send_many(4, xid);
        auto room = transport_->get_payload(8192);
        ASSERT_TRUE(static_cast<bool>(room));
        auto read = send_read(xid + 4, room->memory());
        xid += 5;
        world_.run_for(prng.below(60 * kNsPerUs));
        if (round % 3 == 0) calls[0]->put();
        if (round % 2 == 0) {
            peer().disconnect();
        } else {
            peer().qp().set_error();  // silently: the client finds out
            peer().id().disconnect();
        }
        ASSERT_TRUE(run_until([&] {
            return read->done() && std::all_of(calls.begin() + 1, calls.end(),
                                               [](const auto& call) { return call->done(); });
        })) << round;
        EXPECT_TRUE(read->ok());
        const Bytes data = pattern(8192, read->rqst->xid);
        EXPECT_TRUE(std::equal(data.begin(), data.end(), read->placed.begin(), read->placed.end()));
        for (auto it = calls.begin() + 1; it != calls.end(); ++it)
            EXPECT_TRUE((*it)->ok());
        read->put();
        ASSERT_TRUE(run_until([&] { return transport_->connected(); })) << round;
        listener_->conns.erase(listener_->conns.begin(), listener_->conns.end() - 1);
    }
    EXPECT_GT(transport_->counters().resends, 50u);
    EXPECT_LT(transport_->counters().recover_ns_max, 500 * kNsPerMs);
}

}  // namespace
}  // namespace nfsrdma::test
