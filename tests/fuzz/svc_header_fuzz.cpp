// links: nr_svcrdma nr_pools nr_rpcrdma nr_sunrpc nr_fuzz_plumbing nr_test_support
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.hpp"
#include "svcrdma/listener.hpp"
#include "tests/fuzz/keep.hpp"
#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"

// Bytes as inline Sends to a live server transport over LoopWire. Whatever they are: the server
// lives, a connection that it kept still answers and has nothing left in progress, and all pools
// are full at the end of its world (Listener's destructor asserts it).
//
// Input: one byte of options, then at most kMessagesMax messages, each with its length in two
// bytes, whose top bit says that the next one follows at once. The word kKey
// stands for the key of 64 KiB that the client really exposes at kIova.
namespace nfsrdma::svcrdma {
namespace {

constexpr std::uint32_t kKey = 0x4E4B4559;
constexpr std::uint64_t kIova = 0x10000000;
constexpr std::uint32_t kExposed = 64 << 10;
constexpr std::uint32_t kMessagesMax = 24;

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

class ServerWorld {
  public:
    explicit ServerWorld(pools::LocalStrategy local) : world_(net()) {
        ServerOptions options;
        options.demand = {
            .credits = 2, .max_payload = kExposed, .max_message = 16 << 10, .inline_size = 4096};
        options.payload_runs = 2;
        options.connections_max = 1;
        options.local = local;
        auto made =
            Listener::create(*world_.server, test::LoopWorld::server_address(), service_, options);
        NR_ASSERT(static_cast<bool>(made));
        listener_ = *std::move(made);
        memory_.resize(kExposed + pools::kPageSize);
        cqe_.done = [](verbs::Cqe&, const verbs::Wc&) noexcept {};
    }
    ~ServerWorld() {
        end_connection();
        listener_->shut_down(kNsPerMs);
        NR_ASSERT(world_.run_until([&] { return listener_->idle(); }));
        listener_.reset();
    }
    ServerWorld(const ServerWorld&) = delete;
    ServerWorld& operator=(const ServerWorld&) = delete;

    void run(std::uint8_t bits, std::span<const std::byte> messages) {
        if (!alive() || kind_ != (bits & kKindBits)) {
            end_connection();
            connect(bits & kKindBits);
        }
        if (key_is_gone_) expose();
        std::uint32_t sent = 0;
        for (std::size_t at = 0; at + 2 <= messages.size() && sent < kMessagesMax; ++sent) {
            const std::uint16_t word = load_be16(&messages[at]);
            at += 2;
            const std::size_t length =
                std::min<std::size_t>((word & 0x7FFF) % 4097u, messages.size() - at);
            send(messages.subspan(at, length));
            if ((word & 0x8000) == 0) world_.run_for(50 * kNsPerUs);
            at += length;
        }
        check();
    }

  private:
    static constexpr std::uint8_t kPrivateData = 0x10, kInvalidation = 0x20,
                                  kKindBits = kPrivateData | kInvalidation;

