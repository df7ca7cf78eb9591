// links: nr_nfs nr_xprtrdma nr_pools nr_rpcrdma nr_sunrpc nr_fuzz_plumbing nr_test_support
#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <string>

#include "nfs/client/client.hpp"
#include "rpcrdma/pcl.hpp"
#include "tests/fuzz/answer.hpp"
#include "tests/fuzz/keep.hpp"
#include "tests/fuzz/talk.hpp"
#include "tests/support/loop_world.hpp"
#include "xprtrdma/transport.hpp"

// A whole conversation of a live NFS client with a server that says what it likes: transport
// header, RPC and XDR of every reply, RDMA into what was exposed and into what was not. Whatever it
// is: each call is answered once, a connection that was lost is made again, and all pools are full
// at the end of its world (the transport's destructor asserts it).
//
// Input: one byte of options, then steps (talk.hpp). With kMortal among the options the transport
// does not recover, and is closed with calls under way. The words kXid, kKey, kLength and kAddr
// (which is two words) stand for the XID and the segment of the call that was seen last.
namespace nfsrdma::fuzz {
namespace {

namespace nc = nfs::client;

constexpr std::uint32_t kKey = 0x4E4B4559, kXid = 0x58494458, kAddr = 0x41444452,
                        kLength = 0x4C454E47;
constexpr std::uint32_t kPayload = 16 << 10;
constexpr std::uint32_t kOps = 10;
constexpr std::uint32_t kProcUnavailable = 3;  // an accept_stat
constexpr std::uint8_t kMortal = 0xC8;         // all of these bits

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
        options.send_wrs = 128;
        options.offer.remote_invalidation = remote_invalidation;
        return options;
    }
    test::LoopWorld world;
    test::RawListener listener;
};

class TalkToClient {
  public:
    TalkToClient(Net& net, pools::LocalStrategy local, bool recovers)
        : world_(net.world), listener_(net.listener) {
        xprtrdma::TransportOptions options;
        options.demand = {
            .credits = 8, .max_payload = kPayload, .max_message = 16 << 10, .inline_size = 1024};
        options.local = local;
        options.recovery.on = recovers;
        options.recovery.seed = 1;
        listener_.script = [this](test::RawConn&, const test::RawMessage& message) {
            saw(message.bytes);
        };
        auto made = xprtrdma::Transport::create(
            *world_.client, test::LoopWorld::server_address(), options,
            [](void*, Result<void>) noexcept {}, nullptr);
        NR_ASSERT(static_cast<bool>(made));
        transport_ = *std::move(made);
        NR_ASSERT(world_.run_until([&] { return transport_->connected(); }));
        if (auto payload = transport_->get_payload(kPayload)) payload_ = *std::move(payload);
        if (auto room = transport_->get_payload(kPayload)) room_ = *std::move(room);
        client_ = std::make_unique<nc::Client>(*transport_, nullptr);
    }
    ~TalkToClient() {
        transport_->close();
        client_->hurry();
        NR_ASSERT(world_.run_until([&] { return started_ == answered_; }));
        payload_.reset();
        room_.reset();
        NR_ASSERT(world_.run_until([&] { return transport_->idle(); }));
        client_.reset();
        transport_.reset();
        listener_.conns.clear();
        listener_.script = nullptr;
    }
    TalkToClient(const TalkToClient&) = delete;
    TalkToClient& operator=(const TalkToClient&) = delete;

    void run(std::uint32_t first_call, Script script) {
        prepare();
        for (std::uint32_t i = 0; i < 3; ++i)
            start(i + first_call);
        world_.run_for(200 * kNsPerUs);
        while (!script.over())
            take(script);
    }
    // A server that knows what it does, and none of these procedures, answers what is left, on a
    // new connection where the old one is gone.
    void finish() {
        const auto done = [this] { return started_ == answered_; };
        client_->hurry();
        for (std::uint32_t tries = 0; !done(); ++tries) {
            NR_ASSERT(tries < 200);
            if (transport_->connected() && alive()) {
                for (auto& [xid, answer] : std::exchange(pending_, {})) {
                    if (conn().qp().send_room() > 0) conn().send(std::move(answer));
                }
                world_.run_until(done, kNsPerMs);
            } else {
                world_.run_for(100 * kNsPerMs);
            }
        }
        pending_.clear();
        client_ = std::make_unique<nc::Client>(*transport_, nullptr);
        NR_ASSERT(world_.run_until([&] { return transport_->connected(); }));
        listener_.conns.erase(listener_.conns.begin(), std::prev(listener_.conns.end()));
    }

  private:
    test::RawConn& conn() { return listener_.last(); }
    bool alive() { return !conn().ended && !conn().qp().in_error(); }

