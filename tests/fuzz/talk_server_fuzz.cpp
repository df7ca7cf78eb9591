// links: nr_nfs nr_svcrdma nr_pools nr_rpcrdma nr_sunrpc nr_fuzz_plumbing nr_test_support
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "svcrdma/listener.hpp"
#include "tests/fuzz/keep.hpp"
#include "tests/fuzz/talk.hpp"
#include "tests/support/loop_world.hpp"

// A whole conversation with a live NFS server: messages in any order, several connections, RDMA
// that nobody asked for, messages twice. Whatever it is: the server lives, answers a NULL call, on
// a new connection where it ended the last one, has nothing left in progress then, and all pools
// are full at the end of its world (Listener's destructor asserts it). An input finds what those
// before it left in the export (keep.hpp).
//
// Input: one byte of options, then steps (talk.hpp). The word kKey stands for the key of 64 KiB
// that the client really exposes at kIova, and the 11 words that begin with kHandle for the
// export's root: its length and handle.
namespace nfsrdma::fuzz {
namespace {

constexpr std::uint32_t kKey = 0x4E4B4559, kHandle = 0x484E4431;
constexpr std::uint64_t kIova = 0x10000000;
constexpr std::uint32_t kExposed = 64 << 10;
constexpr std::uint32_t kReconnectsMax = 3;
constexpr std::uint32_t kNullXid = 0x7E570001;

class TalkToServer {
  public:
    explicit TalkToServer(pools::LocalStrategy local) {
        test::LoopWorld::Options net;
        net.net.frames = 512;
        world_ = std::make_unique<test::LoopWorld>(net);
        nfs::VfsMemOptions small;
        small.capacity_bytes = small.max_file_bytes = 1 << 20;
        small.max_nodes = 1000;
        auto vfs = std::make_shared<nfs::VfsMem>(small);
        root_ = vfs->root();
        NR_ASSERT(static_cast<bool>(server_.add_export("/export", std::move(vfs))));
        handle_ = nfs::encode_fh(server_.handle_key(),
                                 {.export_id = nfs::export_id_of("/export"), .node = root_});
        server_.add_to(dispatcher_);
        svcrdma::ServerOptions options;
        options.demand = {
            .credits = 4, .max_payload = kExposed, .max_message = 16 << 10, .inline_size = 4096};
        options.first_credits = 1;  // what a connection has grows with what it does
        options.payload_runs = 2;
        options.connections_max = 4;
        options.local = local;
        auto made = svcrdma::Listener::create(*world_->server, test::LoopWorld::server_address(),
                                              dispatcher_, options);
        NR_ASSERT(static_cast<bool>(made));
        listener_ = *std::move(made);
        memory_.resize(kExposed + pools::kPageSize);
    }
    ~TalkToServer() {
        end_connection();
        listener_->shut_down(kNsPerMs);
        NR_ASSERT(world_->run_until([&] { return listener_->idle(); }));
        listener_.reset();
    }
    TalkToServer(const TalkToServer&) = delete;
    TalkToServer& operator=(const TalkToServer&) = delete;

    void run(std::uint8_t bits, Script script) {
        bits_ = bits;
        reconnects_ = 0;
        last_.clear();
        // What this input repeats is what it said itself.
        cache_.emplace(sunrpc::ReplyCacheOptions{.entries = 16, .shards = 1});
        dispatcher_.set_reply_cache(&*cache_);
        if (conn_ == nullptr || kind_ != (bits & kKindBits)) renew();
        while (!script.over())
            take(script);
        world_->run_for(kNsPerMs);
        if (!alive()) renew();
        check();
        if (key_is_gone_) expose();
    }

  private:
    static constexpr std::uint8_t kPrivateData = 0x10, kInvalidation = 0x20,
                                  kKindBits = kPrivateData | kInvalidation;

