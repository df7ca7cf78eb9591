#include "tests/xprtrdma/client_fixture.hpp"

// SEND_WITH_INV from a peer that names a key which is not the answered call's.
namespace nfsrdma::test {
namespace {

class Invalidate : public ClientFixture {
  protected:
    // Two READs are in flight; what they exposed.
    void two_reads() {
        start_connected();
        // The first reply raises the credits.
        TestCall null(*transport_);
        ASSERT_TRUE(static_cast<bool>(null.prepare(1000, 40)));
        ASSERT_TRUE(static_cast<bool>(null.send()));
        ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
        peer().send(inline_reply(1000));
        ASSERT_TRUE(run_until([&] { return null.done(); }));
        peer().inbox.clear();
        for (std::uint32_t i = 0; i < 2; ++i) {
            auto room = transport_->get_payload(8192);
            ASSERT_TRUE(static_cast<bool>(room));
            rooms_.push_back(*std::move(room));
            calls_.push_back(std::make_unique<TestCall>(*transport_));
            ASSERT_TRUE(static_cast<bool>(calls_[i]->prepare(i + 1, 100)));
            calls_[i]->rqst->result_room = rooms_[i].memory();
            ASSERT_TRUE(static_cast<bool>(calls_[i]->send()));
        }
        ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 2; }));
        for (const RawMessage& message : peer().inbox)
            seen_.emplace_back(message);
    }
    rpcrdma::Segment segment(std::size_t i) const {
        return seen_[i].segment_of(seen_[i].header.write);
    }
    void expect_closed() {
        ASSERT_TRUE(run_until([&] { return lost_ > 0; }));
        for (const auto& call : calls_) {
            EXPECT_EQ(call->completions, 1u);
            EXPECT_EQ(call->error(), Errc::reconnect);
        }
    }
    void TearDown() override {
        calls_.clear();
        rooms_.clear();
    }
    std::vector<sunrpc::Payload> rooms_;
    std::vector<std::unique_ptr<TestCall>> calls_;
    std::vector<SeenCall> seen_;
};

TEST_F(Invalidate, AnotherCallsKeyClosesTheConnection) {
    two_reads();
    peer().send_with_inv(msg_reply(seen_[0], 0), segment(1).handle);
    expect_closed();
    EXPECT_EQ(transport_->counters().bad_invalidations, 1u);
}

TEST_F(Invalidate, KeyNamedByAReplyToNoCallClosesTheConnection) {
    two_reads();
    peer().send_with_inv(inline_reply(0xabcdef), segment(0).handle);
    expect_closed();
    EXPECT_EQ(transport_->counters().bad_invalidations, 1u);
}

// The device refuses these itself: the queue pair goes to the error state.
TEST_F(Invalidate, UnknownKeyEndsTheConnection) {
    two_reads();
    peer().send_with_inv(msg_reply(seen_[0], 0), segment(0).handle ^ 0x5a00);
    expect_closed();
}

TEST_F(Invalidate, KeyThatIsFreeAlreadyEndsTheConnection) {
    two_reads();
    peer().send_with_inv(msg_reply(seen_[0], 0), segment(0).handle);
    ASSERT_TRUE(run_until([&] { return calls_[0]->done(); }));
    EXPECT_TRUE(calls_[0]->ok());
    const std::uint32_t freed = segment(0).handle;
    calls_.erase(calls_.begin());
    peer().send_with_inv(msg_reply(seen_[1], 0), freed);
    expect_closed();
    EXPECT_EQ(transport_->counters().remote_invalidations, 1u);
}

TEST_F(Invalidate, TheCallsOwnKeyIsTaken) {
    two_reads();
    peer().send_with_inv(msg_reply(seen_[1], 0), segment(1).handle);
    peer().send(msg_reply(seen_[0], 0));
    ASSERT_TRUE(run_until([&] { return calls_[0]->done() && calls_[1]->done(); }));
    EXPECT_TRUE(calls_[0]->ok() && calls_[1]->ok());
    EXPECT_EQ(transport_->counters().remote_invalidations, 1u);
    EXPECT_EQ(transport_->counters().local_invalidations, 1u);
    EXPECT_EQ(transport_->counters().bad_invalidations, 0u);
    EXPECT_TRUE(transport_->connected());
}

// An error reply may invalidate, too.
TEST_F(Invalidate, ErrorReplyWithInvalidateLeavesNothingToDo) {
    two_reads();
    peer().send_with_inv(reply_fixed(1, 32, 4).u32(2).take(), segment(0).handle);
    ASSERT_TRUE(run_until([&] { return calls_[0]->done(); }));
    EXPECT_EQ(calls_[0]->error(), Errc::bad_message);
    EXPECT_EQ(transport_->counters().local_invalidations, 0u);
}

// No key outlives its call: right after the answer a WRITE by the old key is refused.
TEST_F(Invalidate, KeyIsDeadWhenTheCallCompletes) {
    two_reads();
    std::fill(rooms_[0].memory().begin(), rooms_[0].memory().end(), std::byte{0x5a});
    peer().send(msg_reply(seen_[0], 0));
    ASSERT_TRUE(run_until([&] { return calls_[0]->done(); }));
    peer().write(segment(0), Bytes(8192));
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }));
    EXPECT_TRUE(run_until([&] { return peer().failed_ops > 0; }));
    EXPECT_EQ(peer().last_failure, verbs::WcStatus::remote_access);
    EXPECT_TRUE(std::all_of(rooms_[0].memory().begin(), rooms_[0].memory().end(),
                            [](std::byte b) { return b == std::byte{0x5a}; }));
}

}  // namespace
}  // namespace nfsrdma::test
