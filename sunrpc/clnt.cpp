// Operation. call() takes a slot of the transport, encodes header and arguments into it, and sends
// it; without a slot the call waits in FIFO order. The reply comes by ClntLeaf::on_complete, is
// decoded there, and the caller is told.
//
// Ownership. (1) A Call belongs to the client from call() until `done` runs, asserted by
// Call::clnt. (2) It is in the queue or has a slot or waits to be told its failure, never two of
// these. (3) The slot goes back before `done` runs, unless `res` points into the reply message;
// then right afterwards.
//
// Errors. A reply that does not decode fails its call alone (Errc::bad_message); the transport sees
// to the connection.
#include "sunrpc/clnt.hpp"

#include <array>
#include <cstring>
#include <optional>
#include <sys/random.h>

#include "base/bytes.hpp"
#include "sunrpc/rpc_msg.hpp"
#include "sunrpc/xdr_stream.hpp"

namespace nfsrdma::sunrpc {
namespace {

constexpr std::uint32_t kArgsMaxDefault = 1024;  // of procedures that name no bound
constexpr std::uint32_t kReplyMaxDefault = 1024;
// A reply header: XID, type, status, empty verifier, accept status, and the two versions of a
// mismatch.
constexpr std::uint32_t kReplyHeaderUsual = 32;

RpcStatus status_of(const ReplyHeader& header) noexcept {
    if (!header.accepted) {
        return header.reject == RejectStat::rpc_mismatch ? RpcStatus::rpc_mismatch
                                                         : RpcStatus::auth_error;
    }
    switch (header.accept) {
        case AcceptStat::success:
            return RpcStatus::success;
        case AcceptStat::prog_unavail:
            return RpcStatus::prog_unavail;
        case AcceptStat::prog_mismatch:
            return RpcStatus::prog_mismatch;
        case AcceptStat::proc_unavail:
            return RpcStatus::proc_unavail;
        case AcceptStat::garbage_args:
            return RpcStatus::garbage_args;
        case AcceptStat::system_err:
            return RpcStatus::system_err;
    }
    return RpcStatus::not_answered;
}

std::uint32_t random_xid() noexcept {
    std::uint32_t xid = 0;
    // A client that starts anew must not reuse the XIDs of the one before: a server may still
    // remember those.
    if (::getrandom(&xid, sizeof xid, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof xid)) {
        xid = static_cast<std::uint32_t>(RealClock{}.now_ns());
    }
    return xid;
}

}  // namespace

struct ClntLeaf {
    // Whose credentials a call goes with; nullptr: AUTH_NONE.
    static const AuthSys* sys_of(const Clnt& clnt, const Call& call) noexcept {
        if (call.sys != nullptr) return call.sys;
        return clnt.has_sys_ ? &clnt.sys_ : nullptr;
    }
    static std::uint32_t args_max(const Call& call) noexcept {
        const std::uint32_t most =
            call.proc->args_max != nullptr ? call.proc->args_max(call.args) : kArgsMaxDefault;
        return most + (call.args_in_payload ? 0 : inline_item_size(call));
    }
    // Of the item that is encoded with the rest, its pad included.
    static std::uint32_t inline_item_size(const Call& call) noexcept {
        const DdpItem& item = call.proc->arg_item;
        if (!item.exists()) return 0;
        if (item.string_bound == 0) return kArgsMaxDefault;
        const char* text = nullptr;
        std::memcpy(&text, static_cast<const char*>(call.args) + item.pointer_offset, sizeof text);
        if (text == nullptr) return 0;
        return align_up(static_cast<std::uint32_t>(::strnlen(text, item.string_bound)), 4);
    }
    // The memory in which its payload lies, or nullptr.
    static const std::byte* payload_of(const Call& call) noexcept {
        const DdpItem& item = call.proc->arg_item;
        if (!call.args_in_payload || !item.exists()) return nullptr;
        const std::byte* memory = nullptr;
        std::memcpy(&memory, static_cast<const char*>(call.args) + item.pointer_offset,
                    sizeof memory);
        return memory;
    }
    // Of the reply, as far as nothing else is offered for it.
    static std::uint32_t reply_max(const Call& call) noexcept {
        const ProcInfo& proc = *call.proc;
        std::uint32_t most = kReplyHeaderUsual;
        most += proc.reply_max != nullptr ? proc.reply_max(call.args) : kReplyMaxDefault;
        if (call.result_room.empty() && proc.res_item.exists() && proc.result_item_max != nullptr) {
            most += align_up(proc.result_item_max(call.args), 4);
        }
        return most;
    }

