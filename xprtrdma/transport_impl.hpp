#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/list.hpp"
#include "base/log.hpp"
#include "base/loop.hpp"
#include "base/prng.hpp"
#include "pools/buffer_pool.hpp"
#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "rpcrdma/credits.hpp"
#include "xprtrdma/backchannel.hpp"
#include "xprtrdma/endpoint.hpp"
#include "xprtrdma/payload_pool.hpp"
#include "xprtrdma/rep.hpp"
#include "xprtrdma/req.hpp"
#include "xprtrdma/transport.hpp"
#include "xprtrdma/xid_table.hpp"

namespace nfsrdma::xprtrdma {

// Every count of one client connection, from what pools/ provides and what RPC adds.
struct Counts {
    pools::Provision provision;
    std::uint32_t reqs =
        0;  // calls in flight, and an eighth more that their callers still read (facts R12)
    std::uint32_t receive_batch = 0;  // Receives reposted by one call
    std::uint32_t receives = 0;
    std::uint32_t send_buffer_bytes = 0;
    std::uint32_t message_bytes = 0, message_runs = 0;
    std::uint32_t send_sges = 0;
    std::size_t arena_bytes = 0;
    std::uint32_t backward = 0;  // Receives beside, for calls of the server
    static Result<Counts> of(const TransportOptions& options,
                             const verbs::DeviceCaps& caps) noexcept;
    static Result<Counts> of(const pools::Demand& demand, const verbs::DeviceCaps& caps) noexcept;
};

// Operation. send() queues a call; pump() sends what has a credit, in order. Completions append: a
// Receive to received_, a Send or a fence to steps_; progress() then does, in this order: replies,
// Receives topped up, calls advanced, waiting calls sent (a sender is never woken before the
// Receives are there), callers woken that had been told `again`.
//
// Ownership. (1) A Req is in free_, or its caller's, or in active_ from send() until it is
// answered: NR_ASSERT in each transition. (2) A credit is held from post to reply. (3) A payload is
// pinned from send() until the answer. (4) A Rep is in receives_, or in received_, or held by the
// Req whose reply head points into it.
//
// Errors. Whatever ends the connection ends in Endpoint's `drained`, where every active call is
// answered once, or kept for the next connection; nothing else answers with Errc::reconnect or
// Errc::closed (recovery.cpp).
class TransportImpl final : public Transport {
  public:
    TransportImpl(const SockAddr& server, const TransportOptions& options, const Counts& counts);
    ~TransportImpl() override;
    TransportImpl(const TransportImpl&) = delete;
    TransportImpl& operator=(const TransportImpl&) = delete;
    Result<void> start(verbs::Device& device, Connected told, void* arg);

    // sunrpc::Xprt
    Loop& loop() noexcept override { return endpoint_->loop(); }
    const sunrpc::XprtLimits& limits() const noexcept override { return limits_; }
    Result<sunrpc::Rqst*> get_rqst(std::uint32_t call_max) noexcept override;
    void put_rqst(sunrpc::Rqst& rqst) noexcept override;
    Result<sunrpc::Payload> get_payload(std::uint32_t bytes) noexcept override;
    Result<void> send(sunrpc::Rqst& rqst) noexcept override;
    Result<void> check_given_up(const sunrpc::Rqst& rqst) noexcept override;
    void on_slot(void (*wake)(void*) noexcept, void* arg) noexcept override;
    bool connected() const noexcept override { return up_ && endpoint_->connected(); }
    void close() noexcept override;
    void release_payload(void* cookie) noexcept override;
    Result<void> register_memory(std::span<std::byte> memory) override;
    Result<void> deregister_memory(std::span<std::byte> memory) noexcept override;

