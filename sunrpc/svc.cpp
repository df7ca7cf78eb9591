// Operation. dispatch() reads the call header, finds program, version and procedure, lays a SvcCall
// into the request's scratch, decodes the arguments and calls the handler. The handler ends the
// call now or later, on the loop. A handler that may wait runs on a helper thread instead: it
// encodes its reply there, and the loop ends the call when it is back.
//
// Ownership. (1) The request is the service's from dispatch() until it calls SvcXprt::reply or
// drop, which end_call() does last: after that the scratch may be another call's. (2) Arguments
// that libtirpc allocated are freed by free_args(), exactly once, with the slot of a borrowed item
// nulled first; preset arguments own nothing. (3) While its work is out a call is the helper
// thread's: the loop touches neither it nor its request before `back`, and the transport keeps the
// request, whatever becomes of the connection, until it is answered.
//
// Errors. A bad call is answered as RFC 5531 s9 says, or dropped when not even that can be told
// from it. None of it ends the connection or the process.
#include "sunrpc/svc.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/bytes.hpp"
#include "sunrpc/xdr_stream.hpp"

namespace nfsrdma::sunrpc {
namespace {

constexpr std::uint32_t kAlign = 64;
constexpr std::uint64_t kRetryNs = 2 * kNsPerMs;
constexpr std::uint32_t kCallBytes = align_up(static_cast<std::uint32_t>(sizeof(SvcCall)), kAlign);

void load_slot(const void* object, const DdpItem& item, char*& out) noexcept {
    std::memcpy(&out, static_cast<const char*>(object) + item.pointer_offset, sizeof out);
}
void store_slot(void* object, const DdpItem& item, char* value) noexcept {
    std::memcpy(static_cast<char*>(object) + item.pointer_offset, &value, sizeof value);
}
bool lies_within(const char* address, std::span<const std::byte> memory) noexcept {
    return address_of(address) - address_of(memory.data()) < memory.size();
}

}  // namespace

struct SvcLeaf {
    static SvcCall& call_of(SvcRqst& rqst) noexcept {
        return *static_cast<SvcCall*>(static_cast<void*>(rqst.scratch.data()));
    }

    // A reply that is nothing but a header.
    static void answer(SvcRqst& rqst, const ReplyHeader& header) noexcept {
        Result<std::uint32_t> size = encode_reply(rqst.res_room, header);
        NR_ASSERT(static_cast<bool>(size));  // a transport's room takes a header
        rqst.res = XdrBuf{};
        rqst.res.head = rqst.res_room.first(*size);
        rqst.result_is_ddp = false;
        rqst.xprt->reply(rqst);
    }
    static void answer(SvcRqst& rqst, AcceptStat accept, std::uint32_t low = 0,
                       std::uint32_t high = 0) noexcept {
        ReplyHeader header;
        header.xid = rqst.xid;
        header.accept = accept;
        header.low = low;
        header.high = high;
        answer(rqst, header);
    }
    static void deny(SvcDispatcher& self, SvcRqst& rqst, AuthStat auth) noexcept {
        ++self.counters_.auth_errors;
        ReplyHeader header;
        header.xid = rqst.xid;
        header.accepted = false;
        header.reject = RejectStat::auth_error;
        header.auth = auth;
        answer(rqst, header);
    }
    static void drop(SvcDispatcher& self, SvcRqst& rqst) noexcept {
        ++self.counters_.dropped;
        rqst.xprt->drop(rqst);
    }

    static void answer_fault(SvcDispatcher& self, SvcRqst& rqst, CallFault fault) noexcept {
        ++self.counters_.bad_calls;
        switch (fault) {
            case CallFault::none:
            case CallFault::drop:
                rqst.xprt->note_garbage();
                drop(self, rqst);
                return;
            case CallFault::rpc_mismatch: {
                ReplyHeader header;
                header.xid = rqst.xid;
                header.accepted = false;
                header.low = header.high = kRpcVersion;
                answer(rqst, header);
                return;
            }
            case CallFault::bad_cred:
                deny(self, rqst, AuthStat::bad_cred);
                return;
            case CallFault::rejected_cred:
                deny(self, rqst, AuthStat::rejected_cred);
                return;
            case CallFault::bad_verf:
                deny(self, rqst, AuthStat::bad_verf);
                return;
            case CallFault::too_weak:
                deny(self, rqst, AuthStat::too_weak);
                return;
            case CallFault::garbage:
                ++self.counters_.garbage_args;
                rqst.xprt->note_garbage();
                answer(rqst, AcceptStat::garbage_args);
                return;
        }
    }