    void take(Script& script) {
        switch (script.step()) {
            case Step::send:
                last_ = with_meaning(script.message());
                return send(last_);
            case Step::send_again:
                return send(last_);
            case Step::send_invalidate:
                last_ = with_meaning(script.message());
                if (alive()) conn_->send_with_inv(last_, script.word());
                break;
            case Step::rdma_write: {
                const std::uint32_t handle = script.word();
                const std::uint32_t length = script.byte();
                if (alive()) conn_->write({handle, length, kIova}, test::Bytes(length));
                break;
            }
            case Step::rdma_read: {
                const std::uint32_t handle = script.word();
                const std::uint32_t length = 1u + script.byte();
                if (alive()) conn_->read({handle, length, kIova}, nullptr);
                break;
            }
            case Step::wait:
                return world_->run_for(20 * kNsPerUs * script.byte());
            case Step::reconnect:
                if (++reconnects_ > kReconnectsMax) return;
                end_connection();
                return connect();
            case Step::call:
                break;
        }
        world_->run_for(20 * kNsPerUs);
    }
    bool alive() const {
        return conn_ != nullptr && conn_->established && !conn_->ended && !conn_->qp().in_error();
    }
    void send(const test::Bytes& message) {
        if (alive() && conn_->qp().send_room() > 0) conn_->send(message);
        world_->run_for(20 * kNsPerUs);
    }
    // A connection in good order, and the server rid of all others.
    void renew() {
        end_connection();
        NR_ASSERT(world_->run_until([&] { return listener_->connections() == 0; }));
        connect();
        NR_ASSERT(alive());
    }
    void connect() {
        kind_ = bits_ & kKindBits;
        test::RawOptions raw;
        raw.receives = 8;
        raw.send_wrs = 64;
        raw.private_data = (kind_ & kPrivateData) != 0;
        raw.offer.remote_invalidation = (kind_ & kInvalidation) != 0;
        conn_ = test::RawConn::connect(*world_->client, test::LoopWorld::server_address(), raw);
        NR_ASSERT(world_->run_until([&] { return conn_->established || conn_->ended; }));
        conn_->script = [this](test::RawConn&, const test::RawMessage& reply) {
            if (reply.with_invalidate) key_is_gone_ = true;
            if (reply.bytes.size() >= 4 && load_be32(reply.bytes.data()) == kNullXid)
                answered_ = true;
        };
        if (conn_->ended) return;
        auto made = conn_->pd().alloc_fast_mr(kExposed / pools::kPageSize);
        NR_ASSERT(static_cast<bool>(made));
        fast_ = *std::move(made);
        expose();
    }
    void expose() {
        key_is_gone_ = false;
        std::byte* const first = bytes_at(align_up(address_of(memory_.data()), pools::kPageSize));
        std::array<std::byte*, kExposed / pools::kPageSize> pages;
        for (std::size_t i = 0; i < pages.size(); ++i)
            pages[i] = first + i * pools::kPageSize;
        NR_ASSERT(fast_->map(
            pages, pools::kPageSize, 0, kExposed, kIova,
            verbs::Access::local_write | verbs::Access::remote_read | verbs::Access::remote_write));
        cqe_.done = [](verbs::Cqe&, const verbs::Wc&) noexcept {};
        bind_ = {};
        bind_.op = verbs::SendOp::reg_mr;
        bind_.cqe = &cqe_;
        bind_.mr = fast_.get();
        bind_.rkey = fast_->rkey();
        verbs::WrChain chain;
        chain.push_back(bind_);
        NR_ASSERT(conn_->qp().post_send(chain));
    }
    void end_connection() {
        if (conn_ == nullptr) return;
        conn_->qp().set_error();
        fast_.reset();
        conn_.reset();
    }
    test::Bytes with_meaning(test::Bytes message) {
        for (std::size_t at = 0; at + 4 + handle_.size <= message.size(); at += 4) {
            if (load_be32(&message[at]) != kHandle) continue;
            store_be32(&message[at], handle_.size);
            std::copy(handle_.span().begin(), handle_.span().end(),
                      message.begin() + static_cast<std::ptrdiff_t>(at) + 4);
        }
        const std::uint32_t key = fast_ != nullptr ? static_cast<std::uint32_t>(fast_->rkey()) : 0;
        replace_words(message, {{kKey, key}});
        return message;
    }
    // NULL of NFS, until it is answered: a message of the input may be in its way.
    void check() {
        test::Words call;
        for (const std::uint32_t word : {kNullXid, 1u, 1u, 0u, 0u, 0u, 0u, kNullXid, 0u, 2u,
                                         std::uint32_t{NFS3_PROGRAM}, 3u, 0u, 0u, 0u, 0u, 0u})
            call.u32(word);
        answered_ = false;
        conn_->send(call.take());
        if (!world_->run_until([&] { return answered_ || !alive(); }) || !answered_) {
            renew();
            conn_->send(call.take());
            NR_ASSERT(world_->run_until([&] { return answered_; }));
        }
        NR_ASSERT(world_->run_until([&] { return !alive() || idle(); }));
    }
    bool idle() const {
        std::array<svcrdma::ConnectionStats, 4> stats;
        const std::uint32_t count = listener_->connection_stats(stats);
        return std::all_of(stats.begin(), stats.begin() + count,
                           [](const auto& one) { return one.calls_in_progress == 0; });
    }

    std::uint8_t bits_ = 0, kind_ = 0;
    bool key_is_gone_ = false, answered_ = false;
    std::unique_ptr<test::LoopWorld> world_;
    nfs::NodeId root_;
    nfs::FhBytes handle_;
    nfs::Server server_;
    std::optional<sunrpc::ReplyCache> cache_;
    sunrpc::SvcDispatcher dispatcher_;
    std::unique_ptr<svcrdma::Listener> listener_;
    std::unique_ptr<test::RawConn> conn_;
    test::Bytes memory_, last_;
    std::unique_ptr<verbs::FastMr> fast_;
    verbs::Cqe cqe_;
    verbs::SendWr bind_;
    std::uint32_t reconnects_ = 0;
};

void run(std::uint8_t bits, Script script) {
    static Keep<TalkToServer, 12> talks;
    // A world for each kind of connection: a new one is made only where an input ended the last.
    const std::uint32_t kind = (bits >> 4) % 4u;
    talks.get(bits % 3u * 4u + kind, static_cast<pools::LocalStrategy>(bits % 3)).run(bits, script);
}

}  // namespace
}  // namespace nfsrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0 || size > 20000) return 0;
    const auto input = std::as_bytes(std::span(data, size));
    nfsrdma::fuzz::run(nfsrdma::load_u8(input.data()), nfsrdma::fuzz::Script(input.subspan(1)));
    return 0;
}
