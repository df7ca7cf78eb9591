#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "pools/io.hpp"
#include "rpcrdma/credits.hpp"
#include "rpcrdma/proto.hpp"
#include "sunrpc/xprt.hpp"

namespace nfsrdma::svcrdma {

class SvcTransport;

struct BackchannelCounters {
    std::uint64_t calls = 0, replies = 0;
    std::uint64_t bad_replies = 0;  // to no call of ours, or RDMA_ERROR
    std::uint64_t waited_for_credit = 0;
};

// Calls to the client by its own connection (RFC 8167), inline only: a payload or a place for one
// is not for this transport.
//
// Operation. send() queues a call, pump() posts what has a credit. The credits are this direction's
// own: one until the first reply, then what the client grants. A reply is copied from its Receive
// into the slot of its call.
//
// Ownership. A Slot is in `free_`, or its caller's, or in `waiting_`, or posted. One that is posted
// is done when its reply is here, or the connection has ended, and its SEND has completed.
//
// Errors. The end of the connection fails every call with Errc::reconnect; RDMA_ERROR one with
// Errc::bad_message. A SEND that the client does not take for ServerOptions::stall_timeout_ns, or a
// call that its caller gave up so long ago and that still has no reply, ends the connection: it
// would keep its slot and its credit for good, and in the end nobody could call.
class Backchannel final : public sunrpc::Xprt {
  public:
    // `sends`: memory of the arena for `slots` messages of `inline_size` bytes with their headers.
    Backchannel(SvcTransport& transport, std::uint32_t slots, std::span<std::byte> sends,
                std::uint32_t inline_size);
    ~Backchannel() override;
    Backchannel(const Backchannel&) = delete;
    Backchannel& operator=(const Backchannel&) = delete;

    Loop& loop() noexcept override;
    const sunrpc::XprtLimits& limits() const noexcept override { return limits_; }
    Result<sunrpc::Rqst*> get_rqst(std::uint32_t call_max) noexcept override;
    void put_rqst(sunrpc::Rqst& rqst) noexcept override;
    Result<sunrpc::Payload> get_payload(std::uint32_t bytes) noexcept override;
    Result<void> send(sunrpc::Rqst& rqst) noexcept override;
    void on_slot(void (*wake)(void*) noexcept, void* arg) noexcept override;
    bool connected() const noexcept override;
    void close() noexcept override;  // the whole connection
    void release_payload(void*) noexcept override {}

    // The connection is open, and this is what both ends may send.
    void on_open(const rpcrdma::InlineLimits& limits) noexcept;
    // Whether `frame` is a reply to a backward call, or RDMA_ERROR, which answers nothing else
    // here.
    static bool is_ours(std::span<const std::byte> frame) noexcept;
    void take_frame(std::span<const std::byte> frame) noexcept;  // that is ours
    // Every completion was polled and every posting refused: what is pending ends.
    void on_end() noexcept;
    // Somebody waits for a reply.
    bool busy() const noexcept;
    bool idle() const noexcept { return free_.size() == slot_count_; }
    const BackchannelCounters& counters() const noexcept { return counters_; }

  private:
    enum class SlotState : std::uint8_t { free, taken, waiting, posted, completed };
    struct Slot : sunrpc::Rqst, verbs::Cqe, pools::Posting {
        Backchannel* home = nullptr;
        SlotState state = SlotState::free;
        bool abandoned = false, send_done = false;
        std::uint64_t since_ns = 0;             // when it was posted, or abandoned after that
        std::optional<std::uint32_t> answered;  // the XID whose reply it took last
        std::optional<Result<void>> outcome;
        std::span<std::byte> memory;  // header, then the call
        std::unique_ptr<std::byte[]> reply_room;
        verbs::Sge sge;
        verbs::SendWr wr;
    };
    struct PumpTask : Task {
        using Task::Task;
        Backchannel* home = nullptr;
    };
    struct StallTimer : Timer {
        using Timer::Timer;
        Backchannel* home = nullptr;
    };
    static void on_pump(Task& task) noexcept;
    static void on_stall(Timer& timer) noexcept;
    void watch(Slot& slot) noexcept;
    static void on_posted(pools::Posting& posting, Result<void> result) noexcept;
    static void on_sent(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    Slot* find(std::uint32_t xid) noexcept;    // posted, and without an outcome
    bool forgive(std::uint32_t xid) noexcept;  // a second reply to a call, once
    void schedule() noexcept;
    void pump() noexcept;
    void post(Slot& slot) noexcept;
    void finish(Slot& slot) noexcept;
    void release(Slot& slot) noexcept;
    void wake_callers() noexcept;

    SvcTransport& transport_;
    const std::uint32_t slot_count_, inline_size_;
    std::unique_ptr<Slot[]> slots_;
    sunrpc::XprtLimits limits_;
    rpcrdma::CreditWindow credits_;
    List<sunrpc::Rqst, sunrpc::Rqst> free_, waiting_;
    PumpTask pump_;
    StallTimer stall_;
    bool open_ = false;
    bool wanted_ = false;  // somebody was told `again`
    void (*wake_)(void*) noexcept = nullptr;
    void* wake_arg_ = nullptr;
    BackchannelCounters counters_;
};

}  // namespace nfsrdma::svcrdma