    // The program and version of the call; nullptr when it was answered instead.
    static const SvcProgram* find(SvcDispatcher& self, SvcRqst& rqst,
                                  const CallHeader& header) noexcept {
        std::uint32_t low = UINT32_MAX, high = 0;
        for (const SvcProgram& program : self.programs_) {
            if (program.prog != header.prog) continue;
            if (program.vers == header.vers) return &program;
            low = std::min(low, program.vers);
            high = std::max(high, program.vers);
        }
        ++self.counters_.prog_unavail;
        if (low <= high) {
            answer(rqst, AcceptStat::prog_mismatch, low, high);
        } else {
            answer(rqst, AcceptStat::prog_unavail);
        }
        return nullptr;
    }

    static SvcCall& lay_out(SvcDispatcher& self, SvcRqst& rqst, const SvcProgram& program,
                            const CallHeader& header) noexcept {
        NR_ASSERT(rqst.scratch.size() >= self.scratch_bytes());
        NR_ASSERT(address_of(rqst.scratch.data()) % kAlign == 0);
        SvcCall& call = *std::construct_at(&call_of(rqst));
        call.rqst = &rqst;
        call.dispatcher = &self;
        call.program = &program;
        call.procedure = &program.procedures[header.proc];
        call.proc_number = header.proc;
        call.began_ns = rqst.xprt->loop().now_ns();
        call.flavor = header.flavor;
        if (header.flavor == AuthFlavor::sys) call.sys = header.sys;
        call.args = rqst.scratch.data() + kCallBytes;
        call.res = rqst.scratch.data() + kCallBytes + self.args_bytes_;
        std::memset(call.args, 0, call.procedure->info.args_size);
        std::memset(call.res, 0, call.procedure->info.res_size);
        return call;
    }

    static bool decode_args(SvcDispatcher& self, SvcCall& call, std::uint32_t begin) noexcept {
        const SvcProcedure& procedure = *call.procedure;
        if (procedure.preset != nullptr) {
            std::byte* const room =
                call.rqst->scratch.data() + kCallBytes + self.args_bytes_ + self.res_bytes_;
            procedure.preset(call.args, {room, self.preset_bytes_});
        }
        XdrDecodeStream stream(call.rqst->arg, call.rqst->payload_position);
        stream.skip(begin);
        stream.set_item(procedure.info.arg_item, call.args, {});
        const bool decoded = procedure.info.xdr_args(stream.xdr(), call.args) != FALSE;
        self.counters_.payload_copied_bytes += stream.payload_copied();
        // Bytes behind the arguments are ignored, as by other servers.
        if (decoded && !stream.failed()) {
            call.arg_item_borrowed =
                stream.in_place() || (stream.payload_taken() && stream.payload_copied() == 0);
            // Of an empty item no byte was asked for: its slot still points into the message, which
            // is not xdr_free's.
            if (!call.arg_item_borrowed && procedure.preset == nullptr) stream.clear_item();
            return true;
        }
        stream.clear_item();
        return false;
    }

    static void free_args(SvcCall& call) noexcept {
        if (call.procedure->preset != nullptr) return;
        if (call.arg_item_borrowed) store_slot(call.args, call.procedure->info.arg_item, nullptr);
        xdr_free(call.procedure->info.xdr_args, call.args);
    }

    // Ends the call: from here on there is only the request.
    static SvcRqst& end_call(SvcCall& call) noexcept {
        NR_ASSERT(call.rqst != nullptr);  // a call is ended once
        free_args(call);
        return *std::exchange(call.rqst, nullptr);
    }

