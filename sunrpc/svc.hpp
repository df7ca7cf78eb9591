#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/loop.hpp"
#include "sunrpc/auth.hpp"
#include "sunrpc/binding.hpp"
#include "sunrpc/reply_cache.hpp"
#include "sunrpc/rpc_msg.hpp"
#include "sunrpc/svc_stats.hpp"
#include "sunrpc/xprt.hpp"

// RPC dispatch: programs, versions and procedures as tables; every error that RFC 5531 names.
namespace nfsrdma::sunrpc {

struct SvcCall;
class SvcDispatcher;

struct SvcProcedure {
    ProcInfo info;
    // Called with decoded arguments and zeroed results. Must call SvcCall::reply or fail or drop
    // exactly once, now or later, on the loop.
    void (*handle)(SvcCall& call) noexcept = nullptr;
    // Asked on the loop before `handle`: whether it may have to wait, for storage say. Then
    // `handle` runs on a helper thread of the loop, where it must end the call before it returns
    // and reaches the transport by no other way. nullptr: it never waits.
    bool (*may_block)(SvcCall& call) noexcept = nullptr;
    // Presets pointers in the (zeroed) argument struct so that decoding allocates nothing; `room`
    // is the call's own buffer of at least SvcProgram::preset_bytes, 16-byte aligned. It presets
    // every pointer, but leaves null that of `info.arg_item` when that is an `opaque<>` (decoded in
    // place). A buffer has the bound of the .x file; for a string one byte more. nullptr: libtirpc
    // allocates, and xdr_free frees after the reply.
    void (*preset)(void* args, std::span<std::byte> room) noexcept = nullptr;
    // Not to be executed twice: a copy of a call is answered from the dispatcher's ReplyCache. Its
    // results are small and have no payload.
    bool once = false;
    // The results begin with a status word whose 0 is success: what else is counted as an error.
    bool has_status = false;
};

struct SvcProgram {
    std::uint32_t prog = 0, vers = 0;
    std::span<const SvcProcedure> procedures;  // by number; an entry without a name is PROC_UNAVAIL
    std::uint32_t args_bytes = 0, res_bytes = 0, preset_bytes = 0;  // the largest of its procedures
    void* context = nullptr;  // the program's own, e.g. nfs::Server
};

// The helper threads' part of a call.
struct SvcWork : BlockingWork {
    using Step = void (*)(SvcCall& call) noexcept;
    SvcCall* call = nullptr;
    Step away = nullptr, back = nullptr;
};

enum class SvcEnding : std::uint8_t { none, reply, fail, drop };

struct SvcCall;

// A copy of a call that is being executed looks again now and then.
struct SvcRetry final : Timer {
    SvcRetry() noexcept;
    SvcCall* call = nullptr;
};

// One call at the server, in its request's scratch.
struct SvcCall {
    SvcRqst* rqst = nullptr;
    const SvcProgram* program = nullptr;
    const SvcProcedure* procedure = nullptr;
    std::uint32_t proc_number = 0;
    AuthFlavor flavor = AuthFlavor::none;
    AuthSys sys;  // flavor == sys
    void* args = nullptr;
    void* res = nullptr;
    // Runs when memory came back after get_result_payload said `again`; set by the handler that
    // waits.
    void (*wake)(SvcCall& call) noexcept = nullptr;
    std::array<std::byte, 512> handler_state{};  // the handler's own, e.g. a FileOp