    static Result<void> encode(Clnt& clnt, Call& call, Rqst& rqst) noexcept {
        CallHeader header;
        header.xid = rqst.xid = clnt.next_xid_++;
        header.prog = clnt.prog_;
        header.vers = clnt.vers_;
        header.proc = call.proc_number;
        NR_TRY_ASSIGN(const std::uint32_t used,
                      encode_call(rqst.head_room, header, sys_of(clnt, call)));
        XdrEncodeStream stream(rqst.head_room, used);
        if (call.args_in_payload) stream.set_item(call.proc->arg_item, call.args);
        // xdrproc_t takes void*, and XDR routines do not write while they encode.
        void* const args = bytes_at(address_of(call.args));
        if (call.proc->xdr_args(stream.xdr(), args) == FALSE || stream.failed()) {
            return Error{Errc::invalid_argument, 0, "encode RPC arguments"};
        }
        rqst.call = stream.message();
        rqst.ddp_allowed = true;
        rqst.reply_max = reply_max(call);
        rqst.result_room = call.result_room;
        rqst.complete = on_complete;
        rqst.user = &call;
        return {};
    }

    // Takes a slot and sends.
    static Result<void> start(Clnt& clnt, Call& call) noexcept {
        const std::uint32_t size = call_header_size(sys_of(clnt, call)) + args_max(call);
        NR_TRY_ASSIGN(Rqst* const rqst,
                      clnt.xprt_.get_rqst_with(size, payload_of(call), call.result_room.data()));
        Result<void> sent = encode(clnt, call, *rqst);
        if (clnt.observer_.ended != nullptr) {
            call.sent_ns = clnt.xprt_.loop().now_ns();
            call.bytes_out = rqst->call.length();
        }
        if (sent) sent = clnt.xprt_.send(*rqst);
        if (!sent) {
            clnt.xprt_.put_rqst(*rqst);
            return sent;
        }
        call.rqst = rqst;
        return {};
    }

    static void wait(Clnt& clnt, Call& call) noexcept {
        clnt.waiting_.push_back(call);
        ++clnt.counters_.waited_for_slot;
        clnt.xprt_.wait_for_slot(clnt.waiter_);
    }

    static void arm(Clnt& clnt, Call& call) noexcept {
        Loop& loop = clnt.xprt_.loop();
        const std::uint64_t now = loop.now_ns();
        loop.arm(call.timer,
                 call.timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + call.timeout_ns);
    }

    static void fail_later(Clnt& clnt, Call& call, const Error& error) noexcept {
        call.failure = error;
        clnt.xprt_.loop().arm(call.timer, clnt.xprt_.loop().now_ns());
    }

    static void finish(Call& call, Result<void> result) noexcept {
        Clnt& clnt = *call.clnt;
        clnt.xprt_.loop().disarm(call.timer);
        NR_ASSERT(!call.linked() && clnt.pending_ != 0);
        --clnt.pending_;
        clnt.counters_.resends += call.resends;
        call.clnt = nullptr;
        call.rqst = nullptr;
        if (result) {
            ++clnt.counters_.replies;
        } else {
            ++clnt.counters_.errors;
        }
        if (clnt.observer_.ended != nullptr) clnt.observer_.ended(clnt.observer_.arg, call, result);
        call.done(call, result);
    }

    static void on_timer(Timer& timer) noexcept {
        Call& call = static_cast<CallTimer&>(timer).call;
        if (!call.failure) {
            finish(call, call.failure);
            return;
        }
        ++call.clnt->counters_.timeouts;
        give_up(call, Error{Errc::timed_out, 0, "wait for RPC reply"});
    }

