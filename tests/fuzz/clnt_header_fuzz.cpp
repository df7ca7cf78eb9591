// links: nr_xprtrdma nr_pools nr_rpcrdma nr_sunrpc nr_fuzz_plumbing nr_test_support
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "rpcrdma/pcl.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/keep.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"
#include "xprtrdma/transport.hpp"

// Bytes as inline Sends to a live client transport with calls in flight, over LoopWire. Whatever
// they are: each call completes once, a connection that it kept still works, one that it lost is
// made again, and all pools are full at the end of its world (the transport's destructor asserts
// it).
//
// Input: one byte of options, then at most kMessagesMax messages, each with its length in two
// bytes, whose top bit makes it a SEND_WITH_INV. With kMortal among the options the transport does
// not recover, and is closed at the end. The words kKey and kXid stand for the key that the last
// call seen advertises and for its XID; kAddr and kLength for the address and length of its chunk.
namespace nfsrdma::xprtrdma {
namespace {

constexpr std::uint32_t kKey = 0x4E4B4559, kXid = 0x58494458, kAddr = 0x41444452,
                        kLength = 0x4C454E47;
constexpr std::uint32_t kCalls = 4, kPayload = 16 << 10;
constexpr std::uint32_t kMessagesMax = 24;
constexpr std::uint8_t kMortal = 0xC8;  // all of these bits

struct Call {
    sunrpc::Rqst* rqst = nullptr;
    sunrpc::Payload payload;
    std::uint32_t completions = 0, xid = 0;
    Transport* transport = nullptr;
};

void completed(sunrpc::Rqst& rqst, Result<void> outcome) noexcept {
    auto& call = *static_cast<Call*>(rqst.user);
    ++call.completions;
    if (outcome) {
        // What is shown lies in memory that is the caller's to read.
        std::uint32_t sum = 0;
        for (const std::span<const std::byte> part :
             {std::span<const std::byte>(rqst.reply.head),
              std::span<const std::byte>(rqst.reply.payload),
              std::span<const std::byte>(rqst.reply.tail)}) {
            for (const std::byte b : part)
                sum += load_u8(&b);
        }
        NR_ASSERT(sum <= 255u * 65536u);
    }
    call.transport->put_rqst(rqst);
    call.rqst = nullptr;
}

// Two devices and a listener.
struct Net {
    explicit Net(bool remote_invalidation)
        : world(options()),
          listener(*world.server, test::LoopWorld::server_address(), raw(remote_invalidation)) {}
    static test::LoopWorld::Options options() {
        test::LoopWorld::Options options;
        options.net.frames = 512;
        return options;
    }
    static test::RawOptions raw(bool remote_invalidation) {
        test::RawOptions options;
        options.receives = 16;
        options.send_wrs = 64;
        options.offer.remote_invalidation = remote_invalidation;
        return options;
    }
    test::LoopWorld world;
    test::RawListener listener;
};

struct Client {
    Client(Net& net, pools::LocalStrategy local, bool recovers)
        : world(net.world), listener(net.listener) {
        TransportOptions options;
        options.demand = {.credits = kCalls,
                          .max_payload = kPayload,
                          .max_message = 16 << 10,
                          .inline_size = 1024};
        options.local = local;
        options.recovery.on = recovers;
        options.recovery.seed = 1;
        listener.script = [this](test::RawConn&, const test::RawMessage& message) {
            saw(message.bytes);
        };
        auto made = Transport::create(
            *world.client, test::LoopWorld::server_address(), options,
            [](void*, Result<void>) noexcept {}, nullptr);
        NR_ASSERT(static_cast<bool>(made));
        transport = *std::move(made);
        NR_ASSERT(world.run_until([&] { return transport->connected(); }));
    }
    ~Client() {
        transport->close();
        for (Call& call : calls)
            call.payload.reset();
        NR_ASSERT(world.run_until([&] { return transport->idle(); }));
        for (const Call& call : calls)
            NR_ASSERT(call.rqst == nullptr);
        transport.reset();
        listener.conns.clear();
        listener.script = nullptr;
    }
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    test::RawConn& conn() { return listener.last(); }

    void run(std::uint32_t first_kind, std::span<const std::byte> input) {
        for (std::uint32_t i = 0; i < kCalls; ++i)
            start(calls[i], i + first_kind);
        world.run_for(100 * kNsPerUs);
        std::uint32_t sent = 0;
        for (std::size_t at = 0; at + 2 <= input.size() && sent < kMessagesMax; ++sent) {
            const std::uint16_t word = load_be16(&input[at]);
            at += 2;
            const std::size_t length = std::min<std::size_t>(word % 1025u, input.size() - at);
            if (conn().ended || conn().qp().in_error()) break;
            send(input.subspan(at, length), (word & 0x8000) != 0);
            at += length;
        }
    }
    // A server that knows what it does answers what is left, on a new connection where the input
    // cost the old one.
    void finish() {
        const auto done = [this] {
            return std::all_of(calls.begin(), calls.end(),
                               [](const Call& call) { return call.rqst == nullptr; });
        };
        for (std::uint32_t tries = 0; !done(); ++tries) {
            NR_ASSERT(tries < 100);
            if (transport->connected() && !conn().ended && !conn().qp().in_error()) {
                for (const Call& call : calls) {
                    const auto at = pending.find(call.xid);
                    if (call.rqst == nullptr || at == pending.end()) continue;
                    if (conn().qp().send_room() > 0) conn().send(at->second);
                }
                world.run_until(done, kNsPerMs);
            } else {
                world.run_for(100 * kNsPerMs);
            }
        }
        for (Call& call : calls) {
            NR_ASSERT(call.completions == (call.transport != nullptr ? 1u : 0u));
            call.payload.reset();
            call.completions = 0;
            call.transport = nullptr;
        }
        pending.clear();
        NR_ASSERT(world.run_until([&] { return transport->connected(); }));
        listener.conns.erase(listener.conns.begin(), std::prev(listener.conns.end()));
    }