    // Transport
    bool idle() const noexcept override;
    const TransportCounters& counters() const noexcept override;
    const pools::IoCounters& io_counters() const noexcept override { return io_->counters(); }
    rpcrdma::InlineLimits inline_limits() const noexcept override {
        return endpoint_->inline_limits();
    }
    std::uint32_t credits_granted() const noexcept override { return credits_.granted(); }
    bool all_given_up(bool (*nobody_waits)(const sunrpc::Rqst& rqst) noexcept) noexcept override;
    void end_connection(const char* why) noexcept override;
    const SockAddr& server() const noexcept override { return server_; }
    const Error& why_down() const noexcept override { return why_down_; }
    bool recovering() const noexcept override {
        return recovering_ || (up_ && !endpoint_->connected() && recovers());
    }
    void on_recovery(void (*changed)(void*, bool connected) noexcept, void* arg) noexcept override;
    void on_disconnect(void (*lost)(void*) noexcept, void* arg) noexcept override;

  private:
    struct ProgressTask : Task {
        using Task::Task;
        TransportImpl* home = nullptr;
    };

    struct OwnTimer : Timer {
        using Timer::Timer;
        TransportImpl* home = nullptr;
    };
    // An RDMA WRITE of no bytes: the peer's device must acknowledge it, and nobody else sees it.
    struct Ping : verbs::Cqe, pools::Posting {
        TransportImpl* home = nullptr;
        verbs::SendWr wr;
        bool pending = false;
        std::uint64_t since_ns = 0;
    };

    // transport.cpp: set-up, and what callers do.
    Result<void> make_pools();
    Result<void> make_reqs();
    Result<void> make_backward();
    Error not_connected() const noexcept;
    PlanLimits plan_limits() const noexcept;
    Result<void> check_call(Req& req) noexcept;
    void release(Req& req) noexcept;
    void want_payload() noexcept;
    void on_payload_home() noexcept;

    // progress.cpp: what happens by itself, in order.
    void schedule() noexcept;
    void schedule(Req& req) noexcept;
    void progress() noexcept;
    void on_reply(Rep& rep) noexcept;
    bool take_backward(Rep& rep) noexcept;
    Req* match(const DecodedReply& reply) noexcept;
    void on_matched(Req& req, Rep& rep, const DecodedReply& reply) noexcept;
    void advance(Req& req) noexcept;
    void answer(Req& req) noexcept;
    void forget(Req& req) noexcept;
    void pump() noexcept;
    Result<void> send_request(Req& req) noexcept;
    void count_plan(const Req& req) noexcept;
    void count_wait(Req& req, std::uint64_t& counter) noexcept;
    bool callers_wait() const noexcept { return slot_wanted_ || payload_wanted_; }
    void wake_callers() noexcept;
    void trace(std::uint32_t xid, const char* point) noexcept;
    bool retry_with_larger_room(Req& req) noexcept;
    void send_again(Req& req) noexcept;
    void reset_for_sending(Req& req) noexcept;

    // watch.cpp: the peer that says nothing.
    void watch_replies() noexcept;
    void on_reply_timer() noexcept;
    std::uint64_t oldest_call_ns() noexcept;
    std::uint64_t look_at_replies(std::uint64_t now, std::uint64_t oldest) noexcept;
    std::uint64_t look_at_ping(std::uint64_t now) noexcept;
    std::uint64_t look_at_probe(std::uint64_t now) noexcept;
    std::uint64_t look_at_silence(std::uint64_t now, std::uint64_t oldest) noexcept;
    void note_life() noexcept;
    void note_reply() noexcept;
    void send_ping(std::uint64_t now) noexcept;
    static void on_probe_answered(void* arg) noexcept;
    static void on_ping_posted(pools::Posting& posting, Result<void> result) noexcept;
    static void on_ping_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;

    // recovery.cpp: the end of a connection, and the next one.
    void on_lost(const Error& why) noexcept;
    void end(const Error& why) noexcept;
    void fail_active() noexcept;
    bool recovers() const noexcept;
    void keep_active() noexcept;
    void note_loss(bool was_up) noexcept;
    bool needed() const noexcept;
    void hurry() noexcept;
    void ask_who_waits() noexcept;
    void on_attempt_refused(const Error& why) noexcept;
    std::uint64_t patience_ns() noexcept;
    void wait_for_next_try() noexcept;
    std::uint64_t next_delay_ns() noexcept;
    void on_recovery_timer() noexcept;
    Result<void> connect_again() noexcept;
    void resume() noexcept;
    void plan_again() noexcept;

