#include "tests/xprtrdma/client_fixture.hpp"

// An answer needs three facts: outcome, keys dead, Send completed.
namespace nfsrdma::test {
namespace {

class Complete : public ClientFixture {
  protected:
    // Drops the acknowledgements that the server sends while `hold`.
    struct HoldAcks final : verbs::softroce::LoopTap {
        bool hold = false;
        bool on_frame(verbs::softroce::LoopFrame& frame) noexcept override {
            constexpr std::byte kAcknowledge{0x11};
            return !(hold && frame.from.same_address(LoopWorld::server_address()) &&
                     !frame.bytes.empty() && frame.bytes[0] == kAcknowledge);
        }
    } tap_;
};

TEST_F(Complete, NotBeforeItsSendIsAcknowledged) {
    start_connected();
    answer_inline();
    world_.net->set_tap(&tap_);
    tap_.hold = true;
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 100)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return transport_->counters().replies == 1; }));
    world_.run_for(kNsPerMs);
    EXPECT_FALSE(call.done());  // its buffer may still be sent again
    tap_.hold = false;
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    world_.net->set_tap(nullptr);
}

TEST_F(Complete, ReplyHeadIsReadWhereItWasReceivedUntilPut) {
    start_connected();
    answer_inline();
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 100)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    const Bytes before(call.rqst->reply.head.begin(), call.rqst->reply.head.end());
    // Many more replies, while the first is still read.
    for (std::uint32_t xid = 2; xid < 200; ++xid) {
        TestCall other(*transport_);
        ASSERT_TRUE(static_cast<bool>(other.prepare(xid, 100)));
        ASSERT_TRUE(static_cast<bool>(other.send()));
        ASSERT_TRUE(run_until([&] { return other.done(); }));
    }
    EXPECT_EQ(Bytes(call.rqst->reply.head.begin(), call.rqst->reply.head.end()), before);
    EXPECT_EQ(transport_->counters().payload_copied_bytes, 0u);
}

TEST_F(Complete, FailedCallShowsNoReply) {
    start_connected();
    peer().script = [](RawConn& conn, RawMessage message) {
        conn.send(reply_fixed(SeenCall(message).header.xid, 32, 4).u32(2).take());
    };
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 100)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_EQ(call.error(), Errc::bad_message);
    EXPECT_TRUE(call.rqst->reply.head.empty());
    EXPECT_TRUE(call.rqst->reply.payload.empty());
}

}  // namespace
}  // namespace nfsrdma::test
