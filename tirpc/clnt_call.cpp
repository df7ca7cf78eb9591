#include "tirpc/clnt_call.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "sunrpc/xdr_stream.hpp"
#include "tirpc/clnt_sizes.hpp"
#include "tirpc/error_text.hpp"

// Operation. run() goes down the page: a slot, the call encoded into its room, memory for what goes
// by RDMA, send and wait, decode. Routines of the program (XDR) run as its own thread, with no loop
// held and no lock.
//
// Ownership. The flight is ours from take_slot() to the destructor, or the link's once it is
// one-way. Nothing of the program's memory is ever shown to the peer: items are copied into memory
// of the connection, but for what the program itself had from clnt_rdma_alloc.
namespace nfsrdma::tirpc {
namespace {

// The call header up to the credential, in words (RFC 5531 s9): XID, CALL, 2, program, version,
// procedure; then the credential's flavor and length, and of RPCSEC_GSS (RFC 2203 s5.3.1) version,
// procedure, sequence number, service.
constexpr std::uint32_t kFixedWords = 6;
constexpr std::size_t kFlavorWord = 6, kGssProcWord = 9, kGssServiceWord = 11;
constexpr std::uint32_t kGssData = 0, kGssServiceNone = 1;
constexpr std::uint32_t kWord = 4;
constexpr std::uint32_t kFixedBytes = kFixedWords * kWord;
constexpr std::uint32_t kRpcCall = 0, kRpcVersion = 2;
// Credential and verifier with their flavors and lengths.
constexpr std::uint32_t kAuthMax = 2 * (2 * kWord + MAX_AUTH_BYTES);
constexpr std::uint32_t kCallHeaderMax = kFixedBytes + kAuthMax;
// XID, REPLY, accepted, verifier, status, and the versions of a mismatch.
constexpr std::uint32_t kReplyHeaderMax = 6 * kWord + MAX_AUTH_BYTES + 2 * kWord;
// What wrapping adds to arguments or results: lengths, sequence number, checksum or token.
constexpr std::uint32_t kGssOverhead = 1024;
constexpr Error kDoNotEncode{Errc::invalid_argument, 0, "the arguments do not encode"};
constexpr Error kNoWholeWords{Errc::invalid_argument, 0,
                              "the arguments do not encode to whole XDR units of 4 bytes"};
constexpr std::uint32_t kTransportHeader = 28;  // the least (RFC 8166 s4.1)

// As xdr_void, which has another type.
bool_t xdr_nothing(XDR* /*xdr*/, ...) noexcept {
    return TRUE;
}

bool is_void(xdrproc_t routine) noexcept {
    return routine == nullptr || routine == std::bit_cast<xdrproc_t>(&xdr_void);
}

std::uint32_t word(std::span<const std::byte> message, std::size_t index) noexcept {
    return (index + 1) * kWord <= message.size() ? load_be32(message.data() + index * kWord) : 0;
}

void write_fixed_words(std::span<std::byte> room, const CallRequest& request) noexcept {
    const std::array<std::uint32_t, kFixedWords> words = {request.xid,  kRpcCall,     kRpcVersion,
                                                          request.prog, request.vers, request.proc};
    std::byte* at = room.data();
    for (const std::uint32_t each : words) {
        store_be32(at, each);
        at += kWord;
    }
}

const rpcrdma_proc* proc_of(const CallRequest& request) noexcept {
    const Binding* const binding = find_binding(request.prog, request.vers);
    return binding != nullptr ? binding->proc(request.proc) : nullptr;
}

bool is_gss(const AUTH* auth) noexcept {
    return auth->ah_cred.oa_flavor == RPCSEC_GSS;
}

char* load_slot(const void* object, std::int32_t offset) noexcept {
    char* pointer = nullptr;
    std::memcpy(&pointer, static_cast<const char*>(object) + offset, sizeof pointer);
    return pointer;
}
void store_slot(void* object, std::int32_t offset, char* pointer) noexcept {
    std::memcpy(static_cast<char*>(object) + offset, &pointer, sizeof pointer);
}

}  // namespace

bool GssTurn::take(std::uint64_t deadline_ns) noexcept {
    std::unique_lock<std::mutex> lock(mutex_);
    const std::uint64_t reachable = std::min<std::uint64_t>(deadline_ns, INT64_MAX);
    const std::chrono::steady_clock::time_point deadline{
        std::chrono::nanoseconds{static_cast<std::int64_t>(reachable)}};
    while (taken_) {
        if (free_.wait_until(lock, deadline) == std::cv_status::timeout && taken_) return false;
    }
    taken_ = true;
    return true;
}

void GssTurn::give_back() noexcept {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_ = false;
    free_.notify_one();
}

ClntCall::ClntCall(CallShare& share, const CallRequest& request) noexcept
    : share_(share), request_(request) {}

ClntCall::~ClntCall() {
    if (flight_ != nullptr) share_.link.give_back(*flight_);
    if (has_turn_) share_.gss.give_back();
}

CallNext ClntCall::run(rpc_err& error) noexcept {
    CallNext next = CallNext::done;
    error_ = {};
    if (take_slot() && encode()) {
        make_room_for_results();
        if (provide_memory() && send(next)) next = decode();
    }
    error = error_;
    return next;
}

// ---- failures

bool ClntCall::fail(enum clnt_stat status, const Error& why) noexcept {
    error_.re_status = status;
    error_.re_errno = errno_of(why);
    set_error_text("RPC over RDMA", why);
    return false;
}

// Nothing of the call has left.
bool ClntCall::fail_before_send(const Error& why) noexcept {
    switch (why.code) {
        case Errc::timed_out:
            // Who waits for nothing is not told that time is out, which means success to it.
            if (request_.one_way) {
                return fail(RPC_CANTSEND,
                            {Errc::again, 0, "one-way calls without a reply have every credit"});
            }
            return fail(RPC_TIMEDOUT, why);
        case Errc::too_big:
        case Errc::invalid_argument:
            return fail(RPC_CANTENCODEARGS, why);
        case Errc::again:
        case Errc::reconnect:
        case Errc::bad_message:
        case Errc::unsupported:
        case Errc::closed:
        case Errc::refused:
        case Errc::system:
            break;
    }
    return fail(RPC_CANTSEND,
                why.code == Errc::reconnect ? Error{why.code, ENOTCONN, why.what} : why);
}

// ---- the call

bool ClntCall::take_slot() noexcept {
    if (is_gss(request_.auth)) {
        if (!share_.gss.take(request_.deadline_ns))
            return fail(RPC_TIMEDOUT, {Errc::timed_out, 0, "wait for another call of this AUTH"});
        has_turn_ = true;
    }
    std::uint32_t room = share_.inline_size;
    std::uint64_t needed = 0;
    if (share_.long_calls.was(request_.proc) && fits_if_measured(needed))
        room = std::max(room, static_cast<std::uint32_t>(needed));
    auto flight = share_.link.take(room, request_.one_way, request_.deadline_ns);
    if (!flight) return fail_before_send(flight.error());
    flight_ = *flight;
    return true;
}

// Whether a call of this size can be sent; `bytes` is the most that it may have, without its item.
bool ClntCall::fits_if_measured(std::uint64_t& bytes) const noexcept {
    const std::uint32_t most = share_.link.limits().max_message;
    const rpcrdma_proc* const proc = proc_of(request_);
    const bool gss = is_gss(request_.auth);
    const sunrpc::DdpItem item =
        proc != nullptr && !gss ? ddp_item(proc->arg, kMinChunkBytes) : sunrpc::DdpItem{};
    const XdrSizes sizes = measure(request_.xdr_args, request_.args, item);
    if (!sizes.encodes) return false;
    bytes = kCallHeaderMax + sizes.bytes + (gss ? kGssOverhead : 0);
    // An estimate of the header that is too high by less than what it may have beside `most`; and
    // an item that RPCSEC_GSS leaves as it is may yet go apart.
    if (bytes > most && (gss || bytes - kCallHeaderMax + kFixedBytes <= most)) bytes = most;
    return bytes <= most;
}

bool ClntCall::encode() noexcept {
    if (encode_once()) {
        if (flight_->rqst->call.length() < share_.inline_size)
            share_.long_calls.note(request_.proc, false);
        return true;
    }
    if (error_.re_status != RPC_SUCCESS) return false;
    return encode_longer();
}

// It did not fit, or the program's own routine failed.
bool ClntCall::encode_longer() noexcept {
    std::uint64_t needed = 0;
    if (!fits_if_measured(needed)) {
        const Error why =
            needed == 0 ? kDoNotEncode
                        : Error{Errc::too_big, 0, "the arguments are larger than max_message"};
        return fail(RPC_CANTENCODEARGS, why);
    }
    if (needed <= flight_->rqst->head_room.size()) return fail(RPC_CANTENCODEARGS, kDoNotEncode);
    share_.long_calls.note(request_.proc, true);
    auto changed = share_.link.change_slot(
        *std::exchange(flight_, nullptr), static_cast<std::uint32_t>(needed), request_.deadline_ns);
    if (!changed) return fail_before_send(changed.error());
    flight_ = *changed;
    if (encode_once()) return true;
    if (error_.re_status != RPC_SUCCESS) return false;
    return fail(RPC_CANTENCODEARGS, kDoNotEncode);
}

// False without an error: it did not encode.
bool ClntCall::encode_once() noexcept {
    sunrpc::Rqst& rqst = *flight_->rqst;
    write_fixed_words(rqst.head_room, request_);
    sunrpc::XdrEncodeStream stream(rqst.head_room, kFixedBytes);
    {
        const std::lock_guard<std::mutex> lock(share_.auth);
        if (AUTH_MARSHALL(request_.auth, stream.xdr()) == FALSE || stream.failed()) return false;
    }
    look_at_credential(stream.message().head);
    // Its first call does not know yet that it is one of RPCSEC_GSS.
    if (credential_.gss && !has_turn_) {
        if (!share_.gss.take(request_.deadline_ns))
            return fail(RPC_TIMEDOUT, {Errc::timed_out, 0, "wait for another call of this AUTH"});
        has_turn_ = true;
    }
    stream.set_item(args_item(), request_.args);
    auto* const args = static_cast<char*>(request_.args);
    if (AUTH_WRAP(request_.auth, stream.xdr(), request_.xdr_args, args) == FALSE) return false;
    if (stream.failed()) return false;
    rqst.xid = request_.xid;
    rqst.call = stream.message();
    if (rqst.call.head.size() % kWord != 0 || rqst.call.tail.size() % kWord != 0)
        return fail(RPC_CANTENCODEARGS, kNoWholeWords);
    rqst.ddp_allowed = credential_.data_kept;
    return true;
}

// RFC 2203 s5.2.2: of the messages of RPCSEC_GSS only data under service none are what they would
// be without it.
void ClntCall::look_at_credential(std::span<const std::byte> header) noexcept {
    credential_ = {};
    credential_.gss = word(header, kFlavorWord) == RPCSEC_GSS;
    if (credential_.gss) {
        credential_.control = word(header, kGssProcWord) != kGssData;
        credential_.data_kept =
            !credential_.control && word(header, kGssServiceWord) == kGssServiceNone;
    }
    proc_ = credential_.control ? nullptr : proc_of(request_);
}

sunrpc::DdpItem ClntCall::args_item() const noexcept {
    if (proc_ == nullptr || !credential_.data_kept || request_.args == nullptr) return {};
    return ddp_item(proc_->arg, kMinChunkBytes);
}

bool ClntCall::no_results() const noexcept {
    return is_void(request_.xdr_res);
}

void ClntCall::make_room_for_results() noexcept {
    sunrpc::Rqst& rqst = *flight_->rqst;
    item_max_ = room_ = 0;
    std::uint64_t most = kReplyHeaderMax + (credential_.gss ? kGssOverhead : 0);
    if (!no_results()) {
        most += reply_max(proc_, request_.args, share_.reply_max.load(std::memory_order_relaxed));
        item_max_ = result_item_max(proc_, request_.args, share_.max_payload);
    }
    const std::uint64_t item = align_up(std::uint64_t{item_max_}, kWord);
    const bool fits =
        item_max_ < kMinChunkBytes && kTransportHeader + most + item <= share_.inline_size;
    if (credential_.data_kept && !fits) {
        room_ = item_max_;
    } else {
        most += item;  // within the message
    }
    const sunrpc::XprtLimits& limits = share_.link.limits();
    const std::uint32_t longest =
        room_ != 0 ? limits.max_message : std::max(limits.max_message, limits.max_payload);
    rqst.reply_max = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, longest));
}

