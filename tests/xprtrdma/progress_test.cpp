#include <map>

#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {
namespace {

class Progress : public ClientFixture {};

// ---- credits ----

TEST_F(Progress, OneCreditUntilTheFirstReply) {
    start_connected();
    auto calls = send_many(8);
    world_.run_for(50 * kNsPerMs);
    EXPECT_EQ(peer().inbox.size(), 1u);
    EXPECT_EQ(transport_->credits_granted(), 1u);
    EXPECT_EQ(transport_->counters().waited_for_credit, 1u);
    peer().send(inline_reply(1, 4));
    world_.run_for(50 * kNsPerMs);
    EXPECT_EQ(transport_->credits_granted(), 4u);
    EXPECT_EQ(peer().inbox.size(), 5u);  // four in flight
}

TEST_F(Progress, B01_CallsInFlightReachTheGrant) {
    options_.demand.credits = 32;
    start_connected();
    auto calls = send_many(33);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    peer().send(inline_reply(1, 32));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 33; }));
    EXPECT_EQ(transport_->counters().in_flight_max, 32u);
}

TEST_F(Progress, GrantsAreClamped) {
    start_connected();
    auto calls = send_many(3);
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    peer().send(inline_reply(1, 0));
    ASSERT_TRUE(run_until([&] { return calls[0]->done(); }));
    EXPECT_EQ(transport_->credits_granted(), 1u);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 2; }));
    peer().send(inline_reply(2, 1'000'000));
    ASSERT_TRUE(run_until([&] { return calls[1]->done(); }));
    EXPECT_EQ(transport_->credits_granted(), 8u);
}

// The first reply grants all at once, and all replies come at once: none meets a missing Receive.
TEST_F(Progress, B22_ReceivesAreThereBeforeSendersAreWoken) {
    options_.demand.credits = 32;
    for (std::uint32_t round = 0; round < 50; ++round) {
        start_connected();
        std::vector<Bytes> held;
        peer().script = [&](RawConn& conn, RawMessage message) {
            held.push_back(inline_reply(SeenCall(message).header.xid, 32));
            if (held.size() == 1 || held.size() == 36) {
                for (Bytes& reply : held)
                    conn.send(std::move(reply));
                if (held.size() == 1) held[0].clear();
            }
        };
        auto calls = send_many(36);
        ASSERT_TRUE(run_until([&] { return held.size() >= 33; }));
        for (Bytes& reply : held) {
            if (!reply.empty()) peer().send(std::move(reply));
        }
        peer().script = [](RawConn& conn, RawMessage message) {
            conn.send(inline_reply(SeenCall(message).header.xid, 32));
        };
        ASSERT_TRUE(run_until([&] { return all_done(calls); }));
        for (const auto& call : calls)
            EXPECT_TRUE(call->ok());
        EXPECT_EQ(verbs::softroce::counters(*world_.client).rnr_naks_sent, 0u);
        EXPECT_EQ(transport_->counters().disconnects, 0u);
        calls.clear();
        end();
        listener_.reset();
        told_ = 0;
    }
}

// ---- replies that are none of ours, or bad ----

TEST_F(Progress, B29_StrayRepliesAreDroppedAndTheConnectionKept) {
    start_connected();
    peer().script = [](RawConn& conn, RawMessage message) {
        const std::uint32_t xid = SeenCall(message).header.xid;
        for (std::uint32_t i = 0; i < 10; ++i)
            conn.send(inline_reply(0xdead0000 + xid * 16 + i));
        conn.send(inline_reply(xid));
        conn.send(inline_reply(xid));  // again: its call is gone
    };
    for (std::uint32_t xid = 1; xid <= 100; ++xid) {
        TestCall call(*transport_);
        ASSERT_TRUE(static_cast<bool>(call.prepare(xid, 100)));
        ASSERT_TRUE(static_cast<bool>(call.send()));
        ASSERT_TRUE(run_until([&] { return call.done(); }));
        ASSERT_TRUE(call.ok());
    }
    world_.run_for(10 * kNsPerMs);
    EXPECT_EQ(transport_->counters().bad_xids, 1100u);
    EXPECT_EQ(transport_->counters().disconnects, 0u);
}

