#include "tools/rpcrdma_doctor/peer.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "base/bytes.hpp"
#include "nfs/client/mount_socket.hpp"
#include "xprtrdma/transport.hpp"

namespace nfsrdma::doctor {
namespace {

constexpr std::uint64_t kGoodbyeNs = 5 * kNsPerSec;
constexpr std::uint32_t kMagic = 0xF6AB0E18;  // RFC 8797 s4
constexpr std::uint32_t kCqEntries = 256;
constexpr std::uint16_t kReasonConsumer = 28, kReasonNoListener = 8;

bool run_until(Loop& loop, const std::function<bool()>& finished, std::uint64_t patience_ns) {
    std::function<bool()> copy = finished;
    return loop.run_until([](void* arg) { return (*static_cast<std::function<bool()>*>(arg))(); },
                          &copy, patience_ns);
}

// A connection that carries nothing: its making alone tells what the peer says.
class Greeting final : public verbs::CmHandler {
  public:
    explicit Greeting(verbs::Device& device) noexcept : device_(device) {}
    ~Greeting() {
        if (id_ != nullptr && id_->qp() != nullptr) {
            id_->disconnect();
            id_->qp()->set_error();
            static_cast<void>(run_until(
                device_.loop(), [this] { return id_->qp()->outstanding() == 0; }, kGoodbyeNs));
        }
        id_.reset();
        if (added_) device_.loop().remove(*cq_);
    }
    Greeting(const Greeting&) = delete;
    Greeting& operator=(const Greeting&) = delete;

    Result<void> start(const SockAddr& server, std::uint64_t timeout_ns) {
        NR_TRY_ASSIGN(pd_, device_.alloc_pd());
        NR_TRY_ASSIGN(cq_, device_.create_cq(kCqEntries));
        device_.loop().add(*cq_);
        added_ = true;
        NR_TRY_ASSIGN(id_, device_.create_id(*this));
        NR_TRY(id_->create_qp(*pd_, *cq_, verbs::QpOptions{}));
        const auto bytes = rpcrdma::encode_private_data(our_data());
        verbs::ConnParams params;
        params.private_data = bytes;
        params.responder_resources =
            static_cast<std::uint8_t>(std::min(pd_->caps().max_read_responses, std::uint32_t{255}));
        params.initiator_depth = 0;
        params.timeout_ns = timeout_ns;
        return id_->connect(server, params);
    }
    // As the transport's.
    rpcrdma::PrivateData our_data() const noexcept {
        rpcrdma::PrivateData ours;
        ours.remote_invalidation = device_.caps().remote_invalidate;
        ours.send_size = ours.recv_size = pools::Demand{}.inline_size;
        return ours;
    }
    void on_cm_event(verbs::CmId& /*id*/, const verbs::CmEvent& event) noexcept override {
        if (outcome) return;
        switch (event.type) {
            case verbs::CmEventType::established:
                outcome = Result<void>();
                has_private_data = event.private_data.size() >= rpcrdma::kPrivateDataSize &&
                                   load_be32(event.private_data.data()) == kMagic;
                data = rpcrdma::decode_private_data(event.private_data);
                responder_resources = event.responder_resources;
                return;
            case verbs::CmEventType::rejected:
                reason = event.reason;
                outcome = Error{Errc::refused, 0,
                                reason == kReasonConsumer     ? "the service refused the connection"
                                : reason == kReasonNoListener ? "nobody listens at that port"
                                                              : "the connection was refused"};
                return;
            case verbs::CmEventType::unreachable:
                outcome = Error{Errc::timed_out, 0, "no answer"};
                return;
            case verbs::CmEventType::disconnected:
                outcome = Error{Errc::reconnect, 0, "disconnected at once"};
                return;
        }
    }
    std::optional<Result<void>> outcome;
    std::uint16_t reason = 0;
    bool has_private_data = false;
    rpcrdma::PrivateData data;
    std::uint32_t responder_resources = 0;