    static test::LoopWorld::Options net() {
        test::LoopWorld::Options options;
        options.net.frames = 512;
        return options;
    }
    bool alive() const { return conn_ != nullptr && !conn_->ended && !conn_->qp().in_error(); }
    void connect(std::uint8_t kind) {
        kind_ = kind;
        test::RawOptions raw;
        raw.receives = 8;
        raw.send_wrs = 128;
        raw.private_data = (kind & kPrivateData) != 0;
        raw.offer.remote_invalidation = (kind & kInvalidation) != 0;
        conn_ = test::RawConn::connect(*world_.client, test::LoopWorld::server_address(), raw);
        NR_ASSERT(world_.run_until([&] { return conn_->established; }));
        conn_->script = [this](test::RawConn&, const test::RawMessage& reply) {
            if (reply.with_invalidate) key_is_gone_ = true;
            if (reply.bytes.size() >= 4 && load_be32(reply.bytes.data()) == awaited_)
                answered_ = true;
        };
        auto made = conn_->pd().alloc_fast_mr(kExposed / pools::kPageSize);
        NR_ASSERT(static_cast<bool>(made));
        fast_ = *std::move(made);
        expose();
    }
    void end_connection() {
        if (conn_ == nullptr) return;
        conn_->qp().set_error();
        fast_.reset();
        conn_.reset();
        NR_ASSERT(world_.run_until([&] { return listener_->connections() == 0; }));
    }
    void expose() {
        std::byte* const first = bytes_at(align_up(address_of(memory_.data()), pools::kPageSize));
        std::array<std::byte*, kExposed / pools::kPageSize> pages;
        for (std::size_t i = 0; i < pages.size(); ++i)
            pages[i] = first + i * pools::kPageSize;
        NR_ASSERT(fast_->map(
            pages, pools::kPageSize, 0, kExposed, kIova,
            verbs::Access::local_write | verbs::Access::remote_read | verbs::Access::remote_write));
        bind_ = {};
        bind_.op = verbs::SendOp::reg_mr;
        bind_.cqe = &cqe_;
        bind_.mr = fast_.get();
        bind_.rkey = fast_->rkey();
        verbs::WrChain chain;
        chain.push_back(bind_);
        NR_ASSERT(conn_->qp().post_send(chain));
        key_is_gone_ = false;
    }
    void send(std::span<const std::byte> bytes) {
        test::Bytes message(bytes.begin(), bytes.end());
        for (std::size_t at = 0; at + 4 <= message.size(); at += 4) {
            if (load_be32(&message[at]) == kKey)
                store_be32(&message[at], static_cast<std::uint32_t>(fast_->rkey()));
        }
        conn_->send(std::move(message));
    }
    // A server that kept the connection answers what is well-formed, and then has nothing to do.
    void check() {
        world_.run_for(kNsPerMs);
        answered_ = false;
        for (std::uint32_t i = 0; i < 62 && alive() && !answered_; ++i) {
            awaited_ = 0x7E570000 + i;
            conn_->send(test::Words()
                            .u32(awaited_)
                            .u32(1)
                            .u32(1)
                            .u32(0)
                            .u32(0)
                            .u32(0)
                            .u32(0)
                            .u32(awaited_)
                            .u32(i)
                            .take());
            world_.run_until([&] { return answered_ || !alive(); }, kNsPerMs);
        }
        if (!alive()) return;
        NR_ASSERT(answered_);
        NR_ASSERT(world_.run_until([&] { return !alive() || idle(); }, kNsPerSec));
    }
    bool idle() const {
        ConnectionStats stats;
        return listener_->connection_stats({&stats, 1}) == 1 && stats.calls_in_progress == 0;
    }

    test::LoopWorld world_;
    EchoService service_;
    std::unique_ptr<Listener> listener_;
    std::unique_ptr<test::RawConn> conn_;
    std::uint8_t kind_ = 0;
    test::Bytes memory_;
    std::unique_ptr<verbs::FastMr> fast_;
    bool key_is_gone_ = false, answered_ = false;
    std::uint32_t awaited_ = 0;
    verbs::Cqe cqe_;
    verbs::SendWr bind_;
};

void run(std::span<const std::byte> input) {
    if (input.empty() || input.size() > 20000) return;
    static fuzz::Keep<ServerWorld, 12> worlds;
    const std::uint8_t bits = load_u8(input.data());
    // A world for each kind of connection: a new one is made only where an input ended the last.
    const std::uint32_t kind = (bits >> 4) % 4u;
    worlds.get(bits % 3u * 4u + kind, static_cast<pools::LocalStrategy>(bits % 3))
        .run(bits, input.subspan(1));
}

}  // namespace
}  // namespace nfsrdma::svcrdma

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    nfsrdma::svcrdma::run(std::as_bytes(std::span(data, size)));
    return 0;
}
