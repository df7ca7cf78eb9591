#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "rpcrdma/private_data.hpp"
#include "rpcrdma/proto.hpp"
#include "sunrpc/xprt.hpp"
#include "svcrdma/backchannel.hpp"
#include "svcrdma/ctxt.hpp"
#include "svcrdma/reply_batch.hpp"
#include "svcrdma/server.hpp"
#include "verbs/cm.hpp"

namespace nfsrdma::svcrdma {

// One connection at the server.
//
// Operation. A completion records what it brings and puts its Call on the ready list; work(), a
// task of the loop, runs advance() for each. Everything is preallocated by create().
//
// Growth. It begins with ServerOptions::first_credits and what they need. Receives and the grant
// double when the peer uses what it has, RecvCtxts and transfers when they are short; each step
// allocates, none is taken back before the end. While payload memory is scarce at the server the
// grant is lowered, so that fewer Calls wait for it.
//
// Ownership. (1) A RecvBuf is posted, in `arrived_`, held by one RecvCtxt, or in `idle_`: posted
// and held ones together are never fewer than the credits granted (asserted in grant()). (2) A
// RecvCtxt is in `free_`, or stands in the one queue that its `wait` names, or is lent to the
// device or the service. (3) The object ends through ConnectionOwner::on_connection_over only,
// after its queue pair was drained, every RecvCtxt is free and the event that ends the connection
// was consumed (B28).
//
// Errors. A failed completion or post closes the connection: other connections see nothing of it.
// What the service still executes is released when it answers.
class SvcTransport final : public sunrpc::SvcXprt,
                           public verbs::CmHandler,
                           public ListHook<SvcTransport> {
  public:
    // Makes all pools and the queue pair, posts the Receives and accepts. Errors are the device's
    // or the pools', and `id` is still the caller's then. When Receives were posted but accepting
    // failed the object exists, closing. `peer` was admitted, or is nullptr, and is left in any
    // case.
    static Result<std::unique_ptr<SvcTransport>> create(Server& server, Peer* peer,
                                                        std::unique_ptr<verbs::CmId>& id,
                                                        const verbs::ConnectRequest& request);
    SvcTransport(const SvcTransport&) = delete;
    SvcTransport& operator=(const SvcTransport&) = delete;
    ~SvcTransport() override;

    Loop& loop() noexcept override { return server_.device.loop(); }
    const SockAddr& peer() const noexcept override { return peer_; }
    const char* netid() const noexcept override { return peer_.is_v6() ? "rdma6" : "rdma"; }
    std::uint32_t max_payload() const noexcept override {
        return server_.options.demand.max_payload;
    }
    Result<std::span<std::byte>> get_result_payload(sunrpc::SvcRqst& rqst,
                                                    std::uint32_t bytes) noexcept override;
    void reply(sunrpc::SvcRqst& rqst) noexcept override;
    void drop(sunrpc::SvcRqst& rqst) noexcept override;
    void release_payload(void* cookie) noexcept override;
    sunrpc::Xprt* backward() noexcept override { return backward_.get(); }
    void note_garbage() noexcept override { note_fault(); }
    void on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept override;

    // The peer broke the rules. Too often, and it is in quarantine: closes the connection.
    void note_fault() noexcept;
    // Idempotent; what is in progress is given up.
    void close() noexcept override;
    bool closing() const noexcept override { return state_ == State::closing; }
    bool waits_for_peer() const noexcept { return peer_waiter_.linked(); }
    std::uint32_t calls_in_progress() const noexcept override {
        return contexts_count_ - free_.size();
    }
    const pools::IoCounters& io_counters() const noexcept { return io_->counters(); }
    ConnectionStats stats() const noexcept;

    // For the leaves of the walk.
    Server& server() noexcept { return server_; }
    pools::Io& io() noexcept { return *io_; }
    verbs::QueuePair* qp() noexcept { return qp_; }
    ReplyBatch& replies() noexcept { return replies_; }
    RunWaiters& message_waiters() noexcept { return message_waiters_; }
    RunWaiters& payload_waiters() noexcept { return payload_waiters_; }
    const rpcrdma::InlineLimits& inline_limits() const noexcept { return inline_; }
    bool may_invalidate() const noexcept { return may_invalidate_; }
    // Notes the stage that `call` is in now.
    void trace(const RecvCtxt& call) noexcept;
    // Its next step is due. No effect while advance() is at it, or when it is due already.
    void make_ready(RecvCtxt& call) noexcept;
    // True where `call` must queue for a transfer behind others.
    bool must_wait_for_transfer() const noexcept {
        return !retrying_ && !transfer_waiters_.empty();
    }
    void wait_for_transfer(RecvCtxt& call) noexcept;
    void release_transfer(pools::Lease<pools::Transfer>& transfer) noexcept;
    // The frame of `call` was used: its buffer goes back to the device, in batches.
    void release_buf(RecvCtxt& call) noexcept;
    // A reply was given to the device, or has come back from it.
    void on_send_lent() noexcept;
    void on_send_home() noexcept;
    // Work of ours failed: notes when it did for want of an answer.
    void note_lost(verbs::WcStatus status) noexcept;
    // What to grant in an answer to a peer that asks for `requested`.
    std::uint32_t grant(std::uint32_t requested) noexcept;
    // `call` is over: its memory goes home.
    void release(RecvCtxt& call) noexcept;

  private:
    enum class State : std::uint8_t { accepting, open, closing };
    struct WorkTask : Task {
        WorkTask() noexcept : Task(&WorkTask::run_work) {}
        static void run_work(Task& task) noexcept;
        SvcTransport* transport = nullptr;
        bool scheduled = false;
    };
    struct OwnedTimer : Timer {
        using Timer::Timer;
        SvcTransport* transport = nullptr;
    };

    // The RDMA WRITE of no bytes.
    struct Probe : verbs::Cqe, pools::Posting {
        SvcTransport* transport = nullptr;
        verbs::SendWr wr;
        bool pending = false;
    };

    SvcTransport(Server& server, Peer* peer, std::unique_ptr<verbs::CmId> id) noexcept;
    Result<void> make_all(std::uint32_t read_depth);
    Result<void> make_pools(std::uint32_t read_depth);
    Result<void> make_qp();
    Result<void> make_contexts(std::uint32_t count);
    Result<void> make_receives(std::uint32_t count);
    Result<void> make_backward();
    Result<void> charge(std::uint64_t bytes) noexcept;
    void note_use() noexcept;
    void raise_credits() noexcept;
    void adapt_grant() noexcept;
    void add_contexts() noexcept;
    std::uint32_t receive_batch() const noexcept { return Server::receive_batch(credits_); }
    Result<void> accept(const verbs::ConnectRequest& request);
    static void on_recv(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_idle(Timer& timer) noexcept;
    static void on_stall(Timer& timer) noexcept;
    static void on_drain(Timer& timer) noexcept;
    static void on_keepalive(Timer& timer) noexcept;
    static void on_peer_wait(Timer& timer) noexcept;
    static void on_probed(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    void end_handshake() noexcept;
    bool begin_request() noexcept;
    void end_request() noexcept;
    void take_place() noexcept;  // of a call of its peer that is over
    SvcTransport* next_of_peer() noexcept;
    void stop_waiting_for_peer() noexcept;
    void watch_peer() noexcept;
    void post_probe() noexcept;
    void schedule() noexcept;
    void work() noexcept;
    void start_calls() noexcept;
    void take_backward() noexcept;
    void retry_transfers() noexcept;
    void post_receives() noexcept;
    void watch_idle() noexcept;
    void abort_calls() noexcept;
    void abort_call(RecvCtxt& call) noexcept;
    void drain() noexcept;

    Server& server_;
    std::unique_ptr<verbs::CompletionQueue> cq_;
    std::unique_ptr<verbs::CmId> id_;  // and its queue pair; dies before the queue
    verbs::QueuePair* qp_ = nullptr;
    std::unique_ptr<pools::Io> io_;
    SockAddr peer_;
    Peer* known_peer_ = nullptr;  // its place in the table, which this counts in
    std::uint32_t trace_connection_;
    State state_ = State::accepting;
    bool event_owed_ = false;  // `disconnected` will come
    bool drained_ = false;     // the queue pair is empty and pools::Io knows of it
    bool over_ = false;
    bool transfer_came_ = false;  // since the waiters were tried
    bool retrying_ = false;       // them
    bool transfers_grew_ = false;
    bool may_invalidate_ = false;
    bool handshaking_ = true;
    bool has_place_ = false;  // among the calls in progress of its peer, for the next call
    bool lost_ = false;       // the peer did not answer
    rpcrdma::InlineLimits inline_;

    struct alignas(64) CacheLine {
        std::byte bytes[64];
    };
    // Made together.
    struct ContextBlock {
        std::unique_ptr<CacheLine[]> scratch;
        std::unique_ptr<RecvCtxt[]> contexts;
        std::uint32_t count = 0;
    };
    std::vector<ContextBlock> contexts_;
    std::uint32_t contexts_count_ = 0;
    std::vector<std::unique_ptr<RecvBuf[]>> bufs_;
    std::uint32_t bufs_count_ = 0;
    std::vector<std::span<std::byte>> slabs_;
    std::uint64_t charged_ = 0;  // against the memory budget
    // Receives are there for `credits_`; the peer is granted at most `grant_limit_` of them.
    std::uint32_t credits_ = 0, grant_limit_ = 0, granted_ = 0, requested_ = 0;
    std::uint32_t calls_since_raise_ = 0, replies_until_cut_ = 0;
    std::uint64_t calls_ = 0;
    List<RecvCtxt, RecvCtxt> free_, ready_, transfer_waiters_;
    List<RecvBuf, RecvBuf> arrived_, idle_;
    List<RecvBuf, RecvBuf> backward_arrived_;  // frames for `backward_`
    RunWaiters message_waiters_, payload_waiters_;
    std::uint32_t posted_ = 0, held_ = 0;
    ReplyBatch replies_{*this};
    std::unique_ptr<Backchannel> backward_;
    WorkTask work_;
    OwnedTimer idle_timer_, stall_timer_, drain_timer_, keepalive_timer_, peer_timer_;
    Probe probe_;
    PeerWaiter peer_waiter_;
    std::uint32_t sends_lent_ = 0;
    std::uint64_t send_progress_ns_ =
        0;  // when a reply was last taken by the peer, or the first lent
    std::uint64_t last_call_ns_ = 0;
    std::uint64_t heard_ns_ = 0;  // a Call, or the answer to something that we sent
};

}  // namespace nfsrdma::svcrdma