    static void on_progress(Task& task) noexcept;
    static void on_posted(pools::Posting& posting, Result<void> result) noexcept;
    static void on_send_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    static void on_fenced(Req& req) noexcept;
    static void on_received(void* arg, Rep& rep) noexcept;
    static void on_receive_failed(void* arg) noexcept;
    static void on_room(void* arg) noexcept;
    static void on_connected(void* arg) noexcept;
    static void on_drained(void* arg, const Error& why) noexcept;

    SockAddr server_;
    Counts counts_;
    TransportOptions options_;
    sunrpc::XprtLimits limits_;
    Connected connected_ = nullptr;
    void* connected_arg_ = nullptr;
    bool connected_told_ = false;  // `connected_` ran with success
    bool up_ = false;              // there is a connection, and it was prepared
    bool closing_ = false;         // close() was called
    bool recovering_ = false;      // there is none, and there will be
    bool distrusted_ = false;      // the peer broke the protocol: nothing more of it is looked at

    std::unique_ptr<Endpoint> endpoint_;
    std::unique_ptr<pools::Arena> arena_;
    std::unique_ptr<pools::PageListPool> messages_;
    std::unique_ptr<PayloadPool> payloads_;
    std::unique_ptr<pools::BufferPool> send_buffers_, recv_buffers_;
    std::unique_ptr<pools::Io> io_;
    std::unique_ptr<ReceiveQueue> receives_;
    std::unique_ptr<Backchannel> backward_;  // of BackwardOptions::service
    std::span<std::byte> zeros_;
    std::unique_ptr<Req[]> reqs_;

    rpcrdma::CreditWindow credits_;
    XidTable xids_;
    List<sunrpc::Rqst, sunrpc::Rqst> free_;
    List<Req, WaitingTag> waiting_;
    List<Req, ActiveTag> active_;
    List<Req, StepTag> steps_;
    List<Rep, Rep> received_;
    ProgressTask task_;
    OwnTimer reply_timer_, recovery_timer_;
    Ping ping_;
    std::uint64_t heard_ns_ = 0;       // the last sign of life of the peer, or of its device
    std::uint64_t ping_after_ns_ = 0;  // PingOptions::after_ns, and longer after each answer
    std::unique_ptr<Probe> probe_;     // of the ping that is not answered
    std::uint64_t probe_told_ns_ = 0;  // 0: it was not answered either
    // Of recovery: when the last connection ended; since when none has worked, and the attempts and
    // the delay since then; whether the present one brought a reply.
    std::uint64_t down_ns_ = 0, lost_ns_ = 0, delay_ns_ = 0;
    std::uint32_t tries_ = 0;
    bool answered_ = false;
    std::uint64_t up_ns_ = 0;  // when the present connection, or the last one, began
    bool on_demand_ = false;   // the next attempt is a minute away, if nobody asks for it
    bool asking_ = false;      // ask_who_waits() runs
    Error why_down_{Errc::reconnect, 0, "not connected"};
    log::RateLimit told_refused_{kNsPerSec * 60};
    Prng delays_;
    rpcrdma::ParsedHeader parsed_;

    std::uint32_t given_up_ = 0;  // calls that were abandoned, are active, and name memory
    bool slot_wanted_ = false, payload_wanted_ = false;  // somebody was told `again`
    bool payload_home_ = false;                          // since then
    void (*wake_)(void*) noexcept = nullptr;
    void* wake_arg_ = nullptr;
    void (*recovery_)(void*, bool) noexcept = nullptr;
    void* recovery_arg_ = nullptr;
    void (*lost_)(void*) noexcept = nullptr;
    void* lost_arg_ = nullptr;
    mutable TransportCounters counters_;  // those that Io keeps are copied in when asked for
};

}  // namespace nfsrdma::xprtrdma
