#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <rpc/rpc.h>
#include <rpc/svc_auth.h>

#include "sunrpc/rpc_msg.hpp"
#include "sunrpc/xdr_stream.hpp"
#include "sunrpc/xprt.hpp"
#include "tirpc/driver.hpp"
#include "tirpc/tirpc_rdma.h"

namespace nfsrdma::tirpc {

// What all requests of a listener share.
struct SvcShared {
    std::unique_ptr<Driver> driver;
    bool zero_copy = false;
    bool threads = false;  // several threads run svc_run
    // The thread that holds the loop looks at all connections before it leaves: no kick is needed.
    // The holder's.
    bool looking = false;
    std::atomic<std::uint64_t> payload_copied_bytes{0};  // of items that a table names
};

// The request that a connection is dispatching.
//
// Operation. begin() decodes the header; libtirpc dispatches; the service asks for the arguments
// and gives the results; finish() ends it, answered or not. XDR routines, which are the service's
// code, run outside of the Hold: until it is answered the request, and the memory of its message,
// is nobody else's.
//
// Ownership. (1) `rqst_` is ours from begin() until the answer or finish(). (2) With zero_copy an
// item of the arguments may point into the request's memory until free_args() or finish(): then the
// answer, which gives that memory back, is kept until there. (3) Results are the service's only
// until reply() returns: by then they were encoded, and their item copied.
//
// Errors. A message that is no call is answered as RFC 5531 s9 says, or dropped; the connection
// stays. Arguments that do not decode are freed here. Results that do not encode leave the request
// as it was, so that it can be answered by an error.
//
// Threads. Of the thread that owns the connection (svc_connection.hpp).
class SvcRequest {
  public:
    explicit SvcRequest(SvcShared& shared) noexcept : shared_(shared) {}
    SvcRequest(const SvcRequest&) = delete;
    SvcRequest& operator=(const SvcRequest&) = delete;
    ~SvcRequest() = default;

    // Decodes the header into `msg`, whose cb_cred and cb_verf have room. False: it was answered or
    // dropped. Not under the Hold.
    bool begin(sunrpc::SvcRqst& rqst, rpc_msg& msg) noexcept;
    bool get_args(SVCAUTH& auth, xdrproc_t xdr_args, void* args) noexcept;
    void free_args(xdrproc_t xdr_args, void* args) noexcept;
    // False: nothing was sent.
    bool reply(SVCAUTH& auth, rpc_msg& msg) noexcept;
    void* alloc(std::uint32_t bytes) noexcept;
    // Under the Hold. What was not answered is dropped.
    void finish() noexcept;

    // Under the Hold: memory came for which reply() or alloc() waits.
    void wake() noexcept { memory_came_ = true; }
    // For xp_verf.
    char* verifier_room() noexcept { return verifier_.data(); }

  private:
    void answer_fault(sunrpc::CallFault fault) noexcept;
    void answer(const sunrpc::ReplyHeader& header) noexcept;
    bool encode(SVCAUTH& auth, rpc_msg& msg) noexcept;
    bool place_item() noexcept;
    std::span<std::byte> get_memory(std::uint32_t bytes) noexcept;
    void send() noexcept;

    SvcShared& shared_;
    sunrpc::SvcRqst* rqst_ = nullptr;
    std::optional<sunrpc::XdrDecodeStream> args_;
    const rpcrdma_proc* proc_ = nullptr;  // nullptr: no table, or RPCSEC_GSS moves the items
    std::uint32_t xid_ = 0;
    bool replied_ = false;
    bool reply_kept_ = false;  // encoded, but not sent before the arguments are free
    bool args_lent_ = false;   // they point into the request's memory
    std::span<std::byte> granted_;
    bool memory_came_ = false;  // under the Hold
    std::array<char, MAX_AUTH_BYTES> verifier_{};
};

}  // namespace nfsrdma::tirpc