    void prepare() {
        const auto handle = [this] { return nfs_fh3{{8, handle_.data()}}; };
        getattr_.args.object = lookup_.args.what.dir = handle();
        lookup_.args.what.name = name_.data();
        read_.args.file = write_.args.file = commit_.args.file = handle();
        read_.args.count = kPayload;
        read_.room = room_.memory();
        write_.set_data(payload_.memory());
        readdir_.args.dir = readlink_.args.symlink = handle();
        readdir_.args.dircount = readdir_.args.maxcount = 8 << 10;
        create_.args.where = lookup_.args.what;
        fsinfo_.args.fsroot = handle();
        mnt_.args.dirpath = name_.data();
        for (nc::Op* op : ops_) {
            op->user = this;
            op->done = [](nc::Op& done) noexcept {
                ++static_cast<TalkToClient*>(done.user)->answered_;
            };
        }
    }
    void start(std::uint32_t which) {
        nc::Op& op = *ops_[which % kOps];
        if (op.pending()) return;
        ++started_;
        client_->start(op);
    }
    void take(Script& script) {
        switch (script.step()) {
            case Step::send:
                last_ = with_meaning(script.message());
                if (alive()) conn().send(last_);
                break;
            case Step::send_again:
                if (alive()) conn().send(last_);
                break;
            case Step::send_invalidate: {
                last_ = with_meaning(script.message());
                const std::uint32_t handle = script.word();
                if (alive()) conn().send_with_inv(last_, handle == kKey ? segment_.handle : handle);
                break;
            }
            case Step::rdma_write: {
                const rpcrdma::Segment to = target(script);
                if (alive()) conn().write(to, test::Bytes(to.length, std::byte{7}));
                break;
            }
            case Step::rdma_read: {
                const rpcrdma::Segment from = target(script);
                if (alive()) conn().read(from, nullptr);
                break;
            }
            case Step::wait:
                return world_.run_for(20 * kNsPerUs * script.byte());
            case Step::reconnect:
                if (alive()) conn().disconnect();
                break;
            case Step::call:
                start(script.byte());
                break;
        }
        world_.run_for(20 * kNsPerUs);
    }
    rpcrdma::Segment target(Script& script) const {
        const std::uint32_t handle = script.word();
        return {handle == kKey ? segment_.handle : handle, 1u + script.byte(), segment_.offset};
    }
    // Takes what the call advertised last.
    void saw(const test::Bytes& bytes) {
        rpcrdma::ParsedHeader header;
        if (rpcrdma::parse_header(bytes, {UINT32_MAX, UINT32_MAX}, header) !=
            rpcrdma::HeaderFault::none)
            return;
        xid_ = header.xid;
        pending_[xid_] = answer_to(header, kProcUnavailable);
        for (const rpcrdma::Pcl* list : {&header.read, &header.write, &header.reply}) {
            for (const rpcrdma::Chunk& chunk : header.chunks_of(*list)) {
                for (const rpcrdma::Segment& seen : header.segments_of(chunk))
                    segment_ = seen;
            }
        }
    }
    test::Bytes with_meaning(test::Bytes message) const {
        for (std::size_t at = 0; at + 8 <= message.size(); at += 4) {
            if (load_be32(&message[at]) == kAddr) store_be64(&message[at], segment_.offset);
        }
        replace_words(message, {{kXid, xid_}, {kKey, segment_.handle}, {kLength, segment_.length}});
        return message;
    }

    test::LoopWorld& world_;
    test::RawListener& listener_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::unique_ptr<nc::Client> client_;
    sunrpc::Payload payload_, room_;
    std::array<char, 8> handle_{};
    std::string name_ = "name";
    nc::GetattrOp getattr_;
    nc::LookupOp lookup_;
    nc::ReadOp read_;
    nc::WriteOp write_;
    nc::CommitOp commit_;
    nc::ReaddirplusOp readdir_;
    nc::ReadlinkOp readlink_;
    nc::CreateOp create_;
    nc::FsinfoOp fsinfo_;
    nc::MntOp mnt_;
    std::array<nc::Op*, kOps> ops_ = {&getattr_,  &read_,   &write_,  &readdir_, &lookup_,
                                      &readlink_, &commit_, &create_, &fsinfo_,  &mnt_};
    std::uint32_t started_ = 0, answered_ = 0;
    std::map<std::uint32_t, test::Bytes> pending_;  // what would answer the calls seen
    test::Bytes last_;
    rpcrdma::Segment segment_;
    std::uint32_t xid_ = 0;
};

// A transport that recovers, with a net of its own.
struct KeptTalk {
    KeptTalk(pools::LocalStrategy local, bool remote_invalidation)
        : net(remote_invalidation), talk(net, local, true) {}
    Net net;
    TalkToClient talk;
};

void run(std::span<const std::byte> input) {
    static Keep<KeptTalk, 6> talks;
    static Keep<Net, 2> nets;
    const std::uint8_t bits = load_u8(input.data());
    const auto local = static_cast<pools::LocalStrategy>(bits % 3);
    const bool remote_invalidation = (bits & 4) != 0;
    const std::uint32_t first_call = bits >> 3;
    const Script script(input.subspan(1));
    if ((bits & kMortal) == kMortal)
        return TalkToClient(nets.get(remote_invalidation ? 1u : 0u, remote_invalidation), local,
                            false)
            .run(first_call, script);
    TalkToClient& talk =
        talks.get(bits % 3u * 2u + (remote_invalidation ? 1u : 0u), local, remote_invalidation)
            .talk;
    talk.run(first_call, script);
    talk.finish();
}

}  // namespace
}  // namespace nfsrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0 || size > 20000) return 0;
    nfsrdma::fuzz::run(std::as_bytes(std::span(data, size)));
    return 0;
}