    static void give_up(Call& call, const Error& error) noexcept {
        Clnt& clnt = *call.clnt;
        if (call.linked()) clnt.waiting_.erase(call);
        if (call.rqst != nullptr) {
            call.resends = call.rqst->resends;
            clnt.xprt_.put_rqst(*call.rqst);
        }
        finish(call, error);
    }

    static void on_wake(SlotWaiter& waiter) noexcept {
        Clnt& clnt = *static_cast<Clnt::Waiter&>(waiter).clnt;
        // With several connections one call may have to wait for its own, and others need not. The
        // list is gone round once, and so keeps its order.
        const bool several = clnt.xprt_.connections() > 1;
        for (std::uint32_t left = clnt.waiting_.size(); left != 0 && !clnt.waiting_.empty();
             --left) {
            Call& call = clnt.waiting_.front();
            const Result<void> started = start(clnt, call);
            if (!started && started.error().code == Errc::again) {
                clnt.xprt_.wait_for_slot(clnt.waiter_);
                if (!several) break;
                clnt.waiting_.erase(call);
                clnt.waiting_.push_back(call);
                continue;
            }
            clnt.waiting_.erase(call);
            // Told later: this may run below a caller's own put_rqst or release of a payload.
            if (!started) fail_later(clnt, call, started.error());
        }
    }

    // Who has waited longest has the slot that a new call would take otherwise, for who calls again
    // as soon as it was answered would always be first. As many as may still be waiting for their
    // own connections are passed over, and keep their places.
    static void start_waiting(Clnt& clnt) noexcept {
        constexpr std::size_t kPassedOver = 32;
        std::array<Call*, kPassedOver> passed;
        std::size_t count = 0;
        while (count < kPassedOver && !clnt.waiting_.empty()) {
            Call& call = clnt.waiting_.pop_front();
            const Result<void> started = start(clnt, call);
            if (!started && started.error().code == Errc::again) {
                passed[count++] = &call;
            } else if (!started) {
                fail_later(clnt, call, started.error());
            }
        }
        while (count != 0)
            clnt.waiting_.push_front(*passed[--count]);
    }

    static void on_complete(Rqst& rqst, Result<void> result) noexcept {
        Call& call = *static_cast<Call*>(rqst.user);
        Xprt& xprt = call.clnt->xprt_;
        call.resends = rqst.resends;
        call.bytes_in = rqst.reply.length();
        bool res_in_message = false;
        if (result) result = decode(*call.clnt, call, rqst, res_in_message);
        if (!res_in_message) xprt.put_rqst(rqst);
        finish(call, result);
        if (res_in_message) xprt.put_rqst(rqst);
    }

    static Result<void> decode(Clnt& clnt, Call& call, Rqst& rqst, bool& res_in_message) noexcept {
        ReplyHeader header;
        NR_TRY(decode_reply(rqst.reply.head, header));
        if (header.xid != rqst.xid) return Error{Errc::bad_message, 0, "XID of RPC reply"};
        call.status = status_of(header);
        call.mismatch_low = header.low;
        call.mismatch_high = header.high;
        call.auth_stat = static_cast<std::uint32_t>(header.auth);
        if (call.status != RpcStatus::success) return Error{Errc::refused, 0, "RPC reply"};
        return decode_results(clnt, call, rqst, header.size, res_in_message);
    }