TEST_F(Progress, GarbageIsCountedByKindAndDropped) {
    start_connected();
    peer().send({});
    peer().send(Bytes(15));
    peer().send(Words().u32(1).u32(2).u32(1).u32(0).u32(0).u32(0).u32(0).take());
    peer().send(reply_fixed(1, 32, 3).take());
    peer().send(pattern(4096, 1));
    for (std::uint64_t seed = 0; seed < 200; ++seed)
        peer().send(pattern(seed * 7 % 600, seed));
    answer_inline();
    world_.run_for(100 * kNsPerMs);
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 100)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
    EXPECT_GE(transport_->counters().short_replies, 2u);
    EXPECT_GE(transport_->counters().bad_versions, 2u);
    EXPECT_GE(transport_->counters().bad_xids, 1u);
}

// ERR_VERS is final. ERR_CHUNK is answered by the largest Reply chunk, once, with the same XID.
TEST_F(Progress, B10_ErrorRepliesFailOneCallAlone) {
    start_connected();
    std::map<std::uint32_t, std::vector<bool>> seen;  // by XID: whether there was a Reply chunk
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall call(message);
        const std::uint32_t xid = call.header.xid;
        seen[xid].push_back(!call.header.reply.empty());
        if (xid % 3 == 0) {
            conn.send(reply_fixed(xid, 32, 4).u32(2).take());
        } else if (xid % 3 == 1) {
            conn.send(reply_fixed(xid, 32, 4).u32(1).u32(1).u32(1).take());
        } else {
            conn.send(inline_reply(xid));
        }
    };
    auto calls = send_many(9);
    ASSERT_TRUE(run_until([&] { return all_done(calls); }, kNsPerSec));
    for (const auto& call : calls) {
        const std::uint32_t xid = call->rqst->xid;
        if (xid % 3 == 2) {
            EXPECT_TRUE(call->ok());
        } else {
            EXPECT_EQ(call->error(), Errc::bad_message);
        }
        EXPECT_EQ(call->completions, 1u);
        EXPECT_EQ(seen[xid],
                  xid % 3 == 0 ? (std::vector<bool>{false, true}) : (std::vector<bool>{false}));
    }
    EXPECT_EQ(transport_->counters().err_chunk, 6u);
    EXPECT_EQ(transport_->counters().err_chunk_retries, 3u);
    EXPECT_EQ(transport_->counters().err_vers, 3u);
    EXPECT_TRUE(transport_->connected());
}

TEST_F(Progress, B10_LargerReplyChunkHelps) {
    start_connected();
    const Bytes long_reply = Words(rpc_reply(1)).bytes(pattern(20000, 3)).take();
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall call(message);
        if (call.header.reply.empty()) {
            conn.send(reply_fixed(1, 32, 4).u32(2).take());
            return;
        }
        const rpcrdma::Segment room = call.segment_of(call.header.reply);
        EXPECT_EQ(room.length, options_.demand.max_message);
        rpcrdma::Segment used = room;
        used.length = static_cast<std::uint32_t>(long_reply.size());
        conn.write(used, long_reply);
        conn.send(reply_fixed(1, 32, 1).u32(0).u32(0).u32(1).u32(1).segment(used).take());
    };
    auto calls = send_many(1);
    ASSERT_TRUE(run_until([&] { return all_done(calls); }, kNsPerSec));
    EXPECT_TRUE(calls[0]->ok());
    EXPECT_EQ(calls[0]->head, long_reply);
    EXPECT_EQ(calls[0]->rqst->resends, 1u);
}