    // A string result that lies in the handler's own memory goes to where the client offered room
    // for it.
    static void move_string(SvcCall& call) noexcept {
        const DdpItem& item = call.procedure->info.res_item;
        char* text = nullptr;
        load_slot(call.res, item, text);
        if (text == nullptr || lies_within(text, call.granted)) return;
        if (call.rqst->result_room == 0) return;
        // xdr_string takes the length by strlen, too. A union arm without the string leaves the
        // slot null, or shorter data that is no pointer: the caller's res is zeroed, so the arms of
        // errors do not reach the slot.
        const std::size_t size = std::strlen(text);
        if (size == 0 || size >= item.string_bound + std::size_t{1}) return;
        const auto bytes = static_cast<std::uint32_t>(size) + 1;
        if (!call.off_loop && !call.get_result_payload(bytes)) return;
        if (call.granted.size() < bytes) return;
        std::memcpy(call.granted.data(), text, bytes);
        call.copied_bytes = bytes - 1;
        store_slot(call.res, item, as_chars(call.granted.data()));
    }

    static bool encode_results(SvcCall& call) noexcept {
        SvcRqst& rqst = *call.rqst;
        const ProcInfo& info = call.procedure->info;
        ReplyHeader header;
        header.xid = rqst.xid;
        Result<std::uint32_t> used = encode_reply(rqst.res_room, header);
        if (!used) return false;
        if (info.res_item.exists() && !call.granted.empty()) {
            char* slot = nullptr;
            load_slot(call.res, info.res_item, slot);
            rqst.result_is_ddp = slot != nullptr && lies_within(slot, call.granted);
        }
        XdrEncodeStream stream(rqst.res_room, *used);
        if (rqst.result_is_ddp) stream.set_item(info.res_item, call.res);
        if (info.xdr_res(stream.xdr(), call.res) == FALSE || stream.failed()) return false;
        rqst.res = stream.message();
        rqst.result_is_ddp = !rqst.res.payload.empty();
        return true;
    }

    // True when `call` is the copy of one that was answered, and so is over, or of one that is
    // being executed. That one waits: its client has no other, if the connection of the first is
    // gone, and RC repeats nothing.
    static bool is_copy(SvcDispatcher& self, SvcCall& call, const CallHeader& header) noexcept {
        if (!call.procedure->once || self.reply_cache_ == nullptr) return false;
        SvcRqst& rqst = *call.rqst;
        const bool again = call.retry.call != nullptr;
        Loop& loop = rqst.xprt->loop();
        const ReplyCache::Found found = self.reply_cache_->begin(
            CallKey::of(rqst, header), loop.now_ns(), rqst.res_room, again);
        switch (found.verdict) {
            case ReplyCache::Verdict::fresh:
                call.once = found.entry;
                return false;
            case ReplyCache::Verdict::uncached:
                return false;
            case ReplyCache::Verdict::in_progress:
                call.retry.call = &call;
                loop.arm(call.retry, loop.now_ns() + kRetryNs);
                return true;
            case ReplyCache::Verdict::done:
                break;
        }
        SvcRqst& ended = end_call(call);
        ended.res = XdrBuf{};
        ended.res.head = ended.res_room.first(found.reply_bytes);
        ended.result_is_ddp = false;
        ++self.counters_.replies;
        ended.xprt->reply(ended);
        return true;
    }
    static void on_retry(Timer& timer) noexcept {
        SvcCall& call = *static_cast<SvcRetry&>(timer).call;
        CallHeader header;
        const CallFault fault = decode_call(call.rqst->arg.head, header);
        NR_ASSERT(fault == CallFault::none);  // it was decoded when it came
        // Its client has the first, or comes again: what it holds of its connection goes home.
        if (call.rqst->xprt->closing()) return drop(*call.dispatcher, end_call(call));
        if (!is_copy(*call.dispatcher, call, header)) handle(call);
    }

    // Keeps the reply of a call that is to be executed once. One that failed before it was executed
    // may come again.
    static void keep_reply(SvcCall& call, SvcEnding ending) noexcept {
        if (call.once == nullptr) return;
        ReplyCache& cache = *call.dispatcher->reply_cache_;
        ReplyCache::Entry& entry = *std::exchange(call.once, nullptr);
        const XdrBuf& res = call.rqst->res;
        if (ending == SvcEnding::reply && res.payload.empty() && res.tail.empty()) {
            cache.finish(entry, res.head, call.rqst->xprt->loop().now_ns());
        } else {
            cache.forget(entry);
        }
    }

