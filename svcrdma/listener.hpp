#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/trace.hpp"
#include "pools/page_list.hpp"
#include "pools/provision.hpp"
#include "sunrpc/xprt.hpp"
#include "svcrdma/memory_budget.hpp"
#include "svcrdma/peer_table.hpp"
#include "verbs/device.hpp"

// The RPC-over-RDMA server transport: accepts connections of one loop and serves a sunrpc::Service
// on them.
namespace nfsrdma::svcrdma {

struct ServerOptions {
    pools::Demand demand;  // per connection
    // The one product option; no effect here: a server exposes no memory to its peers.
    pools::Registration registration = pools::Registration::automatic;
    pools::LocalStrategy local = pools::LocalStrategy::automatic;
    std::uint32_t connections_max = 256;
    // What a connection is granted at first; it grows with its use to demand.credits. 0: all of
    // them at once.
    std::uint32_t first_credits = 0;
    // Shared with other listeners, and outlives this one: what does not fit in is refused. nullptr:
    // no limit.
    MemoryBudget* memory = nullptr;
    // Limits and rates of each peer, and who is in quarantine; shared with other listeners, and
    // outlives this one. nullptr: no limits.
    PeerTable* peers = nullptr;
    // Connections of this listener that are being made; more are rejected. 0: no limit.
    std::uint32_t handshakes_max = 0;
    // Payload runs of max_payload shared by all connections of the loop.
    std::uint32_t payload_runs = 64;
    std::uint64_t idle_timeout_ns = 0;  // 0: never
    // A peer that takes none of its replies for so long is given up.
    std::uint64_t stall_timeout_ns = 30 * kNsPerSec;
    // A connection on which nothing was heard for so long is asked whether its peer lives, by an
    // RDMA WRITE of no bytes that its device answers. 0: never.
    std::uint64_t keepalive_ns = 0;
    // Calls that the service may have under way to each client by its connection (RFC 8167), which
    // sunrpc::SvcXprt::backward is for. 0: none, and nothing is prepared for them.
    std::uint32_t backward_credits = 0;
    // Where the stages of each call are noted, or nullptr; outlives the listener.
    TraceRing* trace = nullptr;
};

struct ServerCounters {
    std::uint64_t accepted = 0, rejected = 0, closed = 0, stalled = 0;
    std::uint64_t calls = 0, replies = 0, dropped = 0;
    std::uint64_t inline_calls = 0, read_chunk_calls = 0, long_calls = 0;
    std::uint64_t write_chunk_replies = 0, long_replies = 0, sends_with_inv = 0;
    std::uint64_t err_vers = 0, err_chunk = 0, bad_headers = 0;
    std::uint64_t waited_for_payload = 0, waited_for_send_room = 0;
    std::uint64_t waited_for_message_run = 0, waited_for_context = 0, waited_for_transfer = 0;
    std::uint64_t payload_copied_bytes = 0;
    std::uint64_t in_flight_max = 0;
    std::uint64_t refused_for_memory = 0;  // connections; also counted in `rejected`
    // Connections, by why they were rejected; also counted in `rejected`.
    std::uint64_t refused_quarantined = 0, refused_per_peer = 0, refused_too_fast = 0;
    std::uint64_t refused_full = 0, refused_handshakes = 0;
    std::uint64_t peer_faults = 0;                 // garbage, and accesses without a right
    std::uint64_t quarantines = 0;                 // that began here
    std::uint64_t waited_for_peer = 0;             // calls, while their peer had as many as it may
    std::uint64_t keepalives = 0, peers_lost = 0;  // asked; connections whose peer did not answer
    std::uint64_t grants_raised = 0, grants_lowered = 0, raises_refused = 0;
};

// One connection at one moment.
struct ConnectionStats {
    SockAddr peer;
    std::uint32_t credits = 0;  // granted last
    std::uint32_t calls_in_progress = 0;
    std::uint32_t receives_posted = 0;
    std::uint64_t calls = 0;
    std::uint64_t memory_bytes = 0;  // as counted against the budget
    pools::IoCounters io;
    verbs::QpCounters queue;
};

// The largest `payload_runs`, at most that of `options`, whose memory is within `bytes`; 0: not
// even the smallest is.
std::uint32_t payload_runs_within(const ServerOptions& options, std::uint64_t bytes) noexcept;

class Listener {
  public:
    // Listens on `local` (port 0: a free one). `service` and `device` outlive it.
    static Result<std::unique_ptr<Listener>> create(verbs::Device& device, const SockAddr& local,
                                                    sunrpc::Service& service,
                                                    const ServerOptions& options);
    virtual ~Listener() = default;
    virtual SockAddr local() const noexcept = 0;
    // Stops accepting, lets requests in progress finish until `grace_ns` passed, then closes every
    // connection. Run the loop until idle() before destruction, which asserts that all pools are
    // full.
    virtual void shut_down(std::uint64_t grace_ns) noexcept = 0;
    virtual bool idle() const noexcept = 0;
    virtual std::uint32_t connections() const noexcept = 0;
    virtual const ServerCounters& counters() const noexcept = 0;
    // Those that live, as many as there is room for; returns how many.
    virtual std::uint32_t connection_stats(std::span<ConnectionStats> out) const noexcept = 0;
    virtual pools::IoCounters io_counters()
        const noexcept = 0;  // summed over connections, living and closed
};

}  // namespace nfsrdma::svcrdma