// A place for a payload is the caller's, and no larger one is to be had.
TEST_F(Progress, B10_ErrChunkForAPayloadIsNotSentAgain) {
    start_connected();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    std::uint32_t seen = 0;
    peer().script = [&](RawConn& conn, RawMessage message) {
        ++seen;
        conn.send(reply_fixed(SeenCall(message).header.xid, 32, 4).u32(2).take());
    };
    auto read = send_read(7, room->memory());
    ASSERT_TRUE(run_until([&] { return read->done(); }, kNsPerSec));
    EXPECT_EQ(read->error(), Errc::bad_message);
    EXPECT_EQ(seen, 1u);
    EXPECT_EQ(transport_->counters().resends, 0u);
    EXPECT_EQ(transport_->counters().local_invalidations, 1u);
    EXPECT_TRUE(transport_->connected());
}

// A READ whose peer breaks the reply's header: that call fails, its key is dead, others go on.
TEST_F(Progress, BadReplyHeadersFailOneCallAlone) {
    start_connected();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    int kind = 0;
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        rpcrdma::Segment segment = seen.segment_of(seen.header.write);
        const std::uint32_t xid = seen.header.xid;
        Words words = reply_fixed(xid);
        const Bytes rpc = rpc_reply(xid).take();
        switch (kind) {
            case 0:
                segment.length = 8193;
                break;  // more than offered
            case 1:
                segment.handle ^= 0x100;
                break;  // another handle
            case 2:
                segment.offset += 1;
                break;  // another place
            default:
                break;
        }
        if (kind <= 2) words.u32(0).u32(1).u32(1).segment(segment).u32(0).u32(0).bytes(rpc);
        if (kind == 3) words.u32(0).u32(0).u32(0).bytes(rpc);  // no Write list
        if (kind == 4)
            words.u32(0).u32(1).u32(2).segment(segment).segment(segment).u32(0).u32(0).bytes(rpc);
        if (kind == 5) words.u32(0).u32(1).u32(0xffffffff).segment(segment).u32(0).u32(0);
        if (kind == 6)
            words.u32(0).u32(1).u32(1).segment(segment).u32(0).u32(1).u32(1).segment(segment).bytes(
                rpc);
        if (kind == 7) words.u32(1).u32(4).segment(segment).u32(0).u32(0).u32(0).bytes(rpc);
        if (kind == 8) words.u32(2);
        conn.send(words.take());
    };
    for (kind = 0; kind <= 8; ++kind) {
        auto call = send_read(100 + static_cast<std::uint32_t>(kind), room->memory());
        ASSERT_TRUE(run_until([&] { return call->done(); })) << kind;
        EXPECT_EQ(call->error(), Errc::bad_message) << kind;
    }
    EXPECT_EQ(transport_->counters().bad_replies, 9u);
    EXPECT_EQ(transport_->counters().local_invalidations, 9u);
    answer_inline();
    TestCall call(*transport_);
    ASSERT_TRUE(static_cast<bool>(call.prepare(1, 100)));
    ASSERT_TRUE(static_cast<bool>(call.send()));
    ASSERT_TRUE(run_until([&] { return call.done(); }));
    EXPECT_TRUE(call.ok());
}

TEST_F(Progress, B07_ShortReadReportsReturnedLengthAndLeavesTheRest) {
    start_connected();
    const Bytes data = pattern(100, 1);
    peer().script = [&](RawConn& conn, RawMessage message) {
        const SeenCall seen(message);
        conn.write(seen.segment_of(seen.header.write), data);
        conn.send(msg_reply(seen, 100));
    };
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    std::fill(room->memory().begin(), room->memory().end(), std::byte{0x5a});
    auto call = send_read(1, room->memory());
    ASSERT_TRUE(run_until([&] { return call->done(); }));
    ASSERT_TRUE(call->ok());
    EXPECT_EQ(Bytes(call->placed.begin(), call->placed.end()), data);
    EXPECT_TRUE(std::all_of(room->memory().begin() + 100, room->memory().end(),
                            [](std::byte b) { return b == std::byte{0x5a}; }));
}

