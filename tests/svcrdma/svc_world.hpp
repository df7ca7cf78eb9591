#pragma once
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "rpcrdma/pcl.hpp"
#include "svcrdma/listener.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"

// A server transport with a small service, and raw clients that speak to it in bytes, on two soft
// devices in virtual time.
namespace nfsrdma::svcrdma::testing {

using rpcrdma::Segment;
using test::Bytes;
using test::pattern;
using test::RawConn;
using test::RawMessage;
using test::Words;

// What a message asks the service to do: {xid, op, n, ...}. An answer is {xid, REPLY, ...}.
enum class Op : std::uint32_t {
    null,    // {xid, 1, 0}
    record,  // keeps the argument, answers {xid, 1, 1}
    read,    // n bytes of the pattern as a DDP item, from transport memory; {xid, 1, n} | item |
             // {tail word}
    read_inline,   // the same, not DDP-eligible
    read_foreign,  // the same as DDP item, but from memory of the service
    big,           // an answer of n bytes without an item
    hold,          // answers null when the test says so
    drop,
    echo_item,  // the item that came, as a DDP result
};

inline constexpr std::uint32_t kTail = 0x7A11'7A11;

class TestService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 48; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        ++dispatched;
        EXPECT_EQ(rqst.scratch.size() % 64, 0u);
        EXPECT_GE(rqst.res_room.size(), max_message);
        if (rqst.arg.head.size() < 8) return answer_words(rqst, 0);
        const Bytes head(rqst.arg.head.begin(), rqst.arg.head.end());
        switch (static_cast<Op>(load_be32(&head[4]))) {
            case Op::null:
                return answer_words(rqst, 0);
            case Op::record:
                return record(rqst);
            case Op::read:
                return read(rqst, true);
            case Op::read_inline:
                return read(rqst, false);
            case Op::read_foreign:
                return read_foreign(rqst);
            case Op::big:
                return big(rqst);
            case Op::hold:
                held.push_back(&rqst);
                return;
            case Op::drop:
                return rqst.xprt->drop(rqst);
            case Op::echo_item:
                return echo_item(rqst);
        }
        answer_words(rqst, 99);
    }
    void wake(sunrpc::SvcRqst& rqst) noexcept override {
        ++woken;
        read(rqst, true);
    }
    void release_held() {
        std::deque<sunrpc::SvcRqst*> now;
        now.swap(held);
        for (sunrpc::SvcRqst* rqst : now)
            answer_words(*rqst, 0);
    }

    struct Argument {
        Bytes head, payload, tail;
        std::uint32_t position = 0, xid = 0;
        // The unreduced message.
        Bytes whole() const {
            Bytes all = head;
            all.insert(all.end(), payload.begin(), payload.end());
            all.resize(all.size() + (-payload.size() & 3u));
            all.insert(all.end(), tail.begin(), tail.end());
            return all;
        }
    };
    std::vector<Argument> arguments;
    std::deque<sunrpc::SvcRqst*> held;
    std::uint32_t dispatched = 0, woken = 0, again = 0;
    std::uint32_t max_message = 0;
    static Bytes item(std::size_t size) { return pattern(size, 77); }

  private:
    static void answer_words(sunrpc::SvcRqst& rqst, std::uint32_t word) noexcept {
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        store_be32(&rqst.res_room[8], word);
        rqst.res.head = rqst.res_room.first(12);
        rqst.xprt->reply(rqst);
    }
    void record(sunrpc::SvcRqst& rqst) noexcept {
        const auto copy = [](std::span<std::byte> s) { return Bytes(s.begin(), s.end()); };
        arguments.push_back({copy(rqst.arg.head), copy(rqst.arg.payload), copy(rqst.arg.tail),
                             rqst.payload_position, rqst.xid});
        answer_words(rqst, 1);
    }
    static void answer_item(sunrpc::SvcRqst& rqst, std::span<std::byte> item, bool ddp) noexcept {
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        store_be32(&rqst.res_room[8], static_cast<std::uint32_t>(item.size()));
        store_be32(&rqst.res_room[12], kTail);
        rqst.res = {rqst.res_room.first(12), item, rqst.res_room.subspan(12, 4)};
        rqst.result_is_ddp = ddp;
        rqst.xprt->reply(rqst);
    }
    void read(sunrpc::SvcRqst& rqst, bool ddp) noexcept {
        const std::uint32_t size = load_be32(&rqst.arg.head[8]);
        auto memory = rqst.xprt->get_result_payload(rqst, size);
        if (!memory) {
            EXPECT_EQ(memory.error().code, Errc::again);
            ++again;
            return;
        }
        if (size > 0) std::memcpy(memory->data(), item(size).data(), size);
        answer_item(rqst, *memory, ddp);
    }
    void read_foreign(sunrpc::SvcRqst& rqst) noexcept {
        foreign_ = item(load_be32(&rqst.arg.head[8]));
        answer_item(rqst, foreign_, true);
    }
    static void echo_item(sunrpc::SvcRqst& rqst) noexcept {
        answer_item(rqst, rqst.arg.payload, true);
    }
    static void big(sunrpc::SvcRqst& rqst) noexcept {
        const std::uint32_t size = load_be32(&rqst.arg.head[8]);
        const Bytes body = item(size);
        std::memcpy(rqst.res_room.data(), body.data(), size);
        store_be32(&rqst.res_room[0], rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        rqst.res.head = rqst.res_room.first(size);
        rqst.xprt->reply(rqst);
    }
    Bytes foreign_;
};