bool ClntCall::provide_memory() noexcept {
    sunrpc::Rqst& rqst = *flight_->rqst;
    const std::span<std::byte> item = rqst.call.payload;
    if (item.size() > share_.max_payload) {
        return fail(RPC_CANTENCODEARGS,
                    {Errc::too_big, 0, "an item of the arguments is larger than max_payload"});
    }
    const bool copies = !item.empty() && !share_.link.is_allocated(item);
    const auto bytes = copies ? static_cast<std::uint32_t>(item.size()) : 0;
    if (bytes == 0 && room_ == 0) return true;
    const Result<void> provided = share_.link.provide(*flight_, bytes, room_, request_.deadline_ns);
    if (!provided) return fail_before_send(provided.error());
    if (copies) {
        rqst.call.payload = flight_->args.memory().first(bytes);
        std::memcpy(rqst.call.payload.data(), item.data(), bytes);
        share_.copied.fetch_add(bytes, std::memory_order_relaxed);
    }
    if (room_ != 0) rqst.result_room = flight_->results.memory().first(room_);
    return true;
}

// True: the reply is there.
bool ClntCall::send(CallNext& next) noexcept {
    Result<void> outcome;
    bool sent = false;
    if (request_.one_way) {
        outcome = share_.link.fly_one_way(*flight_);
        if (outcome) {
            flight_ = nullptr;
            error_.re_status = request_.xdr_res == nullptr ? RPC_SUCCESS : RPC_TIMEDOUT;
            return false;
        }
    } else {
        outcome = share_.link.fly(*flight_, request_.deadline_ns, sent);
    }
    if (outcome) return true;
    const Error& why = outcome.error();
    if (sent) {
        const bool late = why.code == Errc::timed_out;
        return fail(late ? RPC_TIMEDOUT : RPC_CANTRECV, why);
    }
    if (why.code == Errc::invalid_argument && why.sys == EEXIST) next = CallNext::other_xid;
    return fail_before_send(why);
}