  private:
    verbs::Device& device_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    bool added_ = false;
    std::unique_ptr<verbs::CmId> id_;
};

void greet(verbs::Device& device, const PeerQuestion& question, Peer& out) {
    Greeting greeting(device);
    const std::uint64_t from = device.loop().now_ns();
    out.connected = greeting.start(question.server, question.timeout_ns);
    if (!out.connected) return;
    const bool told = run_until(
        device.loop(), [&] { return greeting.outcome.has_value(); },
        question.timeout_ns + kNsPerSec);
    out.connect_ns = device.loop().now_ns() - from;
    out.connected = told ? *greeting.outcome : Error{Errc::timed_out, 0, "no answer"};
    out.reject_reason = greeting.reason;
    out.has_private_data = greeting.has_private_data;
    out.private_data = greeting.data;
    out.agreed = rpcrdma::agree_inline(greeting.our_data(), greeting.data);
    out.reads_by_peer = greeting.responder_resources;
}

// The transport and an NFS client over it, for as long as questions are asked.
class Conversation {
  public:
    Conversation(verbs::Device& device, const PeerQuestion& question)
        : loop_(device.loop()), question_(question) {
        xprtrdma::TransportOptions how;
        how.connect_timeout_ns = how.reply_timeout_ns = question.timeout_ns;
        auto made = xprtrdma::Transport::create(
            device, question.server, how,
            [](void* arg, Result<void> result) noexcept {
                *static_cast<std::optional<Result<void>>*>(arg) = result;
            },
            &connected_);
        if (!made) {
            connected_ = made.error();
            return;
        }
        transport_ = *std::move(made);
        static_cast<void>(run_until(
            loop_, [this] { return connected_.has_value(); }, question.timeout_ns + kNsPerSec));
        bool truncated = false;
        const sunrpc::AuthSys sys = sunrpc::AuthSys::of_process(truncated);
        client_ = std::make_unique<nfs::client::Client>(*transport_, &sys);
        client_->timeout_ns = question.timeout_ns;
    }
    ~Conversation() {
        if (transport_ == nullptr) return;
        transport_->close();
        const auto idle = [this] { return transport_->idle(); };
        if (!run_until(loop_, idle, kGoodbyeNs)) {
            // What a device still holds cannot be taken from it, and this process ends anyway.
            static_cast<void>(client_.release());
            static_cast<void>(transport_.release());
        }
    }
    Conversation(const Conversation&) = delete;
    Conversation& operator=(const Conversation&) = delete;

    Result<void> connected() const {
        if (!connected_) return Error{Errc::timed_out, 0, "no answer"};
        return *connected_;
    }
    nfs::client::Outcome run(nfs::client::Op& op) {
        bool finished = false;
        op.user = &finished;
        op.done = [](nfs::client::Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
        client_->start(op);
        static_cast<void>(run_until(
            loop_, [&] { return finished; }, question_.timeout_ns + kGoodbyeNs));
        if (!finished) client_->cancel(op);
        return op.outcome;
    }
    std::uint32_t credits() const noexcept { return transport_->credits_granted(); }

  private:
    Loop& loop_;
    const PeerQuestion& question_;
    std::optional<Result<void>> connected_;
    std::unique_ptr<xprtrdma::Transport> transport_;
    std::unique_ptr<nfs::client::Client> client_;
};

void ask_nfs(Conversation& talk, Loop& loop, std::uint32_t count, Peer& out) {
    for (std::uint32_t i = 0; i < count; ++i) {
        nfs::client::NullOp op;
        const std::uint64_t from = loop.now_ns();
        out.null = talk.run(op);
        if (!out.null.ok()) return;
        const std::uint64_t took = loop.now_ns() - from;
        out.null_min_ns = out.nulls == 0 ? took : std::min(out.null_min_ns, took);
        out.null_sum_ns += took;
        ++out.nulls;
    }
    out.credits = talk.credits();
}

void ask_mount(Conversation& talk, const PeerQuestion& question, Peer& out) {
    {
        nfs::client::ExportOp op;
        const nfs::client::Outcome outcome = talk.run(op);
        if (outcome.ok()) {
            out.mount = MountWay::rdma;
            return;
        }
        if (outcome.rpc || outcome.rpc.error().code != Errc::refused) return;
    }
    constexpr std::uint64_t kRpcbindNs = 3 * kNsPerSec;
    const nfs::client::RpcPatience patience{std::min(kRpcbindNs, question.timeout_ns), -1};
    const SockAddr rpcbind = question.server.with_port(question.rpcbind_port);
    out.mount = MountWay::none;
    for (const auto proto : {nfs::client::RpcProto::tcp, nfs::client::RpcProto::udp}) {
        auto port =
            nfs::client::rpcbind_port_of(rpcbind, proto, MOUNT3_PROGRAM, MOUNT_V3, patience);
        if (!port || *port == 0) continue;
        out.mount = proto == nfs::client::RpcProto::tcp ? MountWay::tcp : MountWay::udp;
        out.mount_port = *port;
        return;
    }
}

}  // namespace

Peer look_at_peer(const PeerQuestion& question) {
    Peer out;
    out.server = question.server;
    auto loop = Loop::create({});
    if (!loop) {
        out.device_error = "cannot make an event loop: " + to_string(loop.error());
        return out;
    }
    auto opened = devices::open(**loop, question.device);
    if (!opened) {
        out.device_error = devices::explain(question.device, opened.error());
        return out;
    }
    out.device = opened->name;
    out.device_line = opened->line;
    const verbs::DeviceCaps& caps = opened->device->caps();
    out.fast_reg = caps.fast_reg;
    out.offers_invalidation = caps.remote_invalidate;
    greet(*opened->device, question, out);
    if (out.connected) {
        Conversation talk(*opened->device, question);
        out.null = nfs::client::Outcome{};
        out.null.rpc = talk.connected();
        if (out.null.rpc) {
            ask_nfs(talk, **loop, question.nulls, out);
            ask_mount(talk, question, out);
        }
    }
    return out;
}

}  // namespace nfsrdma::doctor
