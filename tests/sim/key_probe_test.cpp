#include <algorithm>
#include <map>

#include "base/prng.hpp"
#include "tests/xprtrdma/client_fixture.hpp"

// No key outlives its RPC. A peer keeps every handle that it was ever told, and, right after a call
// has completed and with nothing else in flight, tries one of them by RDMA READ or WRITE on the
// queue pair that bound it. A refused access ends the queue pair, so each probe takes a connection.
namespace nfsrdma::test {
namespace {

struct Told {
    rpcrdma::Segment segment;
    bool readable = false;
};

class KeyProbe : public testing::Test {
  protected:
    static constexpr std::uint32_t kPayload = 8192;
    static constexpr std::uint32_t kKeyByteMask =
        0xff;  // the low byte steps at each bind; the rest names the MR

    KeyProbe() : listener_(*world_.server, LoopWorld::server_address(), {}) {
        options_.demand.credits = 1;
        options_.demand.max_payload = kPayload;
        options_.demand.max_message = 4096;
        options_.demand.inline_size = 1024;
        listener_.script = [this](RawConn& conn, RawMessage message) { on_call(conn, message); };
    }

    void on_call(RawConn& conn, const RawMessage& message) {
        const SeenCall seen(message);
        const bool writes = !seen.header.write.empty();
        const rpcrdma::Segment segment =
            seen.segment_of(writes ? seen.header.write : seen.header.read);
        told_[segment.handle & ~kKeyByteMask].push_back({segment, !writes});
        last_ = {segment, !writes};
        // Half of the keys end by the peer, half by LOCAL_INV.
        if (prng_.below(2) == 0) {
            conn.send(msg_reply(seen, 0));
        } else {
            conn.send_with_inv(msg_reply(seen, 0), segment.handle);
        }
    }

    void connect() {
        told_.clear();
        lost_ = 0;
        bool connected = false;
        auto made = xprtrdma::Transport::create(
            *world_.client, LoopWorld::server_address(), options_,
            [](void* arg, Result<void> result) noexcept {
                *static_cast<bool*>(arg) = static_cast<bool>(result);
            },
            &connected);
        ASSERT_TRUE(static_cast<bool>(made));
        transport_ = *std::move(made);
        transport_->on_disconnect([](void* arg) noexcept { ++static_cast<KeyProbe*>(arg)->lost_; },
                                  this);
        ASSERT_TRUE(world_.run_until([&] { return connected; }));
    }

    void call() {
        TestCall call(*transport_);
        ASSERT_TRUE(static_cast<bool>(call.prepare(++xid_, 100)));
        if (prng_.below(2) == 0) {
            call.rqst->result_room = payload_.memory();
        } else {
            call.rqst->call.payload = payload_.memory();
        }
        ASSERT_TRUE(static_cast<bool>(call.send()));
        ASSERT_TRUE(world_.run_until([&] { return call.done(); }));
        ASSERT_TRUE(call.ok());
    }

    // One connection: `calls` calls, then one probe with one of the last 255 keys of the MR that
    // was bound last, or with that very key.
    void probe(std::uint32_t calls) {
        connect();
        auto payload = transport_->get_payload(kPayload);
        ASSERT_TRUE(static_cast<bool>(payload));
        payload_ = *std::move(payload);
        std::fill(payload_.memory().begin(), payload_.memory().end(), std::byte{0x5a});
        for (std::uint32_t i = 0; i < calls; ++i)
            call();
        const std::vector<Told>& history = told_[last_.segment.handle & ~kKeyByteMask];
        const std::uint64_t reach = std::min<std::uint64_t>(history.size(), 255);
        oldest_ = std::max(oldest_, reach);
        const Told& old =
            prng_.below(3) == 0 ? last_ : history[history.size() - 1 - prng_.below(reach)];
        const std::uint64_t refused = verbs::softroce::counters(*world_.client).access_refused;
        RawConn& peer = listener_.last();
        verbs::WcStatus status = verbs::WcStatus::success;
        bool answered = false;
        const auto note = [&](verbs::WcStatus got, const Bytes&) {
            status = got;
            answered = true;
        };
        // By the right that it had, and by the one that it never had.
        rpcrdma::Segment part = old.segment;
        part.length = 1 + static_cast<std::uint32_t>(prng_.below(part.length));
        if (old.readable == (prng_.below(4) != 0)) {
            peer.read(part, note);
        } else {
            peer.write(part, Bytes(part.length, std::byte{0xbd}), note);
        }
        ASSERT_TRUE(world_.run_until([&] { return answered && lost_ > 0; }));
        EXPECT_EQ(status, verbs::WcStatus::remote_access);
        EXPECT_EQ(verbs::softroce::counters(*world_.client).access_refused, refused + 1);
        EXPECT_TRUE(std::all_of(payload_.memory().begin(), payload_.memory().end(),
                                [](std::byte b) { return b == std::byte{0x5a}; }));
        payload_.reset();
        ASSERT_TRUE(world_.run_until([&] { return transport_->idle(); }));
        transport_.reset();
        listener_.conns.clear();
    }

    LoopWorld world_;
    Prng prng_{5};
    xprtrdma::TransportOptions options_;
    RawListener listener_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    sunrpc::Payload payload_;
    std::map<std::uint32_t, std::vector<Told>> told_;
    Told last_;
    std::uint32_t xid_ = 0, lost_ = 0;
    std::uint64_t oldest_ = 0;
};

TEST_F(KeyProbe, TheKeyOfTheCallThatJustCompleted) {
    for (int i = 0; i < 200 && !HasFailure(); ++i)
        probe(1);
}

TEST_F(KeyProbe, TenThousandProbesWithTheKeysOfTheLastBinds) {
    // A connection has a few MRs that take turns: some probes look back over all 255 binds.
    for (int i = 0; i < 10'000 && !HasFailure(); ++i) {
        probe(i % 250 == 0 ? 4 * 260 : 1 + static_cast<std::uint32_t>(prng_.below(12)));
    }
    EXPECT_EQ(oldest_, 255u);
}

}  // namespace
}  // namespace nfsrdma::test