    // Kinds: a small call, one with a result by Write chunk, one with an argument by Read chunk,
    // one with a long reply.
    void start(Call& call, std::uint32_t kind) {
        auto got = transport->get_rqst(256);
        if (!got) return;
        sunrpc::Rqst& rqst = **got;
        call.transport = transport.get();
        call.rqst = &rqst;
        rqst.xid = call.xid = next_xid++;
        rqst.user = &call;
        rqst.complete = completed;
        std::fill(rqst.head_room.begin(), rqst.head_room.begin() + 64, std::byte{0});
        store_be32(rqst.head_room.data(), rqst.xid);
        rqst.call.head = rqst.head_room.first(64);
        rqst.reply_max = 64;
        if (kind % 4 != 0) {
            auto payload = transport->get_payload(kPayload);
            if (payload) call.payload = *std::move(payload);
        }
        if (kind % 4 == 1 && call.payload) {
            rqst.result_room = call.payload.memory();
        } else if (kind % 4 == 2 && call.payload) {
            rqst.call.payload = call.payload.memory();
        } else if (kind % 4 == 3) {
            rqst.reply_max = 12 << 10;
        }
        if (!transport->send(rqst)) {
            call.transport = nullptr;
            transport->put_rqst(rqst);
            call.rqst = nullptr;
        }
    }
    // Takes key, address and length of the last segment that a call advertised.
    void saw(const test::Bytes& bytes) {
        rpcrdma::ParsedHeader header;
        if (rpcrdma::parse_header(bytes, {UINT32_MAX, UINT32_MAX}, header) !=
            rpcrdma::HeaderFault::none)
            return;
        xid = header.xid;
        pending[xid] = fuzz::answer_to(header, 0);
        for (const rpcrdma::Pcl* list : {&header.read, &header.write, &header.reply}) {
            for (const rpcrdma::Chunk& chunk : header.chunks_of(*list)) {
                for (const rpcrdma::Segment& seen : header.segments_of(chunk))
                    segment = seen;
            }
        }
    }
    void send(std::span<const std::byte> bytes, bool with_inv) {
        test::Bytes message(bytes.begin(), bytes.end());
        for (std::size_t at = 0; at + 4 <= message.size(); at += 4) {
            std::byte* const word = &message[at];
            switch (load_be32(word)) {
                case kKey:
                    store_be32(word, segment.handle);
                    break;
                case kXid:
                    store_be32(word, xid);
                    break;
                case kLength:
                    store_be32(word, segment.length);
                    break;
                case kAddr:
                    if (at + 8 <= message.size()) store_be64(word, segment.offset);
                    break;
                default:
                    break;
            }
        }
        if (with_inv) {
            conn().send_with_inv(std::move(message), segment.handle);
        } else {
            conn().send(std::move(message));
        }
        world.run_for(50 * kNsPerUs);
    }

    test::LoopWorld& world;
    test::RawListener& listener;
    std::unique_ptr<Transport> transport;
    std::array<Call, kCalls> calls;
    std::map<std::uint32_t, test::Bytes> pending;  // what would answer the calls seen
    std::uint32_t next_xid = 0x1000;
    rpcrdma::Segment segment;
    std::uint32_t xid = 0;
};

// A transport that recovers, with a net of its own.
struct KeptClient {
    KeptClient(pools::LocalStrategy local, bool remote_invalidation)
        : net(remote_invalidation), client(net, local, true) {}
    Net net;
    Client client;
};

void run(std::span<const std::byte> input) {
    if (input.empty() || input.size() > 20000) return;
    static fuzz::Keep<KeptClient, 6> clients;
    static fuzz::Keep<Net, 2> nets;
    const std::uint8_t bits = load_u8(input.data());
    const auto local = static_cast<pools::LocalStrategy>(bits % 3);
    const bool remote_invalidation = (bits & 4) != 0;
    const std::uint32_t kind = (bits >> 4) % 4u;
    if ((bits & kMortal) == kMortal)
        return Client(nets.get(remote_invalidation ? 1u : 0u, remote_invalidation), local, false)
            .run(kind, input.subspan(1));
    Client& client =
        clients.get(bits % 3u * 2u + (remote_invalidation ? 1u : 0u), local, remote_invalidation)
            .client;
    client.run(kind, input.subspan(1));
    client.finish();
}

}  // namespace
}  // namespace nfsrdma::xprtrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::xprtrdma::run(std::as_bytes(std::span(data, size)));
    return 0;
}