    static void count(SvcCall& call, SvcEnding ending) noexcept {
        SvcDispatcher& self = *call.dispatcher;
        if (ending == SvcEnding::drop) return;
        constexpr std::size_t kStatusAt = 24;  // behind the header of a reply of SUCCESS
        const auto index = static_cast<std::size_t>(call.program - self.programs_.data());
        ProcStats& stats = self.stats_[index][call.proc_number];
        const SvcRqst& rqst = *call.rqst;
        bool ok = ending == SvcEnding::reply;
        if (ok && call.procedure->has_status && rqst.res.head.size() >= kStatusAt + 4)
            ok = load_be32(rqst.res.head.data() + kStatusAt) == 0;
        ++stats.calls;
        if (!ok) ++stats.errors;
        stats.bytes_in += rqst.arg.length();
        if (ending == SvcEnding::reply) stats.bytes_out += rqst.res.length();
        stats.latency.add(rqst.xprt->loop().now_ns() - call.began_ns);
    }

    static void end(SvcCall& call, SvcEnding ending, AcceptStat accept) noexcept {
        SvcDispatcher& self = *call.dispatcher;
        keep_reply(call, ending);
        count(call, ending);
        self.counters_.payload_copied_bytes += call.copied_bytes;
        switch (ending) {
            case SvcEnding::reply: {
                ++self.counters_.replies;
                SvcRqst& ended = end_call(call);
                ended.xprt->reply(ended);
                return;
            }
            case SvcEnding::fail:
                answer(end_call(call), accept);
                return;
            case SvcEnding::drop:
                drop(self, end_call(call));
                return;
            case SvcEnding::none:
                break;
        }
        NR_ASSERT(ending != SvcEnding::none);  // a handler off the loop ends its call
    }
    // Now, or when the loop has the call back.
    static void end_or_keep(SvcCall& call, SvcEnding ending, AcceptStat accept) noexcept {
        if (!call.off_loop) {
            end(call, ending, accept);
            return;
        }
        NR_ASSERT(call.ending == SvcEnding::none);  // a call is ended once
        call.ending = ending;
        call.ending_stat = accept;
    }

    // The next of the same storage takes its thread.
    static void leave_lane(SvcCall& call) noexcept {
        SvcDispatcher::Lane& lane = call.dispatcher->lane_of(call.storage);
        if (lane.turns.empty()) {
            --lane.out;
        } else {
            call.rqst->xprt->loop().submit(lane.pop());
        }
    }

