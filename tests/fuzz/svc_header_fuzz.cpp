// links: nr_svcrdma nr_test_support
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/bytes.hpp"
#include "svcrdma/listener.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"

// Bytes as inline Sends to a live server transport over LoopWire. Whatever they are: the server
// lives, a connection that it kept still answers, and all pools are full at the end (Listener's
// destructor asserts it).
//
// Input: one byte of options, then messages, each with its length in two bytes. The word kKey
// stands for the key of 64 KiB that the client really exposes at kIova.
namespace nfsrdma::svcrdma {
namespace {

constexpr std::uint32_t kKey = 0x4E4B4559;
constexpr std::uint64_t kIova = 0x10000000;
constexpr std::uint32_t kExposed = 64 << 10;

// Reads all of the argument; answers with as much as the client offers room for.
class EchoService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 0; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        std::uint32_t sum = 0;
        for (const std::span<const std::byte> part :
             {rqst.arg.head, rqst.arg.payload, rqst.arg.tail}) {
            for (const std::byte b : part)
                sum = sum * 31 + load_u8(&b);
        }
        if (sum % 61 == 0) return rqst.xprt->drop(rqst);
        answer(rqst, sum);
    }
    void wake(sunrpc::SvcRqst& rqst) noexcept override { answer(rqst, 1); }

  private:
    static void answer(sunrpc::SvcRqst& rqst, std::uint32_t sum) noexcept {
        auto memory = rqst.xprt->get_result_payload(rqst, std::min(rqst.result_room, kExposed));
        if (!memory) return;
        std::fill(memory->begin(), memory->end(), std::byte{0x5A});
        const std::uint32_t head = 4 + sum % 6000;
        std::fill_n(rqst.res_room.begin(), head, std::byte{1});
        store_be32(&rqst.res_room[0], rqst.xid);
        rqst.res = {rqst.res_room.first(head), *memory, rqst.res_room.subspan(head, sum % 3 * 4)};
        rqst.result_is_ddp = sum % 2 == 0;
        rqst.xprt->reply(rqst);
    }
};

struct Client {
    explicit Client(std::uint8_t bits) {
        test::LoopWorld::Options net;
        net.net.frames = 512;
        world = std::make_unique<test::LoopWorld>(net);
        ServerOptions options;
        options.demand = {
            .credits = 2, .max_payload = kExposed, .max_message = 16 << 10, .inline_size = 4096};
        options.payload_runs = 2;
        options.connections_max = 1;
        options.local = static_cast<pools::LocalStrategy>(bits % 3);
        auto made =
            Listener::create(*world->server, test::LoopWorld::server_address(), service, options);
        NR_ASSERT(static_cast<bool>(made));
        listener = *std::move(made);
        test::RawOptions raw;
        raw.receives = 32;
        raw.private_data = (bits & 0x10) != 0;
        raw.offer.remote_invalidation = (bits & 0x20) != 0;
        conn = test::RawConn::connect(*world->client, test::LoopWorld::server_address(), raw);
        NR_ASSERT(world->run_until([&] { return conn->established; }));
        expose();
    }
    ~Client() {
        listener->shut_down(kNsPerMs);
        NR_ASSERT(world->run_until([&] { return listener->idle(); }));
        listener.reset();
        conn->qp().set_error();
        fast.reset();
        conn.reset();
    }
    void expose() {
        memory.resize(kExposed + pools::kPageSize);
        std::byte* const first = bytes_at(align_up(address_of(memory.data()), pools::kPageSize));
        auto made = conn->pd().alloc_fast_mr(kExposed / pools::kPageSize);
        NR_ASSERT(static_cast<bool>(made));
        fast = *std::move(made);
        std::array<std::byte*, kExposed / pools::kPageSize> pages;
        for (std::size_t i = 0; i < pages.size(); ++i)
            pages[i] = first + i * pools::kPageSize;
        NR_ASSERT(fast->map(
            pages, pools::kPageSize, 0, kExposed, kIova,
            verbs::Access::local_write | verbs::Access::remote_read | verbs::Access::remote_write));
        cqe.done = [](verbs::Cqe&, const verbs::Wc&) noexcept {};
        bind.op = verbs::SendOp::reg_mr;
        bind.cqe = &cqe;
        bind.mr = fast.get();
        bind.rkey = fast->rkey();
        verbs::WrChain chain;
        chain.push_back(bind);
        NR_ASSERT(conn->qp().post_send(chain));
    }
    void send(std::span<const std::byte> bytes) {
        test::Bytes message(bytes.begin(), bytes.end());
        for (std::size_t at = 0; at + 4 <= message.size(); at += 4) {
            if (load_be32(&message[at]) == kKey)
                store_be32(&message[at], static_cast<std::uint32_t>(fast->rkey()));
        }
        conn->send(std::move(message));
        world->run_for(50 * kNsPerUs);
    }
    // A server that kept the connection answers what is well-formed.
    void check() {
        world->run_for(kNsPerMs);
        if (conn->ended || conn->qp().in_error()) return;
        conn->inbox.clear();
        for (std::uint32_t i = 0; i < 62 && !conn->ended; ++i) {
            const std::uint32_t xid = 0x7E570000 + i;
            conn->send(test::Words()
                           .u32(xid)
                           .u32(1)
                           .u32(1)
                           .u32(0)
                           .u32(0)
                           .u32(0)
                           .u32(0)
                           .u32(xid)
                           .u32(i)
                           .take());
            world->run_for(kNsPerMs);
            for (const test::RawMessage& reply : conn->inbox) {
                if (reply.bytes.size() >= 4 && load_be32(reply.bytes.data()) == xid) return;
            }
        }
        NR_ASSERT(conn->ended);
    }

    EchoService service;
    std::unique_ptr<test::LoopWorld> world;
    std::unique_ptr<Listener> listener;
    std::unique_ptr<test::RawConn> conn;
    test::Bytes memory;
    std::unique_ptr<verbs::FastMr> fast;
    verbs::Cqe cqe;
    verbs::SendWr bind;
};

void run(std::span<const std::byte> input) {
    if (input.empty() || input.size() > 20000) return;
    Client client(load_u8(input.data()));
    for (std::size_t at = 1; at + 2 <= input.size();) {
        const std::size_t want = load_be16(&input[at]) % 4097u;
        at += 2;
        const std::size_t length = std::min(want, input.size() - at);
        client.send(input.subspan(at, length));
        at += length;
    }
    client.check();
}

}  // namespace
}  // namespace nfsrdma::svcrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::svcrdma::run(std::as_bytes(std::span(data, size)));
    return 0;
}
