// links: nr_nfs nr_xprtrdma nr_test_support
#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "nfs/client/client.hpp"
#include "rpcrdma/pcl.hpp"
#include "tests/fuzz/talk.hpp"
#include "tests/support/loop_world.hpp"
#include "xprtrdma/transport.hpp"

// A whole conversation of a live NFS client with a server that says what it likes: transport
// header, RPC and XDR of every reply, RDMA into what was exposed and into what was not. Whatever it
// is: each call is answered once, and all pools are full at the end (the transport's destructor
// asserts it).
//
// Input: one byte of options, then steps (talk.hpp). The words kXid, kKey, kLength and kAddr (which
// is two words) stand for the XID and the segment of the call that was seen last.
namespace nfsrdma::fuzz {
namespace {

namespace nc = nfs::client;

constexpr std::uint32_t kKey = 0x4E4B4559, kXid = 0x58494458, kAddr = 0x41444452,
                        kLength = 0x4C454E47;
constexpr std::uint32_t kPayload = 16 << 10;
constexpr std::uint32_t kOps = 10;

class TalkToClient {
  public:
    explicit TalkToClient(std::uint8_t bits)
        : listener_(*world_.server, test::LoopWorld::server_address(), raw(bits)) {
        xprtrdma::TransportOptions options;
        options.demand = {
            .credits = 8, .max_payload = kPayload, .max_message = 16 << 10, .inline_size = 1024};
        options.local = static_cast<pools::LocalStrategy>(bits % 3);
        auto made = xprtrdma::Transport::create(
            *world_.client, test::LoopWorld::server_address(), options,
            [](void*, Result<void>) noexcept {}, nullptr);
        NR_ASSERT(static_cast<bool>(made));
        transport_ = *std::move(made);
        NR_ASSERT(world_.run_until([&] { return transport_->connected(); }));
        client_ = std::make_unique<nc::Client>(*transport_, nullptr);
        conn().script = [this](test::RawConn&, test::RawMessage message) { saw(message.bytes); };
        if (auto payload = transport_->get_payload(kPayload)) payload_ = *std::move(payload);
        if (auto room = transport_->get_payload(kPayload)) room_ = *std::move(room);
        prepare();
        for (std::uint32_t i = 0; i < 3; ++i)
            start(i + (bits >> 3));
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
    }
    TalkToClient(const TalkToClient&) = delete;
    TalkToClient& operator=(const TalkToClient&) = delete;

    void run(Script script) {
        world_.run_for(200 * kNsPerUs);
        while (!script.over())
            take(script);
    }

  private:
    static test::RawOptions raw(std::uint8_t bits) {
        test::RawOptions options;
        options.receives = 32;
        options.offer.remote_invalidation = (bits & 4) != 0;
        return options;
    }
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

    test::LoopWorld world_;
    test::RawListener listener_;
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
    test::Bytes last_;
    rpcrdma::Segment segment_;
    std::uint32_t xid_ = 0;
};

}  // namespace
}  // namespace nfsrdma::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0 || size > 20000) return 0;
    const auto input = std::as_bytes(std::span(data, size));
    nfsrdma::fuzz::TalkToClient(nfsrdma::load_u8(input.data()))
        .run(nfsrdma::fuzz::Script(input.subspan(1)));
    return 0;
}