    static Result<void> decode_results(Clnt& clnt, Call& call, Rqst& rqst, std::uint32_t begin,
                                       bool& res_in_message) noexcept {
        XdrDecodeStream stream(rqst.reply, XdrDecodeStream::kByBinding);
        stream.skip(begin);
        stream.set_item(call.proc->res_item, call.res, call.result_room);
        const bool decoded = call.proc->xdr_res(stream.xdr(), call.res) != FALSE;
        clnt.counters_.payload_copied_bytes += stream.payload_copied();
        // The count in the reply and the bytes placed must agree: failed() says so too (cases B07).
        if (!decoded || stream.failed()) {
            stream.clear_item();
            return Error{Errc::bad_message, 0, "decode RPC results"};
        }
        if (stream.payload_taken()) {
            call.result_placed = narrow<std::uint32_t>(rqst.reply.payload.size());
        }
        res_in_message = stream.in_place();
        return {};
    }
};

Call::Call() noexcept : timer(ClntLeaf::on_timer, *this) {}

const char* to_string(RpcStatus status) noexcept {
    switch (status) {
        case RpcStatus::success:
            return "success";
        case RpcStatus::prog_unavail:
            return "the server does not have this RPC program";
        case RpcStatus::prog_mismatch:
            return "the server has other versions of this RPC program";
        case RpcStatus::proc_unavail:
            return "the server does not have this procedure";
        case RpcStatus::garbage_args:
            return "the server could not decode the arguments";
        case RpcStatus::system_err:
            return "system error at the server";
        case RpcStatus::rpc_mismatch:
            return "the server speaks another version of ONC RPC";
        case RpcStatus::auth_error:
            return "the server refused the credentials";
        case RpcStatus::not_answered:
            return "not answered";
    }
    return "unknown";
}

Clnt::Clnt(Xprt& xprt, std::uint32_t prog, std::uint32_t vers, const AuthSys* sys) noexcept
    : xprt_(xprt), prog_(prog), vers_(vers), has_sys_(sys != nullptr), next_xid_(random_xid()) {
    if (sys != nullptr) sys_ = *sys;
    waiter_.clnt = this;
    waiter_.wake = ClntLeaf::on_wake;
}

Clnt::~Clnt() {
    NR_ASSERT(pending_ == 0);
    xprt_.stop_waiting(waiter_);
}

Result<void> Clnt::call(Call& call) noexcept {
    NR_ASSERT(call.clnt == nullptr && call.proc != nullptr && call.done != nullptr);
    const std::uint32_t string_bound = call.proc->res_item.string_bound;
    if (string_bound != 0 && !call.result_room.empty() && call.result_room.size() <= string_bound) {
        return Error{Errc::invalid_argument, 0, "room for a string result"};
    }
    call.status = RpcStatus::not_answered;
    call.mismatch_low = call.mismatch_high = call.auth_stat = call.result_placed = 0;
    call.resends = 0;
    call.sent_ns = call.bytes_out = call.bytes_in = 0;
    if (observer_.ended != nullptr) call.called_ns = xprt_.loop().now_ns();
    call.failure = Result<void>{};
    call.rqst = nullptr;

    if (!waiting_.empty() && xprt_.connections() > 1) ClntLeaf::start_waiting(*this);
    const bool must_queue = !waiting_.empty() && xprt_.connections() == 1;
    const Result<void> started = must_queue ? Result<void>(Error{Errc::again, 0, "RPC queue"})
                                            : ClntLeaf::start(*this, call);
    if (!started &&
        (started.error().code == Errc::too_big || started.error().code == Errc::invalid_argument)) {
        return started;
    }
    call.clnt = this;
    ++pending_;
    ++counters_.calls;
    if (started) {
        ClntLeaf::arm(*this, call);
    } else if (started.error().code == Errc::again) {
        ClntLeaf::arm(*this, call);
        ClntLeaf::wait(*this, call);
    } else {
        ClntLeaf::fail_later(*this, call, started.error());
    }
    return {};
}

Result<void> Clnt::call_and_wait(Call& call) noexcept {
    std::optional<Result<void>> outcome;
    call.user = &outcome;
    call.done = [](Call& ended, Result<void> result) noexcept {
        static_cast<std::optional<Result<void>>*>(ended.user)->emplace(result);
    };
    NR_TRY(this->call(call));
    while (!outcome)
        (void)xprt_.loop().run_once(kNsPerSec);
    return *outcome;
}

void Clnt::cancel(Call& call) noexcept {
    NR_ASSERT(call.clnt == this);
    ClntLeaf::give_up(call, Error{Errc::closed, 0, "RPC cancelled"});
}

}  // namespace nfsrdma::sunrpc