    // Where a DDP result's bytes are to be read into, without a copy later: at most `bytes` of it.
    // Errc::again: `wake` tells when to ask once more. Errc::too_big. A DDP result that lies
    // elsewhere is encoded inline (a string is copied into such memory when the client offered a
    // place for it).
    Result<std::span<std::byte>> get_result_payload(std::uint32_t bytes) noexcept;
    // Runs `away` on a helper thread of the loop, where it may wait, and then `back` on the loop.
    // For a handler on the loop; `away` does not end the call. One at a time. Calls of one
    // `storage` take at most half of the threads, so that one that is slow, or gone, leaves the
    // others to the rest; connections take turns.
    void leave_loop(SvcWork::Step away, SvcWork::Step back) noexcept;
    // Each of the three ends the call: the SvcCall, its arguments and its results are gone when it
    // returns. What the handler hung into `res` is the handler's to free, after reply().
    void reply() noexcept;                          // SUCCESS with `res`
    void fail(std::uint32_t accept_stat) noexcept;  // SYSTEM_ERR, GARBAGE_ARGS
    void drop() noexcept;

    // The dispatcher's own.
    SvcDispatcher* dispatcher = nullptr;
    std::span<std::byte> granted;  // by get_result_payload
    bool arg_item_borrowed = false;
    const void* storage = nullptr;  // what it may wait for; set by may_block and by the handler
    bool off_loop = false;  // the handler runs on a helper thread: how it ends is kept for the loop
    SvcEnding ending = SvcEnding::none;
    AcceptStat ending_stat = AcceptStat::success;
    std::uint32_t copied_bytes = 0;  // of its payload, by encoding
    SvcWork work;
    ReplyCache::Entry* once = nullptr;  // where its reply is kept
    std::uint64_t began_ns = 0;
    SvcRetry retry;
};

struct SvcCounters {
    std::uint64_t calls = 0, replies = 0, bad_calls = 0, dropped = 0, auth_errors = 0,
                  prog_unavail = 0, garbage_args = 0, off_loop = 0;
    std::uint64_t payload_copied_bytes = 0;
};

// The Service that transports call. Programs are added before it is used; they outlive it.
class SvcDispatcher final : public Service {
  public:
    // Not twice the same program and version.
    void add(const SvcProgram& program);
    std::uint32_t scratch_bytes() const noexcept override;
    void dispatch(SvcRqst& rqst) noexcept override;
    void wake(SvcRqst& rqst) noexcept override;
    SvcCounters& counters() noexcept { return counters_; }
    // For procedures that are to be executed once; shared with other dispatchers, and outlives this
    // one. nullptr: every copy is executed.
    void set_reply_cache(ReplyCache* cache) noexcept { reply_cache_ = cache; }
    // How many helper threads its loop has (LoopOptions::blocking_threads).
    void set_helper_threads(std::uint32_t count) noexcept {
        lane_limit_ = count < 2 ? 1 : count / 2;
    }
    std::span<const SvcProgram> programs() const noexcept { return programs_; }
    // Of programs()[index], by procedure number. Read on the loop's thread.
    std::span<const ProcStats> stats(std::size_t index) const noexcept { return stats_[index]; }

  private:
    friend struct SvcLeaf;
    friend struct SvcCall;
    std::vector<SvcProgram> programs_;
    std::vector<std::vector<ProcStats>> stats_;  // of each
    ReplyCache* reply_cache_ = nullptr;
    SvcCounters counters_;
    // Work of one storage, as far as there are lanes: two may share one.
    // Of a lane, what waits for one connection: two may share one.
    struct Flow : ListHook<Flow> {
        List<SvcWork, BlockingWork> works;
    };
    static constexpr std::size_t kLanes = 61, kFlows = 16;
    struct Lane {
        std::uint32_t out = 0;
        std::array<Flow, kFlows> flows;
        List<Flow, Flow> turns;  // those that have works, whose turn it is first
        void push(SvcWork& work) noexcept;
        SvcWork& pop() noexcept;
    };
    Lane& lane_of(const void* storage) noexcept;
    std::array<Lane, kLanes> lanes_;
    std::uint32_t lane_limit_ = 1;
    // The largest of all programs.
    std::uint32_t args_bytes_ = 0, res_bytes_ = 0, preset_bytes_ = 0;
};

}  // namespace nfsrdma::sunrpc