// Memory of the client that the server may reach: by static keys, or by one bound key each.
class Exposed {
  public:
    // The window starts `shift` bytes into a page.
    Exposed(RawConn& conn, Bytes content, bool bound = false, std::uint32_t shift = 0)
        : size_(content.size()) {
        storage_.resize(content.size() + shift + 2 * 4096);
        std::byte* const page = bytes_at(align_up(address_of(storage_.data()), 4096u));
        first_ = page + shift;
        std::memcpy(first_, content.data(), content.size());
        const auto all =
            verbs::Access::local_write | verbs::Access::remote_read | verbs::Access::remote_write;
        if (!bound) {
            mr_ = *conn.pd().register_memory({first_, size_}, all);
            key_ = static_cast<std::uint32_t>(mr_->rkey());
            base_ = address_of(first_);
            return;
        }
        fast_ = *conn.pd().alloc_fast_mr(300);
        std::vector<std::byte*> pages;
        for (std::byte* at = page; at < first_ + size_; at += 4096)
            pages.push_back(at);
        EXPECT_TRUE(fast_->map(pages, 4096, shift, static_cast<std::uint32_t>(size_),
                               0x10000000 + shift, all));
        key_ = static_cast<std::uint32_t>(fast_->rkey());
        base_ = fast_->iova();
        cqe_.done = [](verbs::Cqe&, const verbs::Wc&) noexcept {};
        wr_.op = verbs::SendOp::reg_mr;
        wr_.cqe = &cqe_;
        wr_.mr = fast_.get();
        wr_.rkey = fast_->rkey();
        verbs::WrChain chain;
        chain.push_back(wr_);
        EXPECT_TRUE(conn.qp().post_send(chain));
    }
    Segment all() const { return {key_, static_cast<std::uint32_t>(size_), base_}; }
    Segment part(std::uint32_t offset, std::uint32_t length) const {
        return {key_, length, base_ + offset};
    }
    // `count` segments as equal as can be.
    std::vector<Segment> split(std::uint32_t count) const {
        std::vector<Segment> parts;
        const auto size = static_cast<std::uint32_t>(size_);
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t from = static_cast<std::uint32_t>(std::uint64_t{size} * i / count);
            const std::uint32_t to =
                static_cast<std::uint32_t>(std::uint64_t{size} * (i + 1) / count);
            parts.push_back(part(from, to - from));
        }
        return parts;
    }
    Bytes content() const { return Bytes(first_, first_ + size_); }
    std::uint32_t key() const { return key_; }

  private:
    Bytes storage_;
    std::size_t size_;
    std::byte* first_ = nullptr;
    std::unique_ptr<verbs::Mr> mr_;
    std::unique_ptr<verbs::FastMr> fast_;
    verbs::Cqe cqe_;
    verbs::SendWr wr_;
    std::uint32_t key_ = 0;
    std::uint64_t base_ = 0;
};

// A call as a client would put it on the wire, in any form.
struct Call {
    std::uint32_t xid = 1, credits = 8, vers = 1, proc = 0;
    std::vector<std::pair<std::uint32_t, Segment>> read{};  // position, segment
    std::vector<std::vector<Segment>> write{};
    std::vector<Segment> reply{};
    Bytes message{};
    Bytes bytes() const {
        Words w;
        w.u32(xid).u32(vers).u32(credits).u32(proc);
        for (const auto& [position, segment] : read)
            w.u32(1).u32(position).segment(segment);
        w.u32(0);
        for (const auto& chunk : write) {
            w.u32(1).u32(static_cast<std::uint32_t>(chunk.size()));
            for (const Segment& segment : chunk)
                w.segment(segment);
        }
        w.u32(0).u32(reply.empty() ? 0 : 1);
        if (!reply.empty()) {
            w.u32(static_cast<std::uint32_t>(reply.size()));
            for (const Segment& segment : reply)
                w.segment(segment);
        }
        Bytes all = w.take();
        all.insert(all.end(), message.begin(), message.end());
        return all;
    }
};

