#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <span>

#include <rpc/rpc.h>

#include "sunrpc/xdr_stream.hpp"
#include "tirpc/clnt_link.hpp"
#include "tirpc/ulb.hpp"

// One call of a CLIENT, as clnt_vc makes it, over a ClntLink.
namespace nfsrdma::tirpc {

// One AUTH of RPCSEC_GSS serves one call at a time: its sequence number is that of the last one.
class GssTurn {
  public:
    // False: the deadline (of steady_clock, in ns; UINT64_MAX: none) came first.
    bool take(std::uint64_t deadline_ns) noexcept;
    void give_back() noexcept;

  private:
    std::mutex mutex_;
    std::condition_variable free_;
    bool taken_ = false;
};

// Whether the last call of a procedure did not fit inline: then the next one is measured before it
// is encoded, and not encoded twice. Procedures share a place, which costs no more than that.
class LongCalls {
  public:
    bool was(std::uint32_t proc) const noexcept {
        return was_[proc % was_.size()].load(std::memory_order_relaxed);
    }
    void note(std::uint32_t proc, bool is) noexcept {
        std::atomic<bool>& was = was_[proc % was_.size()];
        if (was.load(std::memory_order_relaxed) != is) was.store(is, std::memory_order_relaxed);
    }

  private:
    std::array<std::atomic<bool>, 32> was_{};
};

// What the calls of one CLIENT share.
struct CallShare {
    explicit CallShare(ClntLink& a_link, const Options& options) noexcept
        : link(a_link),
          inline_size(options.inline_size),
          max_payload(options.max_payload),
          zero_copy(options.has(RPCRDMA_ZERO_COPY)),
          reply_max(options.reply_max) {}
    ClntLink& link;
    const std::uint32_t inline_size, max_payload;
    const bool zero_copy;
    std::atomic<std::uint32_t> reply_max;
    std::atomic<std::uint64_t> copied{0};  // bytes of items, by us
    std::mutex auth;                       // around what may change an AUTH
    GssTurn gss;
    LongCalls long_calls;
};

struct CallRequest {
    std::uint32_t xid = 0, prog = 0, vers = 0, proc = 0;
    xdrproc_t xdr_args = nullptr;
    void* args = nullptr;
    xdrproc_t xdr_res = nullptr;
    void* res = nullptr;
    AUTH* auth = nullptr;
    std::uint64_t deadline_ns = 0;
    bool one_way = false;
    bool may_refresh = true;
};

enum class CallNext : std::uint8_t {
    done,
    again,      // its credentials were refreshed: to be sent anew, with a new XID
    other_xid,  // its XID is one of a call that is still under way
};

class ClntCall {
  public:
    ClntCall(CallShare& share, const CallRequest& request) noexcept;
    ~ClntCall();
    ClntCall(const ClntCall&) = delete;
    ClntCall& operator=(const ClntCall&) = delete;
    // Once. `error` is what clnt_geterr is to tell; rpcrdma_strerror says more.
    CallNext run(rpc_err& error) noexcept;

  private:
    // What the encoded credential says.
    struct Credential {
        bool gss = false;
        bool control = false;   // of RPCSEC_GSS itself: the procedure's own types do not matter
        bool data_kept = true;  // arguments and results go as they are
    };
    bool take_slot() noexcept;
    bool encode() noexcept;
    bool encode_once() noexcept;
    bool fits_if_measured(std::uint64_t& bytes) const noexcept;
    bool encode_longer() noexcept;
    void look_at_credential(std::span<const std::byte> header) noexcept;
    sunrpc::DdpItem args_item() const noexcept;
    void make_room_for_results() noexcept;
    bool provide_memory() noexcept;
    bool send(CallNext& next) noexcept;
    CallNext decode() noexcept;
    CallNext refuse(rpc_msg& reply) noexcept;
    void decode_results(rpc_msg& reply, sunrpc::XdrDecodeStream& stream) noexcept;
    bool unwrap(sunrpc::XdrDecodeStream& stream) noexcept;
    bool lend(const sunrpc::DdpItem& item) noexcept;
    bool fail(enum clnt_stat status, const Error& why) noexcept;
    bool fail_before_send(const Error& why) noexcept;
    bool no_results() const noexcept;

    CallShare& share_;
    const CallRequest& request_;
    Flight* flight_ = nullptr;
    Credential credential_;
    const rpcrdma_proc* proc_ = nullptr;  // nullptr: no table says anything
    bool has_turn_ = false;               // of RPCSEC_GSS
    std::uint32_t item_max_ = 0;          // of the item of the results
    std::uint32_t room_ = 0;              // for it to be placed in; 0: it is not
    rpc_err error_{};
};

}  // namespace nfsrdma::tirpc
