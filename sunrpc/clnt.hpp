#pragma once
#include <cstdint>
#include <span>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "base/result.hpp"
#include "sunrpc/auth.hpp"
#include "sunrpc/binding.hpp"
#include "sunrpc/xprt.hpp"

// An asynchronous RPC client of one program and version over one Xprt. Single loop; no allocation
// per call.
namespace nfsrdma::sunrpc {

class Clnt;

// What the reply said when it was not success (RFC 5531 s9).
enum class RpcStatus : std::uint8_t {
    success,
    prog_unavail,
    prog_mismatch,
    proc_unavail,
    garbage_args,
    system_err,  // accepted
    rpc_mismatch,
    auth_error,    // denied
    not_answered,  // see the Result
};
const char* to_string(RpcStatus status) noexcept;

struct Call;

// The timer of one call knows its call.
struct CallTimer final : Timer {
    CallTimer(Fire fire_at, Call& owner) noexcept : Timer(fire_at), call(owner) {}
    Call& call;
};

// One call, in the caller's own object until `done` ran. Fill in the first part, Clnt::call it,
// read the second in `done`.
struct Call : ListHook<Call> {
    Call() noexcept;
    const ProcInfo* proc = nullptr;
    std::uint32_t proc_number = 0;
    const void* args = nullptr;  // alive until `done`
    // The DDP item of `args` lies in a Payload of the Xprt, or in memory registered with it, and is
    // not copied; false: it is encoded with the rest.
    bool args_in_payload = true;
    void* res = nullptr;  // decoded into; preset or zeroed by the caller
    // Where a DDP result is to be placed: in a Payload, or registered memory, of the Xprt; a string
    // needs its bound and a byte more. Empty: none is offered, and the item stays in the message.
    std::span<std::byte> result_room;
    // Whose credentials it goes with; lives until `done`. nullptr: the Clnt's own.
    const AuthSys* sys = nullptr;
    std::uint64_t timeout_ns = 60 * kNsPerSec;
    void* user = nullptr;
    // Runs once, on the loop, never from inside call(). `result` fails when no valid reply came
    // (Errc::timed_out, reconnect, bad_message, closed) or `status` is not success (Errc::refused).
    // Pointers in `res` that point into the reply message are valid during `done` only. What
    // libtirpc allocated in `res` is the caller's to xdr_free, also when decoding failed midway;
    // the slot of the DDP item is then null unless the caller preset it.
    void (*done)(Call& call, Result<void> result) noexcept = nullptr;

    RpcStatus status = RpcStatus::not_answered;
    std::uint32_t mismatch_low = 0, mismatch_high = 0;  // prog_mismatch, rpc_mismatch
    std::uint32_t auth_stat = 0;
    std::uint32_t result_placed = 0;  // bytes of result_room that came by RDMA
    // How often the transport sent it again, with the same XID, on another connection: above 0, the
    // server may have executed it before, and a restarted one does not remember that.
    std::uint32_t resends = 0;

    // Measured where the Clnt has an observer: when it was called, when it went to the transport
    // (0: not at all), and the bytes of its messages with their payloads.
    std::uint64_t called_ns = 0, sent_ns = 0;
    std::uint64_t bytes_out = 0, bytes_in = 0;

    // Clnt's own.
    Clnt* clnt = nullptr;
    Rqst* rqst = nullptr;
    Result<void> failure;  // to be told when the timer fires; success: time is out
    CallTimer timer;
};

// Told of each call that has ended, right before its `done`: for statistics.
struct CallObserver {
    void (*ended)(void* arg, const Call& call, const Result<void>& result) noexcept = nullptr;
    void* arg = nullptr;
};

struct ClntCounters {
    std::uint64_t calls = 0, replies = 0, timeouts = 0, errors = 0, waited_for_slot = 0;
    std::uint64_t payload_copied_bytes = 0;
    std::uint64_t resends = 0;  // of calls that ended: Call::resends
};

class Clnt {
  public:
    Clnt(Xprt& xprt, std::uint32_t prog, std::uint32_t vers,
         const AuthSys* sys) noexcept;  // nullptr: AUTH_NONE
    ~Clnt();                            // no call may be pending
    Clnt(const Clnt&) = delete;
    Clnt& operator=(const Clnt&) = delete;
    // Queues when no slot is free. Errors come back by `done` only, but for Errc::too_big and
    // Errc::invalid_argument (arguments do not encode), which come back here, without `done`, when
    // the call need not queue.
    Result<void> call(Call& call) noexcept;
    // Calls and runs the loop until the answer is there; Call::done and user are not used. For
    // programs that have nothing else to do meanwhile; not from inside a callback of the loop.
    // Other calls go on, and their `done` run. The errors are those that `done` would be told.
    Result<void> call_and_wait(Call& call) noexcept;
    // Answers the caller at once with Errc::closed; the slot comes back by itself.
    void cancel(Call& call) noexcept;
    void observe(const CallObserver& observer) noexcept { observer_ = observer; }
    Xprt& xprt() noexcept { return xprt_; }
    const ClntCounters& counters() const noexcept { return counters_; }
    std::uint32_t pending() const noexcept { return pending_; }

  private:
    friend struct ClntLeaf;
    Xprt& xprt_;
    std::uint32_t prog_, vers_;
    bool has_sys_ = false;
    AuthSys sys_;
    std::uint32_t next_xid_;
    std::uint32_t pending_ = 0;
    List<Call, Call> waiting_;
    struct Waiter final : SlotWaiter {
        Clnt* clnt = nullptr;
    } waiter_;
    ClntCounters counters_;
    CallObserver observer_;
};

}  // namespace nfsrdma::sunrpc