TEST_F(Progress, B08_UnusedWriteChunksLeakNothing) {
    start_connected();
    peer().script = [&](RawConn& conn, RawMessage message) {
        conn.send(msg_reply(SeenCall(message), 0));
    };
    for (std::uint32_t xid = 1; xid <= 2000; ++xid) {
        auto room = transport_->get_payload(8192);
        ASSERT_TRUE(static_cast<bool>(room));
        auto call = send_read(xid, room->memory());
        ASSERT_TRUE(run_until([&] { return call->done(); }));
        ASSERT_TRUE(call->ok());
        ASSERT_TRUE(call->placed.empty());
    }
    EXPECT_EQ(transport_->counters().keys_bound, 2000u);
    EXPECT_EQ(transport_->counters().local_invalidations, 2000u);
}

// ---- abandoned calls ----

TEST_F(Progress, AbandonedCallKeepsItsMemoryUntilTheLateReply) {
    start_connected();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    const auto memory = room->memory();
    auto call = send_read(1, memory);
    ASSERT_TRUE(run_until([&] { return !peer().inbox.empty(); }));
    call->put();
    room->reset();
    EXPECT_EQ(transport_->counters().abandoned, 1u);
    // The peer may still write: nobody else has the memory.
    std::vector<sunrpc::Payload> all;
    for (auto more = transport_->get_payload(8192); more; more = transport_->get_payload(8192)) {
        EXPECT_NE(more->memory().data(), memory.data());
        all.push_back(*std::move(more));
    }
    const SeenCall seen(peer().inbox.front());
    peer().write(seen.segment_of(seen.header.write), pattern(8192, 1));
    peer().send(msg_reply(seen, 8192));
    ASSERT_TRUE(run_until([&] { return static_cast<bool>(transport_->get_payload(8192)); }));
    EXPECT_EQ(call->completions, 0u);
    EXPECT_EQ(transport_->counters().local_invalidations, 1u);
    EXPECT_EQ(peer().failed_ops, 0u);
    EXPECT_TRUE(transport_->connected());
}

// RC has no keepalive: a peer that took the call and died is found out by its silence.
TEST_F(Progress, B23_SilentPeerEndsTheConnection) {
    options_.reply_timeout_ns = 2 * kNsPerSec;
    start_connected();
    auto calls = send_many(3);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    world_.run_for(kNsPerSec);
    peer().send(inline_reply(1, 1));
    ASSERT_TRUE(run_until([&] { return calls[0]->ok(); }));
    calls[1]->put();  // abandoned calls count: they hold a credit
    world_.run_for(1900 * kNsPerMs);
    EXPECT_TRUE(transport_->connected());
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }, 200 * kNsPerMs));
    EXPECT_EQ(calls[2]->error(), Errc::reconnect);
    EXPECT_EQ(transport_->counters().reply_timeouts, 1u);
}

TEST_F(Progress, CallPutWhileItWaitsIsNotSent) {
    start_connected();
    auto calls = send_many(3);
    calls[1]->put();
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    peer().send(inline_reply(1));
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 2; }));
    EXPECT_EQ(SeenCall(peer().inbox[1]).header.xid, 3u);
    EXPECT_EQ(transport_->counters().abandoned, 0u);
}

// ---- the end of the connection ----

TEST_F(Progress, PeerDisconnectsEveryCallIsToldReconnectOnce) {
    start_connected();
    auto room = transport_->get_payload(8192);
    ASSERT_TRUE(static_cast<bool>(room));
    auto read = send_read(77, room->memory());
    auto calls = send_many(8);
    ASSERT_TRUE(run_until([&] { return peer().inbox.size() == 1; }));
    peer().disconnect();
    ASSERT_TRUE(run_until([&] { return lost_ > 0; }));
    EXPECT_TRUE(all_done(calls));
    for (const auto& call : calls) {
        EXPECT_EQ(call->completions, 1u);
        EXPECT_EQ(call->error(), Errc::reconnect);
    }
    EXPECT_EQ(read->error(), Errc::reconnect);
    EXPECT_EQ(lost_, 1u);
    EXPECT_EQ(transport_->get_rqst(40).error().code, Errc::reconnect);
    EXPECT_EQ(transport_->counters().disconnects, 1u);
}