    static void handle(SvcCall& call) noexcept {
        const SvcProcedure& procedure = *call.procedure;
        if (procedure.may_block == nullptr || !procedure.may_block(call)) {
            procedure.handle(call);
            return;
        }
        ++call.dispatcher->counters_.off_loop;
        // Memory is the loop's to give. Without it the string goes inline.
        const std::uint32_t string_bound = procedure.info.res_item.string_bound;
        if (string_bound != 0 && call.rqst->result_room != 0) {
            static_cast<void>(call.get_result_payload(string_bound + 1));
        }
        call.off_loop = true;
        call.leave_loop([](SvcCall& c) noexcept { c.procedure->handle(c); },
                        [](SvcCall& c) noexcept {
                            c.off_loop = false;
                            end(c, c.ending, c.ending_stat);
                        });
    }
};

SvcRetry::SvcRetry() noexcept : Timer(&SvcLeaf::on_retry) {}

void SvcDispatcher::add(const SvcProgram& program) {
    for (const SvcProgram& other : programs_) {
        NR_ASSERT(other.prog != program.prog || other.vers != program.vers);
    }
    std::uint32_t args = program.args_bytes, res = program.res_bytes;
    for (const SvcProcedure& procedure : program.procedures) {
        args = std::max(args, procedure.info.args_size);
        res = std::max(res, procedure.info.res_size);
    }
    args_bytes_ = std::max(args_bytes_, align_up(args, kAlign));
    res_bytes_ = std::max(res_bytes_, align_up(res, kAlign));
    preset_bytes_ = std::max(preset_bytes_, align_up(program.preset_bytes, kAlign));
    programs_.push_back(program);
    stats_.emplace_back(program.procedures.size());
}

std::uint32_t SvcDispatcher::scratch_bytes() const noexcept {
    return kCallBytes + args_bytes_ + res_bytes_ + preset_bytes_;
}

void SvcDispatcher::dispatch(SvcRqst& rqst) noexcept {
    ++counters_.calls;
    CallHeader header;
    const CallFault fault = decode_call(rqst.arg.head, header);
    if (fault != CallFault::none) {
        rqst.xid = header.xid;
        SvcLeaf::answer_fault(*this, rqst, fault);
        return;
    }
    rqst.xid = header.xid;
    const SvcProgram* const program = SvcLeaf::find(*this, rqst, header);
    if (program == nullptr) return;
    if (header.proc >= program->procedures.size() ||
        program->procedures[header.proc].info.name == nullptr) {
        SvcLeaf::answer(rqst, AcceptStat::proc_unavail);
        return;
    }
    SvcCall& call = SvcLeaf::lay_out(*this, rqst, *program, header);
    if (!SvcLeaf::decode_args(*this, call, header.size)) {
        ++counters_.garbage_args;
        SvcLeaf::answer(SvcLeaf::end_call(call), AcceptStat::garbage_args);
        return;
    }
    if (SvcLeaf::is_copy(*this, call, header)) return;
    SvcLeaf::handle(call);
}

void SvcDispatcher::Lane::push(SvcWork& work) noexcept {
    constexpr std::uint64_t kMix = 0x9E3779B97F4A7C15u;
    Flow& flow = flows[(address_of(work.call->rqst->xprt) * kMix >> 32) % kFlows];
    if (flow.works.empty()) turns.push_back(flow);
    flow.works.push_back(work);
}

SvcWork& SvcDispatcher::Lane::pop() noexcept {
    Flow& flow = turns.pop_front();
    SvcWork& work = flow.works.pop_front();
    if (!flow.works.empty()) turns.push_back(flow);
    return work;
}

SvcDispatcher::Lane& SvcDispatcher::lane_of(const void* storage) noexcept {
    constexpr std::uint64_t kGrain = 64;  // allocations lie apart by more
    return lanes_[address_of(storage) / kGrain % kLanes];
}

void SvcDispatcher::wake(SvcRqst& rqst) noexcept {
    SvcCall& call = SvcLeaf::call_of(rqst);
    NR_ASSERT(call.rqst == &rqst);
    if (call.wake != nullptr) call.wake(call);
}

Result<std::span<std::byte>> SvcCall::get_result_payload(std::uint32_t bytes) noexcept {
    NR_ASSERT(!off_loop);  // memory is the loop's to give
    NR_TRY_ASSIGN(const std::span<std::byte> memory, rqst->xprt->get_result_payload(*rqst, bytes));
    granted = memory;
    return memory;
}

void SvcCall::leave_loop(SvcWork::Step away, SvcWork::Step back) noexcept {
    work.call = this;
    work.away = away;
    work.back = back;
    work.run = [](BlockingWork& w) noexcept {
        auto& self = static_cast<SvcWork&>(w);
        self.away(*self.call);
    };
    work.done = [](BlockingWork& w) noexcept {
        auto& self = static_cast<SvcWork&>(w);
        SvcLeaf::leave_lane(*self.call);
        self.back(*self.call);
    };
    SvcDispatcher::Lane& lane = dispatcher->lane_of(storage);
    if (lane.out >= dispatcher->lane_limit_) {
        lane.push(work);
        return;
    }
    ++lane.out;
    rqst->xprt->loop().submit(work);
}

void SvcCall::reply() noexcept {
    if (procedure->info.res_item.string_bound != 0) SvcLeaf::move_string(*this);
    if (!SvcLeaf::encode_results(*this)) {
        fail(static_cast<std::uint32_t>(AcceptStat::system_err));
        return;
    }
    SvcLeaf::end_or_keep(*this, SvcEnding::reply, AcceptStat::success);
}

void SvcCall::fail(std::uint32_t accept_stat) noexcept {
    NR_ASSERT(accept_stat != static_cast<std::uint32_t>(AcceptStat::success) &&
              accept_stat <= static_cast<std::uint32_t>(AcceptStat::system_err));
    SvcLeaf::end_or_keep(*this, SvcEnding::fail, AcceptStat{accept_stat});
}

void SvcCall::drop() noexcept {
    SvcLeaf::end_or_keep(*this, SvcEnding::drop, AcceptStat::success);
}

}  // namespace nfsrdma::sunrpc
