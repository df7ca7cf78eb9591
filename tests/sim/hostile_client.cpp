#include "tests/sim/hostile_client.hpp"

namespace nfsrdma::test {

HostileClient::HostileClient(verbs::Device& device, const SockAddr& server, std::uint64_t seed,
                             std::uint64_t pace_ns)
    : device_(device),
      server_(server),
      prng_(seed),
      pace_ns_(pace_ns),
      tick_([](Timer& timer) noexcept { static_cast<Tick&>(timer).client->on_tick(); }) {
    tick_.client = this;
}

void HostileClient::start() {
    device_.loop().arm(tick_, device_.loop().now_ns() + pace_ns_);
}

void HostileClient::stop() {
    device_.loop().disarm(tick_);
    conn_.reset();
}

void HostileClient::on_tick() {
    Loop& loop = device_.loop();
    loop.arm(tick_, loop.now_ns() + 1 + prng_.below(2 * pace_ns_));
    if (conn_ != nullptr && conn_->ended) conn_.reset();
    if (conn_ == nullptr) {
        ++connections;
        RawOptions options;
        options.receives = 8;
        conn_ = RawConn::connect(device_, server_, options);
        conn_->script = [](RawConn&, RawMessage) {};
        return;
    }
    if (!conn_->established || conn_->qp().send_room() < 8) return;
    if (prng_.below(60) == 0) return conn_->disconnect();
    for (std::uint64_t i = prng_.below(3) + 1; i > 0; --i) {
        ++sent;
        conn_->send(next_message());
    }
}

rpcrdma::Segment HostileClient::segment() {
    constexpr std::uint32_t kLengths[] = {0, 1, 4096, 0x7fffffff, 0xffffffff};
    return {.handle = static_cast<std::uint32_t>(prng_.next()),
            .length = prng_.below(2) == 0 ? kLengths[prng_.below(5)]
                                          : static_cast<std::uint32_t>(prng_.below(100'000)),
            .offset = prng_.below(3) == 0 ? ~prng_.below(5000) : prng_.next()};
}

Bytes HostileClient::next_message() {
    if (prng_.below(8) == 0) return pattern(prng_.below(1025), prng_.next());
    const std::uint32_t xid = 0xbad00000u + static_cast<std::uint32_t>(prng_.below(1000));
    const auto rare = [&](std::uint32_t usual, std::uint32_t odd) {
        return prng_.below(6) == 0 ? odd : usual;
    };
    Words words;
    words.u32(xid)
        .u32(rare(1, static_cast<std::uint32_t>(prng_.below(5))))
        .u32(static_cast<std::uint32_t>(prng_.below(100)));
    words.u32(rare(static_cast<std::uint32_t>(prng_.below(2)),
                   static_cast<std::uint32_t>(prng_.below(9))));
    for (std::uint64_t i = prng_.below(4); i > 0; --i) {
        words.u32(rare(1, 7))
            .u32(prng_.below(2) == 0 ? 0 : 32 + static_cast<std::uint32_t>(prng_.below(40)))
            .segment(segment());
    }
    words.u32(0);
    for (std::uint64_t i = prng_.below(3); i > 0; --i) {
        const std::uint64_t count = prng_.below(4);
        words.u32(1).u32(rare(static_cast<std::uint32_t>(count), 0xffffffff));
        for (std::uint64_t j = 0; j < count; ++j)
            words.segment(segment());
    }
    words.u32(rare(0, 9));
    if (prng_.below(3) == 0) {
        words.u32(1).u32(1).segment(segment());
    } else {
        words.u32(0);
    }
    SimCall call;
    call.xid = xid;
    call.result = static_cast<std::uint32_t>(prng_.below(20'000));
    call.payload = static_cast<std::uint32_t>(prng_.below(3)) * 1000;
    call.extra = static_cast<std::uint32_t>(prng_.below(500)) * 4;
    words.bytes(call.head_words().take());
    Bytes bytes = words.take();
    // Sometimes a bit is flipped, or the end is missing.
    if (prng_.below(4) == 0)
        bytes[prng_.below(bytes.size())] ^= static_cast<std::byte>(1u << prng_.below(8));
    if (prng_.below(4) == 0) bytes.resize(prng_.below(bytes.size() + 1));
    if (bytes.size() > 1024) bytes.resize(1024);
    return bytes;
}

}  // namespace nfsrdma::test