TEST_F(Progress, CloseAnswersClosedOnceAndNotFromInside) {
    start_connected();
    auto calls = send_many(8);
    transport_->close();
    EXPECT_FALSE(calls[0]->done());
    transport_->close();
    ASSERT_TRUE(run_until([&] { return all_done(calls); }));
    for (const auto& call : calls) {
        EXPECT_EQ(call->completions, 1u);
        EXPECT_EQ(call->error(), Errc::closed);
    }
    EXPECT_FALSE(transport_->idle());  // the calls are still held
    calls.clear();
    EXPECT_TRUE(run_until([&] { return transport_->idle(); }));
    EXPECT_EQ(lost_, 0u);
}

// Callbacks that put their call, and try to send again, from inside.
TEST_F(Progress, CallbacksMayPutAndSendFromInside) {
    start_connected();
    answer_inline();
    static std::uint32_t answered;
    answered = 0;
    struct Chain {
        static void next(xprtrdma::Transport& transport, std::uint32_t xid) {
            auto got = transport.get_rqst(40);
            if (!got) return;
            sunrpc::Rqst& rqst = **got;
            rqst.xid = xid;
            store_be32(rqst.head_room.data(), xid);
            store_be32(rqst.head_room.data() + 4, 0);
            rqst.call.head = rqst.head_room.first(40);
            rqst.reply_max = 64;
            rqst.user = &transport;
            rqst.complete = [](sunrpc::Rqst& r, Result<void> result) noexcept {
                auto& self = *static_cast<xprtrdma::Transport*>(r.user);
                const std::uint32_t now = r.xid;
                self.put_rqst(r);
                if (result) ++answered;
                if (now < 1000) next(self, now + 8);
            };
            EXPECT_TRUE(static_cast<bool>(transport.send(rqst)));
        }
    };
    for (std::uint32_t i = 1; i <= 8; ++i)
        Chain::next(*transport_, i);
    ASSERT_TRUE(run_until([] { return answered == 1007; }));
}

TEST_F(Progress, B26_ClosedAtAnyTimeEverythingComesHome) {
    Prng prng(4);
    for (std::uint32_t round = 0; round < 300; ++round) {
        start_connected();
        peer().script = [&](RawConn& conn, RawMessage message) {
            const SeenCall seen(message);
            if (seen.fault != rpcrdma::HeaderFault::none || seen.header.write.empty()) return;
            const rpcrdma::Segment segment = seen.segment_of(seen.header.write);
            conn.write(segment, Bytes(segment.length));
            if (prng.below(2) == 0) {
                conn.send(msg_reply(seen, segment.length));
            } else {
                conn.send_with_inv(msg_reply(seen, segment.length), segment.handle);
            }
        };
        std::vector<sunrpc::Payload> rooms;
        Calls calls;
        for (std::uint32_t i = 0; i < 9; ++i) {
            auto room = transport_->get_payload(20'000);
            if (!room) break;
            calls.push_back(send_read(i + 1, room->memory()));
            rooms.push_back(*std::move(room));
        }
        world_.run_for(prng.below(300 * kNsPerUs));
        if (prng.below(3) == 0) {
            peer().disconnect();
        } else {
            transport_->close();
        }
        ASSERT_TRUE(run_until([&] { return all_done(calls); }));
        for (const auto& call : calls)
            EXPECT_EQ(call->completions, 1u);
        calls.clear();
        rooms.clear();
        end();
        listener_.reset();
        told_ = 0;
    }
}

}  // namespace
}  // namespace nfsrdma::test
