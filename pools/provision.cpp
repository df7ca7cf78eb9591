#include "pools/provision.hpp"

#include <algorithm>

#include "base/bytes.hpp"

// Every count is a sum of named terms; the reason stands beside each.
namespace nfsrdma::pools {

namespace {

// Both roles.
constexpr std::uint32_t kDrainWrs = 1;  // the last request before a queue pair is destroyed
constexpr std::uint32_t kReceiveSlack =
    8;  // Receives that are being handled when the next credit is used
constexpr std::uint32_t kEdgePages = 1;  // a run that begins inside a page touches one more

// A call that was given up keeps its memory and keys until its reply comes: an eighth more than
// calls in flight.
constexpr std::uint32_t with_slack(std::uint32_t credits) noexcept {
    return credits + div_ceil(credits, 8u);
}

// Client, per call.
constexpr std::uint32_t kKeysPerCall = 2;      // one readable (arguments), one writable (results)
constexpr std::uint32_t kClientWrsPerCall = 1  // SEND
                                            + kKeysPerCall  // REG_MR, posted with it
                                            +
                                            kKeysPerCall;  // LOCAL_INV, when the peer left the key

// Server, per call. READs come before the reply's WRITEs, so that only one of both is in the send
// queue.
constexpr std::uint32_t kRunsPerCall =
    11;  // segments of one chunk of 1 MiB as a Linux client makes them
constexpr std::uint32_t kServerWrsPerCall = kRunsPerCall  // RDMA READs, or WRITEs
                                            + 2   // REG_MR and LOCAL_INV of a key for local memory
                                            + 1;  // SEND
constexpr std::uint32_t kTransfersPerCall =
    2;  // a Position-zero and a data chunk, or a Write and a Reply chunk
constexpr std::uint32_t kTransferSlack = 8;  // calls with more read chunks than that
// The longest chain that one reply needs: Write and Reply chunk of 16 segments each, a key for
// each, SEND.
constexpr std::uint32_t kLongestReply = 2 * (Exposure::kRunsMax + 2) + 1;

struct Limits {
    std::uint32_t wrs_per_call;
    std::uint32_t wrs_fixed;
};

// The credits that fit, at most those asked for; 0 when not even one does.
std::uint32_t fit_credits(const Demand& demand, const verbs::DeviceCaps& caps,
                          const Limits& limits) noexcept {
    const std::uint32_t recv_fixed = demand.backward_credits + kReceiveSlack;
    if (caps.max_send_wr < limits.wrs_fixed + limits.wrs_per_call ||
        caps.max_recv_wr < recv_fixed + 1)
        return 0;
    const std::uint32_t by_send = (caps.max_send_wr - limits.wrs_fixed) / limits.wrs_per_call;
    return std::min({demand.credits, by_send, caps.max_recv_wr - recv_fixed});
}

// Keys for the server's own memory: in place of many SGEs where that costs one work request; for
// every READ where the device wants it.
bool wants_local_keys(const verbs::DeviceCaps& caps) noexcept {
    return caps.fast_reg && caps.local_keys && (caps.page_list_reg || caps.read_sink_needs_key);
}

// A long message and a payload may share one run and one key.
std::uint32_t pages_of_key(const Demand& demand) noexcept {
    return div_ceil(demand.max_payload, kPageSize) + div_ceil(demand.max_message, kPageSize) +
           kEdgePages;
}

void add_memory(Provision& provision, const Demand& demand, std::uint32_t small,
                std::uint32_t large) noexcept {
    const std::uint32_t small_bytes = align_up(std::max(demand.max_message, 1u), kPageSize);
    const std::uint32_t large_bytes = pages_of_key(demand) * kPageSize;
    provision.page_classes[0] = {small_bytes, small};
    provision.page_classes[1] = {large_bytes, large};
    const auto buffers = [&](std::uint32_t count) noexcept {
        return align_up(std::size_t{count} * demand.inline_size, std::size_t{kPageSize});
    };
    provision.arena_bytes = std::size_t{small_bytes} * small    // long calls and replies
                            + std::size_t{large_bytes} * large  // payloads
                            + buffers(provision.send_buffers)   // inline, each pool page-aligned
                            + buffers(provision.recv_buffers);
}

Result<void> check(const Demand& demand, const verbs::DeviceCaps& caps,
                   std::uint32_t pages) noexcept {
    if (demand.credits == 0 || demand.inline_size == 0 || demand.max_payload == 0) {
        return Error{Errc::invalid_argument, 0,
                     "a connection without credits, inline size or payload"};
    }
    if (demand.max_payload > (1u << 30) || demand.max_message > (1u << 30)) {
        return Error{Errc::invalid_argument, 0, "payloads and messages beyond 1 GiB"};
    }
    if (caps.fast_reg && caps.page_list_reg && pages > caps.max_fast_reg_pages) {
        return Error{Errc::unsupported, 0, "a key of this device cannot cover one payload"};
    }
    return {};
}

}  // namespace

Result<Provision> Provision::for_client(const Demand& demand,
                                        const verbs::DeviceCaps& caps) noexcept {
    Provision p;
    p.pages_per_key = pages_of_key(demand);
    NR_TRY(check(demand, caps, p.pages_per_key));
    const Limits limits{kClientWrsPerCall, demand.backward_credits  // SENDs of backward replies
                                               + kDrainWrs};
    p.credits = fit_credits(demand, caps, limits);
    if (p.credits == 0)
        return Error{Errc::unsupported, 0, "the device's queues cannot hold one call"};
    p.send_wrs = p.credits * limits.wrs_per_call + limits.wrs_fixed;
    p.recv_wrs = p.credits + demand.backward_credits + kReceiveSlack;
    p.cq_entries = p.send_wrs + p.recv_wrs;  // all of them complete when they are flushed
    p.keys = with_slack(p.credits) * kKeysPerCall;
    p.transfers = 0;  // a client moves nothing itself
    p.send_buffers = with_slack(p.credits) + demand.backward_credits;
    p.recv_buffers = p.recv_wrs;
    add_memory(p, demand, with_slack(p.credits), with_slack(p.credits));
    return p;
}

Result<Provision> Provision::for_server(const Demand& demand,
                                        const verbs::DeviceCaps& caps) noexcept {
    Provision p;
    p.pages_per_key = pages_of_key(demand);
    NR_TRY(check(demand, caps, p.pages_per_key));
    const Limits limits{kServerWrsPerCall,
                        demand.backward_credits  // SENDs of backward calls
                            + kReceiveSlack      // SENDs of error replies
                            + kLongestReply      // so that it fits whatever else is posted
                            + kDrainWrs};
    p.credits = fit_credits(demand, caps, limits);
    if (p.credits == 0)
        return Error{Errc::unsupported, 0, "the device's queues cannot hold one call"};
    p.send_wrs = p.credits * limits.wrs_per_call + limits.wrs_fixed;
    p.recv_wrs = p.credits + demand.backward_credits + kReceiveSlack;
    p.cq_entries = p.send_wrs + p.recv_wrs;
    p.transfers = p.credits * kTransfersPerCall + kTransferSlack;
    p.keys = wants_local_keys(caps) ? p.transfers : 0;  // each transfer may need one
    p.send_buffers = p.credits + demand.backward_credits + kReceiveSlack;
    p.recv_buffers = p.recv_wrs;
    add_memory(p, demand, p.credits, p.credits);
    return p;
}

}  // namespace nfsrdma::pools