inline Bytes message(std::uint32_t xid, Op op, std::uint32_t n = 0) {
    return Words().u32(xid).u32(static_cast<std::uint32_t>(op)).u32(n).take();
}
inline Bytes plus(Bytes a, const Bytes& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// A reply, taken apart.
struct Reply {
    rpcrdma::ParsedHeader header;
    Bytes body;
    bool with_invalidate = false;
    std::uint32_t invalidated = 0;
    rpcrdma::HeaderFault fault = rpcrdma::HeaderFault::none;
    bool is_error(rpcrdma::ErrorCode code) const {
        return header.proc == rpcrdma::Proc::error && header.error == code;
    }
    std::uint32_t written(std::uint32_t chunk = 0) const {
        return header.chunks_of(header.write)[chunk].length;
    }
};
inline Reply parse(const RawMessage& message) {
    Reply reply;
    reply.fault = rpcrdma::parse_header(message.bytes, {1u << 30, 1u << 31}, reply.header);
    reply.with_invalidate = message.with_invalidate;
    reply.invalidated = message.invalidated;
    if (reply.fault == rpcrdma::HeaderFault::none)
        reply.body.assign(message.bytes.begin() + reply.header.size, message.bytes.end());
    return reply;
}

inline ServerOptions defaults() {
    ServerOptions o;
    o.demand.credits = 8;
    o.demand.max_payload = 1 << 20;
    o.demand.max_message = 64 << 10;
    o.payload_runs = 4;
    o.connections_max = 4;
    return o;
}

// A client without remote invalidation: its keys are static ones.
inline test::RawOptions plain(bool remote_invalidation = false) {
    test::RawOptions raw;
    raw.offer.remote_invalidation = remote_invalidation;
    return raw;
}

struct SvcWorld {
    explicit SvcWorld(ServerOptions server_options = defaults(), test::LoopWorld::Options net = {})
        : world(net) {
        options = server_options;
        service.max_message = options.demand.max_message;
        auto made =
            Listener::create(*world.server, test::LoopWorld::server_address(), service, options);
        EXPECT_TRUE(made) << (made ? "" : to_string(made.error()));
        listener = *std::move(made);
    }
    // Shuts down and asserts that all pools are full: Listener's destructor does.
    ~SvcWorld() { finish(); }
    void finish() {
        if (listener == nullptr) return;
        service.release_held();
        listener->shut_down(kNsPerSec);
        EXPECT_TRUE(world.run_until([&] { return listener->idle(); }));
        EXPECT_EQ(listener->counters().accepted, listener->counters().closed);
        if (listener->idle()) listener.reset();
    }
    std::unique_ptr<RawConn> connect(const test::RawOptions& raw = plain()) {
        auto conn = RawConn::connect(*world.client, test::LoopWorld::server_address(), raw);
        EXPECT_TRUE(world.run_until([&] { return conn->established || conn->ended; }));
        return conn;
    }
    Reply next(RawConn& conn) {
        EXPECT_TRUE(
            world.run_until([&] { return !conn.inbox.empty() || conn.ended; }, 5 * kNsPerSec));
        if (conn.inbox.empty()) {
            ADD_FAILURE() << "no reply";
            return {};
        }
        const RawMessage raw = conn.inbox.front();
        conn.inbox.pop_front();
        return parse(raw);
    }
    // Calls 1 to `calls` at once, each a READ of `bytes` into memory of its own, which is offered
    // in so many segments. They ask for as many credits as the server has.
    std::vector<std::unique_ptr<Exposed>> send_reads(RawConn& conn, std::uint32_t calls,
                                                     std::uint32_t bytes, std::uint32_t segments) {
        std::vector<std::unique_ptr<Exposed>> memory;
        for (std::uint32_t xid = 1; xid <= calls; ++xid) {
            memory.push_back(std::make_unique<Exposed>(conn, Bytes(bytes)));
            conn.send(Call{.xid = xid,
                           .credits = options.demand.credits,
                           .write = {memory.back()->split(segments)},
                           .message = message(xid, Op::read, bytes)}
                          .bytes());
        }
        return memory;
    }
    Reply call(RawConn& conn, const Call& call) {
        conn.send(call.bytes());
        return next(conn);
    }
    // The connection still answers.
    void expect_alive(RawConn& conn, std::uint32_t xid = 0xA11FE) {
        const Reply reply = call(conn, {.xid = xid, .message = message(xid, Op::null)});
        EXPECT_EQ(reply.header.xid, xid);
        EXPECT_EQ(reply.header.proc, rpcrdma::Proc::msg);
        EXPECT_EQ(reply.body.size(), 12u);
    }
    const ServerCounters& counters() const { return listener->counters(); }

    test::LoopWorld world;
    TestService service;
    ServerOptions options;
    std::unique_ptr<Listener> listener;
};

}  // namespace nfsrdma::svcrdma::testing
