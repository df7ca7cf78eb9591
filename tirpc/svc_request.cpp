#include "tirpc/svc_request.hpp"

#include <cstring>
#include <utility>

#include "base/bytes.hpp"
#include "tirpc/ulb.hpp"

namespace nfsrdma::tirpc {
namespace {

constexpr std::uint32_t kRpcsecGss = 6;

bool lies_within(std::span<const std::byte> part, std::span<const std::byte> whole) noexcept {
    return !whole.empty() && address_of(part.data()) >= address_of(whole.data()) &&
           address_of(part.data()) + part.size() <= address_of(whole.data()) + whole.size();
}

// RFC 8166 s5 of RPCSEC_GSS: items may be placed where it neither checks nor hides them.
bool may_place(const opaque_auth& cred) noexcept {
    if (static_cast<std::uint32_t>(cred.oa_flavor) != kRpcsecGss) return true;
    // Version, procedure, sequence number, service (RFC 2203 s5): a call of data, without service.
    constexpr std::uint32_t kWords = 16, kProcAt = 4, kServiceAt = 12, kServiceNone = 1;
    if (cred.oa_length < kWords) return false;
    const std::byte* const words = as_bytes(cred.oa_base);
    return load_be32(words + kProcAt) == 0 && load_be32(words + kServiceAt) == kServiceNone;
}

// An item that no table names is known by its place in the message alone.
bool_t any_item(const void* /*object*/, const char* /*at*/, std::uint32_t /*bytes*/) noexcept {
    return TRUE;
}

bool_t no_results(XDR* /*xdr*/, ...) {
    return TRUE;
}

sunrpc::ReplyHeader header_of(sunrpc::CallFault fault) noexcept {
    sunrpc::ReplyHeader header;
    header.accepted = false;
    header.reject = sunrpc::RejectStat::auth_error;
    switch (fault) {
        case sunrpc::CallFault::none:
        case sunrpc::CallFault::drop:
        case sunrpc::CallFault::rpc_mismatch:
            header.reject = sunrpc::RejectStat::rpc_mismatch;
            header.low = header.high = sunrpc::kRpcVersion;
            break;
        case sunrpc::CallFault::bad_cred:
            header.auth = sunrpc::AuthStat::bad_cred;
            break;
        case sunrpc::CallFault::rejected_cred:
            header.auth = sunrpc::AuthStat::rejected_cred;
            break;
        case sunrpc::CallFault::bad_verf:
            header.auth = sunrpc::AuthStat::bad_verf;
            break;
        case sunrpc::CallFault::too_weak:
            header.auth = sunrpc::AuthStat::too_weak;
            break;
        case sunrpc::CallFault::garbage:
            header.accepted = true;
            header.accept = sunrpc::AcceptStat::garbage_args;
            break;
    }
    return header;
}

}  // namespace

bool SvcRequest::begin(sunrpc::SvcRqst& rqst, rpc_msg& msg) noexcept {
    rqst_ = &rqst;
    proc_ = nullptr;
    replied_ = reply_kept_ = args_lent_ = false;
    granted_ = {};
    args_.emplace(rqst.arg, rqst.payload_position);
    if (xdr_callmsg(args_->xdr(), &msg) == FALSE) {
        sunrpc::CallHeader header;
        const sunrpc::CallFault fault = sunrpc::decode_call(rqst.arg.head, header);
        xid_ = header.xid;
        answer_fault(fault);
        return false;
    }
    xid_ = msg.rm_xid;
    if (!may_place(msg.rm_call.cb_cred)) return true;
    const Binding* const binding = find_binding(static_cast<std::uint32_t>(msg.rm_call.cb_prog),
                                                static_cast<std::uint32_t>(msg.rm_call.cb_vers));
    static constexpr rpcrdma_proc kNoTable{0, RPCRDMA_NO_DDP, RPCRDMA_NO_DDP, nullptr, nullptr};
    const auto number = static_cast<std::uint32_t>(msg.rm_call.cb_proc);
    const rpcrdma_proc* const proc = binding == nullptr ? nullptr : binding->proc(number);
    proc_ = proc == nullptr ? &kNoTable : proc;
    return true;
}

void SvcRequest::answer_fault(sunrpc::CallFault fault) noexcept {
    const Driver::Hold hold(*shared_.driver);
    if (fault != sunrpc::CallFault::rpc_mismatch) rqst_->xprt->note_garbage();
    if (fault == sunrpc::CallFault::none || fault == sunrpc::CallFault::drop) {
        rqst_->xprt->drop(*std::exchange(rqst_, nullptr));
        return;
    }
    sunrpc::ReplyHeader header = header_of(fault);
    header.xid = xid_;
    Result<std::uint32_t> size = sunrpc::encode_reply(rqst_->res_room, header);
    NR_ASSERT(static_cast<bool>(size));  // a transport's room takes a header
    rqst_->res = {};
    rqst_->res.head = rqst_->res_room.first(*size);
    rqst_->result_is_ddp = false;
    rqst_->xprt->reply(*std::exchange(rqst_, nullptr));
}

bool SvcRequest::get_args(SVCAUTH& auth, xdrproc_t xdr_args, void* args) noexcept {
    if (rqst_ == nullptr || replied_) return false;
    sunrpc::DdpItem item;
    if (proc_ != nullptr) {
        item = ddp_item(proc_->arg);
        const bool in_place = shared_.zero_copy && may_be_in_place(proc_->arg);
        if (in_place) {
            args_->set_item(item, args, {});
            args_lent_ = true;
        } else {
            if (!item.exists() && !rqst_->arg.payload.empty()) item.match = &any_item;
            args_->set_item_copied(item, args);
        }
    }
    const bool decoded =
        SVCAUTH_UNWRAP(&auth, args_->xdr(), xdr_args, static_cast<char*>(args)) != FALSE &&
        !args_->failed();
    shared_.payload_copied_bytes.fetch_add(args_->payload_copied(), std::memory_order_relaxed);
    if (decoded) return true;
    free_args(xdr_args, args);
    return false;
}

void SvcRequest::free_args(xdrproc_t xdr_args, void* args) noexcept {
    if (args_lent_) args_->clear_item();
    if (args != nullptr) xdr_free(xdr_args, args);
    args_lent_ = false;
    if (std::exchange(reply_kept_, false)) send();
}

bool SvcRequest::reply(SVCAUTH& auth, rpc_msg& msg) noexcept {
    if (rqst_ == nullptr || replied_) return false;
    msg.rm_xid = xid_;
    if (!encode(auth, msg) || !place_item()) return false;
    replied_ = true;
    reply_kept_ = args_lent_;
    if (!reply_kept_) send();
    return true;
}

// The header, which is the transport's, and the results, which the security flavor may wrap.
bool SvcRequest::encode(SVCAUTH& auth, rpc_msg& msg) noexcept {
    const bool has_results =
        msg.rm_reply.rp_stat == MSG_ACCEPTED && msg.acpted_rply.ar_stat == SUCCESS;
    const xdrproc_t xdr_results = has_results ? msg.acpted_rply.ar_results.proc : nullptr;
    char* const results = has_results ? msg.acpted_rply.ar_results.where : nullptr;
    if (has_results) {
        msg.acpted_rply.ar_results.proc = &no_results;
        msg.acpted_rply.ar_results.where = nullptr;
    }
    sunrpc::XdrEncodeStream stream(rqst_->res_room);
    bool encoded = xdr_replymsg(stream.xdr(), &msg) != FALSE;
    if (has_results) {
        msg.acpted_rply.ar_results.proc = xdr_results;
        msg.acpted_rply.ar_results.where = results;
        // What has a place at the client always goes there, however short it is.
        if (proc_ != nullptr && rqst_->result_room != 0)
            stream.set_item(ddp_item(proc_->res), results);
        encoded = encoded && SVCAUTH_WRAP(&auth, stream.xdr(), xdr_results, results) != FALSE;
    }
    if (!encoded || stream.failed()) return false;
    rqst_->res = stream.message();
    rqst_->result_is_ddp = !rqst_->res.payload.empty();
    return true;
}

// To memory from which it goes to the wire, unless it lies there.
bool SvcRequest::place_item() noexcept {
    std::span<std::byte>& item = rqst_->res.payload;
    if (item.empty() || lies_within(item, granted_) || lies_within(item, rqst_->arg.payload))
        return true;
    const std::span<std::byte> memory = get_memory(static_cast<std::uint32_t>(item.size()));
    if (memory.empty()) return false;
    std::memcpy(memory.data(), item.data(), item.size());
    shared_.payload_copied_bytes.fetch_add(item.size(), std::memory_order_relaxed);
    item = memory;
    return true;
}

// Waits while others have it all: they end, or it is not waited for (payload_runs.hpp).
std::span<std::byte> SvcRequest::get_memory(std::uint32_t bytes) noexcept {
    Driver::Hold hold(*shared_.driver);
    for (;;) {
        memory_came_ = false;
        auto memory = rqst_->xprt->get_result_payload(*rqst_, bytes);
        if (memory) return *memory;
        if (memory.error().code != Errc::again) return {};
        static_cast<void>(
            hold.wait_held([](void* self) { return static_cast<SvcRequest*>(self)->memory_came_; },
                           this, UINT64_MAX));
    }
}

void* SvcRequest::alloc(std::uint32_t bytes) noexcept {
    if (rqst_ == nullptr || replied_ || proc_ == nullptr || bytes == 0 ||
        bytes > rqst_->result_room)
        return nullptr;
    granted_ = get_memory(bytes);
    return granted_.data();
}

// One turn, so that it is on its way while the service goes on.
void SvcRequest::send() noexcept {
    const Driver::Hold hold(*shared_.driver);
    rqst_->xprt->reply(*std::exchange(rqst_, nullptr));
    shared_.looking = !shared_.threads;
    static_cast<void>(shared_.driver->loop().run_once(0));
    shared_.looking = false;
}

void SvcRequest::finish() noexcept {
    args_lent_ = false;
    if (rqst_ == nullptr) return;
    sunrpc::SvcRqst& rqst = *std::exchange(rqst_, nullptr);
    if (std::exchange(reply_kept_, false)) {
        rqst.xprt->reply(rqst);
    } else {
        rqst.xprt->drop(rqst);
    }
}

}  // namespace nfsrdma::tirpc