// ---- the reply

CallNext ClntCall::decode() noexcept {
    sunrpc::XdrDecodeStream stream(flight_->rqst->reply, sunrpc::XdrDecodeStream::kByBinding);
    // So that nothing is allocated, and nothing is to be freed.
    std::array<char, MAX_AUTH_BYTES> verifier{};
    rpc_msg reply{};
    reply.acpted_rply.ar_verf.oa_base = verifier.data();
    reply.acpted_rply.ar_results.proc = xdr_nothing;
    if (xdr_replymsg(stream.xdr(), &reply) == FALSE) {
        fail(RPC_CANTDECODERES, {Errc::bad_message, 0, "the reply's header does not decode"});
        return CallNext::done;
    }
    _seterr_reply(&reply, &error_);
    if (error_.re_status != RPC_SUCCESS) return refuse(reply);
    decode_results(reply, stream);
    return CallNext::done;
}

// The server did not do it. New credentials may help.
CallNext ClntCall::refuse(rpc_msg& reply) noexcept {
    set_error_text(clnt_sperrno(error_.re_status));
    // RPCSEC_GSS would call the server from within, by this same CLIENT.
    if (!request_.may_refresh || credential_.gss) return CallNext::done;
    const std::lock_guard<std::mutex> lock(share_.auth);
    return AUTH_REFRESH(request_.auth, &reply) != FALSE ? CallNext::again : CallNext::done;
}

