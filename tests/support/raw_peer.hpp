#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "rpcrdma/private_data.hpp"
#include "rpcrdma/proto.hpp"
#include "verbs/device.hpp"

// A peer without a transport: it sends and receives bytes, and moves memory by keys, as a test
// tells it. It can break every rule of RFC 8166, and none of the queue pair's.
namespace nfsrdma::test {

using Bytes = std::vector<std::byte>;

// XDR words, appended.
class Words {
  public:
    Words& u32(std::uint32_t value);
    Words& u64(std::uint64_t value);
    Words& segment(const rpcrdma::Segment& segment);
    Words& bytes(std::span<const std::byte> more);  // padded to 4
    const Bytes& take() const { return data_; }

  private:
    Bytes data_;
};

Bytes pattern(std::size_t size, std::uint64_t seed);

struct RawMessage {
    Bytes bytes;
    bool with_invalidate = false;
    std::uint32_t invalidated = 0;
};

struct RawOptions {
    std::uint32_t receives = 64;
    std::uint32_t send_wrs = 256;
    std::uint32_t inline_size = 4096;
    bool private_data = true;  // false: none is sent
    rpcrdma::PrivateData offer{.remote_invalidation = true, .send_size = 4096, .recv_size = 4096};
    bool repost = true;  // a Receive is reposted when its message was taken
    std::uint8_t read_depth = 16;
};

// One connection, either end.
class RawConn final : public verbs::CmHandler {
  public:
    using Script = std::function<void(RawConn&, RawMessage)>;
    using Then = std::function<void(verbs::WcStatus, Bytes)>;

    // Active: connects to `server`.
    static std::unique_ptr<RawConn> connect(verbs::Device& device, const SockAddr& server,
                                            const RawOptions& options);
    // Passive: accepts `id`.
    static std::unique_ptr<RawConn> accept(verbs::Device& device, std::unique_ptr<verbs::CmId> id,
                                           const verbs::ConnectRequest& request,
                                           const RawOptions& options);
    ~RawConn();

    // Each is one posting. Order on the wire is the order of the calls.
    void send(Bytes bytes, Then done = nullptr);
    void send_with_inv(Bytes bytes, std::uint32_t handle, Then done = nullptr);
    void read(const rpcrdma::Segment& from, Then done);  // `done` gets the bytes
    void write(const rpcrdma::Segment& to, Bytes bytes, Then done = nullptr);
    void post_receives(std::uint32_t count);
    void disconnect() { id_->disconnect(); }

    // Called for each message; else they queue up in `inbox`.
    Script script;
    std::deque<RawMessage> inbox;
    bool established = false, ended = false;
    verbs::CmEventType end = verbs::CmEventType::established;
    rpcrdma::PrivateData peers;  // what the peer offered
    Bytes peers_private_data;
    std::uint32_t failed_ops = 0;  // completions that were neither success nor flushed
    verbs::WcStatus last_failure = verbs::WcStatus::success;
    verbs::QueuePair& qp() { return *qp_; }
    verbs::CmId& id() { return *id_; }
    verbs::ProtectionDomain& pd() { return *pd_; }

    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override;

  private:
    struct Op : verbs::Cqe {
        RawConn* conn = nullptr;
        Bytes memory;
        std::unique_ptr<verbs::Mr> mr;
        verbs::Sge sge;
        verbs::SendWr wr;
        Then then;
        std::list<std::unique_ptr<Op>>::iterator self;
    };
    struct Recv : verbs::Cqe {
        RawConn* conn = nullptr;
        const std::byte* memory = nullptr;
        verbs::Sge sge;
        verbs::RecvWr wr;
    };
    // Receives that were posted together, and their memory.
    struct Recvs {
        std::unique_ptr<std::byte[]> memory;
        std::unique_ptr<verbs::Mr> mr;
        std::vector<Recv> recvs;
    };
    RawConn(verbs::Device& device, const RawOptions& options)
        : device_(device), options_(options) {}
    void make_queues();
    Bytes our_private_data() const;
    Op& make_op(verbs::SendOp kind, Bytes memory, Then done);
    void post(Op& op);
    static void on_op(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_recv(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;

    verbs::Device& device_;
    RawOptions options_;
    std::unique_ptr<verbs::ProtectionDomain> pd_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<verbs::CmId> id_;
    verbs::QueuePair* qp_ = nullptr;
    std::list<std::unique_ptr<Op>> ops_;
    std::vector<Recvs> recvs_;
};

// Accepts everybody.
class RawListener final : public verbs::ListenHandler {
  public:
    RawListener(verbs::Device& device, const SockAddr& address, const RawOptions& options);
    void on_connect_request(std::unique_ptr<verbs::CmId> id,
                            const verbs::ConnectRequest& request) noexcept override;
    RawConn& last() { return *conns.back(); }
    RawConn::Script script;  // given to each connection
    std::vector<std::unique_ptr<RawConn>> conns;
    RawOptions options;
    bool refuse = false;

  private:
    verbs::Device& device_;
    std::unique_ptr<verbs::Listener> listener_;
};

}  // namespace nfsrdma::test
