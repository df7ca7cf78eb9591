#include "tests/sim/hostile_server.hpp"

namespace nfsrdma::test {
namespace {

RawOptions raw_options(const HostileServer::Options& options) {
    RawOptions raw;
    raw.receives = options.receives;
    raw.repost = options.repost_ns_max == 0;
    raw.inline_size = 8192;
    raw.offer.send_size = raw.offer.recv_size = 8192;
    raw.send_wrs = 2048;
    return raw;
}

}  // namespace

HostileServer::HostileServer(verbs::Device& device, const SockAddr& address, const Options& options)
    : device_(device),
      options_(options),
      prng_(options.seed),
      listener_(device, address, raw_options(options)) {
    listener_.script = [this](RawConn& conn, RawMessage message) {
        if (options_.repost_ns_max > 0) {
            reposts_.emplace_back([](Timer& timer) noexcept {
                auto& repost = static_cast<Repost&>(timer);
                if (!repost.conn->qp().in_error()) repost.conn->post_receives(1);
                repost.server->reposts_.erase(repost.self);
            });
            Repost& repost = reposts_.back();
            repost.self = std::prev(reposts_.end());
            repost.server = this;
            repost.conn = &conn;
            device_.loop().arm(repost,
                               device_.loop().now_ns() + prng_.below(options_.repost_ns_max));
        }
        on_call(conn, message);
    };
}

void HostileServer::on_call(RawConn& conn, const RawMessage& message) {
    ++calls;
    auto seen = std::make_shared<SeenCall>(message);
    if (seen->fault != rpcrdma::HeaderFault::none) {
        ++corrupt;
        return;
    }
    if (prng_.chance_ppm(options_.silence_ppm)) {
        ++silent;
        return;
    }
    // A long call is pulled before anything is known of it.
    const auto go_on = [this, &conn, seen](const Bytes& body) {
        SimCall call;
        if (!SimCall::parse(body, call)) {
            ++corrupt;
            return;
        }
        if (prng_.chance_ppm(options_.evil_ppm)) return answer_badly(conn, *seen, call);
        if (seen->header.read.empty()) return answer(conn, *seen, call);
        conn.read(seen->segment_of(seen->header.read),
                  [this, &conn, seen, call](verbs::WcStatus status, Bytes data) {
                      if (status != verbs::WcStatus::success) return;
                      if (data != call.payload_bytes()) ++corrupt;
                      answer(conn, *seen, call);
                  });
    };
    if (seen->header.call.empty()) return go_on(seen->body);
    conn.read(seen->segment_of(seen->header.call), [go_on](verbs::WcStatus status, Bytes body) {
        if (status == verbs::WcStatus::success) go_on(body);
    });
}

void HostileServer::answer(RawConn& conn, const SeenCall& seen, const SimCall& call) {
    const bool placed = !seen.header.write.empty() && call.result > 0;
    if (placed) conn.write(seen.segment_of(seen.header.write), call.result_bytes());
    const Bytes message = call.reply(placed);
    const std::uint32_t written = placed ? call.result : 0;
    const std::uint32_t credits = static_cast<std::uint32_t>(prng_.below(40));
    Bytes reply;
    if (!seen.header.reply.empty()) {
        conn.write(seen.segment_of(seen.header.reply), message);
        reply = reply_lists(reply_fixed(call.xid, credits, 1), seen, written,
                            static_cast<std::uint32_t>(message.size()))
                    .take();
    } else {
        reply = reply_lists(reply_fixed(call.xid, credits), seen, written, 0).bytes(message).take();
    }
    if (seen.header.segment_count == 0 || prng_.below(2) == 0) return conn.send(std::move(reply));
    const std::uint32_t handle =
        seen.header.segments[prng_.below(seen.header.segment_count)].handle;
    old_handles_.push_back(handle);
    conn.send_with_inv(std::move(reply), handle);
}

void HostileServer::answer_badly(RawConn& conn, const SeenCall& seen, const SimCall& call) {
    ++evil;
    const auto any = [&] { return static_cast<std::uint32_t>(prng_.next()); };
    Bytes good = reply_lists(reply_fixed(call.xid), seen, 0, 0).bytes(call.reply(true)).take();
    switch (prng_.below(12)) {
        case 0:
            return conn.send(reply_fixed(call.xid, 32, 4).u32(2).take());
        case 1:
            return conn.send(reply_fixed(call.xid, 32, 4).u32(1).u32(1).u32(1).take());
        case 2:
            return conn.send(reply_fixed(call.xid, any(), any()).u32(any()).take());
        case 3:
            return conn.send(reply_lists(reply_fixed(call.xid), seen, any(), any())
                                 .bytes(call.reply(true))
                                 .take());
        case 4:
            good[prng_.below(good.size())] ^= static_cast<std::byte>(1u << prng_.below(8));
            break;
        case 5:
            good.resize(prng_.below(good.size()));
            break;
        case 6:
            good = pattern(prng_.below(600), prng_.next());
            break;
        case 7:
            return conn.send_with_inv(std::move(good), any());
        case 8:
            if (old_handles_.empty()) break;
            return conn.send_with_inv(std::move(good),
                                      old_handles_[prng_.below(old_handles_.size())]);
        case 9:
            return conn.write({.handle = any(), .length = 0, .offset = any()}, Bytes(100));
        case 10:
            if (!seen.header.write.empty()) {
                const rpcrdma::Segment segment = seen.segment_of(seen.header.write);
                return conn.write(segment, Bytes(segment.length + 1));
            }
            break;
        default:
            return conn.disconnect();
    }
    conn.send(std::move(good));
    // And the right answer behind it: a duplicate, or the answer to a call that has failed.
    answer(conn, seen, call);
}

}  // namespace nfsrdma::test