void ClntCall::decode_results(rpc_msg& reply, sunrpc::XdrDecodeStream& stream) noexcept {
    {
        const std::lock_guard<std::mutex> lock(share_.auth);
        if (AUTH_VALIDATE(request_.auth, &reply.acpted_rply.ar_verf) == FALSE) {
            error_.re_status = RPC_AUTHERROR;
            error_.re_why = AUTH_INVALIDRESP;
            set_error_text("the reply's verifier is not valid");
            return;
        }
    }
    const bool decoded = unwrap(stream);
    share_.copied.fetch_add(stream.payload_copied(), std::memory_order_relaxed);
    if (!decoded) fail(RPC_CANTDECODERES, {Errc::bad_message, 0, "the results do not decode"});
}

bool ClntCall::unwrap(sunrpc::XdrDecodeStream& stream) noexcept {
    const xdrproc_t routine = no_results() ? xdr_nothing : request_.xdr_res;
    auto* const res = static_cast<char*>(request_.res);
    sunrpc::DdpItem item;
    if (proc_ != nullptr && credential_.data_kept && res != nullptr && !no_results())
        item = ddp_item(proc_->res);
    const bool lent = lend(item);
    if (lent) {
        stream.set_item(item, res, {});
    } else {
        // What the program preset holds as much as was asked for.
        stream.set_item_copied(item, res, item.string_bound == 0 ? item_max_ : ~0u);
    }
    const bool decoded =
        AUTH_UNWRAP(request_.auth, stream.xdr(), routine, res) != FALSE && !stream.failed();
    if (!lent) return decoded;
    // Another arm of a union may have used the place.
    char* const payload = as_chars(flight_->results.memory().data());
    if (load_slot(res, item.pointer_offset) != payload) return decoded;
    if (decoded) {
        flight_->lent_offset = item.pointer_offset;
        flight_->lent_to = request_.xdr_res;
    } else {
        store_slot(res, item.pointer_offset, nullptr);
    }
    return decoded;
}

// The item stays where it was placed, and the program's pointer leads there, if the table says that
// it may. Never for a string, whose decoding writes behind it with the peer's length.
bool ClntCall::lend(const sunrpc::DdpItem& item) noexcept {
    if (!share_.zero_copy || !item.exists() || !may_be_in_place(proc_->res)) return false;
    const std::span<std::byte> payload = flight_->rqst->reply.payload;
    if (payload.empty() || load_slot(request_.res, item.pointer_offset) != nullptr) return false;
    store_slot(request_.res, item.pointer_offset, as_chars(payload.data()));
    return true;
}

}  // namespace nfsrdma::tirpc
