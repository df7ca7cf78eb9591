#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "rpcrdma/pcl.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"
#include "xprtrdma/transport.hpp"

// A client transport against a scripted responder over LoopWire, and what its tests share.
namespace nfsrdma::test {

// A call as its caller holds it.
struct TestCall {
    explicit TestCall(xprtrdma::Transport& t) : transport(t) {}
    ~TestCall() { put(); }
    TestCall(const TestCall&) = delete;
    TestCall& operator=(const TestCall&) = delete;

    // A call message of `size` bytes: XID, CALL, then a pattern.
    Result<void> prepare(std::uint32_t xid, std::uint32_t size) {
        auto got = transport.get_rqst(size);
        if (!got) return got.error();
        rqst = *got;
        rqst->xid = xid;
        rqst->user = this;
        rqst->complete = [](sunrpc::Rqst& r, Result<void> outcome) noexcept {
            auto& call = *static_cast<TestCall*>(r.user);
            ++call.completions;
            call.result = outcome;
            if (outcome) {
                call.head.assign(r.reply.head.begin(), r.reply.head.end());
                call.placed = r.reply.payload;
            }
            if (call.put_at_once) call.put();
        };
        const Bytes body = pattern(size, xid);
        std::copy(body.begin(), body.end(), rqst->head_room.begin());
        store_be32(rqst->head_room.data(), xid);
        store_be32(rqst->head_room.data() + 4, 0);
        rqst->call.head = rqst->head_room.first(size);
        rqst->reply_max = 64;
        return {};
    }
    Bytes message() const { return {rqst->call.head.begin(), rqst->call.head.end()}; }
    Result<void> send() { return transport.send(*rqst); }
    void put() {
        if (rqst != nullptr) transport.put_rqst(*std::exchange(rqst, nullptr));
    }
    bool done() const { return completions > 0; }
    Errc error() const { return result && !*result ? result->error().code : Errc::system; }
    bool ok() const { return completions == 1 && result && static_cast<bool>(*result); }

    xprtrdma::Transport& transport;
    sunrpc::Rqst* rqst = nullptr;
    bool put_at_once = false;
    std::uint32_t completions = 0;
    std::optional<Result<void>> result;
    Bytes head;
    std::span<std::byte> placed;
};

// What a responder sees of a call.
struct SeenCall {
    explicit SeenCall(const RawMessage& message) : bytes(message.bytes) {
        fault = rpcrdma::parse_header(bytes, {UINT32_MAX, UINT32_MAX}, header);
        if (fault == rpcrdma::HeaderFault::none)
            body.assign(bytes.begin() + header.size, bytes.end());
    }
    rpcrdma::Segment segment_of(const rpcrdma::Pcl& list) const {
        return header.segments_of(header.chunks_of(list)[0])[0];
    }
    std::uint32_t position() const { return header.chunks_of(header.read)[0].position; }
    Bytes bytes, body;
    rpcrdma::ParsedHeader header;
    rpcrdma::HeaderFault fault = rpcrdma::HeaderFault::none;
};

inline Words reply_fixed(std::uint32_t xid, std::uint32_t credits = 32, std::uint32_t proc = 0) {
    return Words().u32(xid).u32(1).u32(credits).u32(proc);
}
inline Words rpc_reply(std::uint32_t xid, std::uint32_t result = 0) {
    return Words().u32(xid).u32(1).u32(0).u32(0).u32(0).u32(result);
}
inline Bytes inline_reply(std::uint32_t xid, std::uint32_t credits = 32) {
    return reply_fixed(xid, credits).u32(0).u32(0).u32(0).bytes(rpc_reply(xid).take()).take();
}
// The lists of `call`, with these lengths.
inline Words reply_lists(Words words, const SeenCall& call, std::uint32_t written,
                         std::uint32_t replied) {
    words.u32(0);
    if (!call.header.write.empty()) {
        rpcrdma::Segment segment = call.segment_of(call.header.write);
        segment.length = written;
        words.u32(1).u32(1).segment(segment);
    }
    words.u32(0);
    if (call.header.reply.empty()) return words.u32(0);
    rpcrdma::Segment segment = call.segment_of(call.header.reply);
    segment.length = replied;
    return words.u32(1).u32(1).segment(segment);
}
inline Bytes msg_reply(const SeenCall& call, std::uint32_t written, std::uint32_t credits = 32) {
    return reply_lists(reply_fixed(call.header.xid, credits), call, written, 0)
        .bytes(rpc_reply(call.header.xid).take())
        .take();
}

class ClientFixture : public testing::Test {
  protected:
    ClientFixture() { options_.demand.credits = 8; }
    ~ClientFixture() override { end(); }

    void start(const RawOptions& raw = {}) {
        listener_ = std::make_unique<RawListener>(*world_.server, LoopWorld::server_address(), raw);
        connect();
    }
    void connect() {
        auto made = xprtrdma::Transport::create(
            *world_.client, LoopWorld::server_address(), options_,
            [](void* arg, Result<void> outcome) noexcept {
                auto& self = *static_cast<ClientFixture*>(arg);
                ++self.told_;
                self.connect_result_ = outcome;
            },
            this);
        ASSERT_TRUE(static_cast<bool>(made));
        transport_ = *std::move(made);
        transport_->on_disconnect(
            [](void* arg) noexcept { ++static_cast<ClientFixture*>(arg)->lost_; }, this);
    }
    void start_connected(const RawOptions& raw = {}) {
        start(raw);
        ASSERT_TRUE(world_.run_until([&] { return told_ > 0; }));
        ASSERT_TRUE(static_cast<bool>(*connect_result_));
        ASSERT_TRUE(transport_->connected());
    }
    // Closes and asserts that everything came home; the destructor of the transport asserts its
    // pools.
    void end() {
        if (transport_ == nullptr) return;
        transport_->close();
        EXPECT_TRUE(world_.run_until([&] { return transport_->idle(); }));
        transport_.reset();
    }
    RawConn& peer() { return listener_->last(); }
    void answer_inline() {
        peer().script = [](RawConn& conn, RawMessage message) {
            conn.send(inline_reply(SeenCall(message).header.xid));
        };
    }
    bool run_until(const std::function<bool()>& done, std::uint64_t limit_ns = 20 * kNsPerSec) {
        return world_.run_until(done, limit_ns);
    }

    using Calls = std::vector<std::unique_ptr<TestCall>>;
    Calls send_many(std::uint32_t count, std::uint32_t first_xid = 1) {
        Calls calls;
        for (std::uint32_t i = 0; i < count; ++i) {
            calls.push_back(std::make_unique<TestCall>(*transport_));
            EXPECT_TRUE(static_cast<bool>(calls.back()->prepare(first_xid + i, 100)));
            EXPECT_TRUE(static_cast<bool>(calls.back()->send()));
        }
        return calls;
    }
    static bool all_done(const Calls& calls) {
        return std::all_of(calls.begin(), calls.end(),
                           [](const auto& call) { return call->done(); });
    }
    std::unique_ptr<TestCall> send_read(std::uint32_t xid, std::span<std::byte> room) {
        auto call = std::make_unique<TestCall>(*transport_);
        EXPECT_TRUE(static_cast<bool>(call->prepare(xid, 100)));
        call->rqst->result_room = room;
        EXPECT_TRUE(static_cast<bool>(call->send()));
        return call;
    }

    LoopWorld world_;
    xprtrdma::TransportOptions options_;
    std::unique_ptr<RawListener> listener_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::uint32_t told_ = 0, lost_ = 0;
    std::optional<Result<void>> connect_result_;
};

}  // namespace nfsrdma::test
