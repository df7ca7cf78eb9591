#pragma once
#include <cstdint>
#include <memory>

#include "base/trace.hpp"
#include "pools/page_list.hpp"
#include "pools/provision.hpp"
#include "rpcrdma/proto.hpp"
#include "sunrpc/xprt.hpp"
#include "verbs/device.hpp"

// The RPC-over-RDMA client transport: RFC 8166 over one reliable connection.
namespace nfsrdma::xprtrdma {

// What becomes of a connection that ends without our asking.
struct RecoveryOptions {
    // false: the transport ends with its connection, and every pending call with Errc::reconnect.
    // true: it connects again, and sends again what has no reply yet.
    bool on = false;
    // Also when the very first attempt fails; else that is told to `connected`, as the end.
    bool first_too = false;
    // The first attempt follows at once when the last connection brought a reply. Else, and after
    // each attempt that failed, it waits: twice as long each time, give or take a quarter at
    // random.
    std::uint64_t first_delay_ns = 50 * kNsPerMs;
    std::uint64_t max_delay_ns = 2 * kNsPerSec;
    // Until established or failed, of each attempt after the first connection.
    std::uint64_t try_timeout_ns = 2 * kNsPerSec;
    // Gives up after so many attempts in a row, or so long without a connection while one is
    // wanted; 0: never. Giving up ends the transport: every pending call with Errc::reconnect.
    // Nobody wants one: it is tried for once a minute, and at once when somebody does.
    std::uint32_t tries_max = 0;
    std::uint64_t give_up_ns = 0;
    std::uint64_t seed = 0;  // of the delays; 0: from getrandom(2)
};

// A peer that is gone and one that thinks look the same: so it is asked. See docs/adr/0018.
struct PingOptions {
    // Nothing was heard for so long while calls are outstanding: ping. Twice as long after each
    // ping that was answered, up to the second. 0: never.
    std::uint64_t after_ns = 200 * kNsPerMs, after_max_ns = 3 * kNsPerSec;
    std::uint64_t timeout_ns = 5 * kNsPerSec;  // without an answer the connection has ended
    // Where the transport recovers: a ping is unanswered for so long, and its host is asked by a
    // connect request to a port where nobody listens. When that is refused, and the ping still not
    // answered after the second time, another lives there than this connection knew. 0: never.
    std::uint64_t probe_after_ns = 100 * kNsPerMs, probe_grace_ns = 400 * kNsPerMs;
};

// Calls of the server to this client by the same connection (RFC 8167), inline only.
struct BackwardOptions {
    sunrpc::Service* service = nullptr;  // outlives the transport; nullptr: such calls are dropped
    std::uint32_t credits = 16;          // calls at a time; each has a Receive of its own
};

struct TransportOptions {
    pools::Demand demand;
    pools::Registration registration = pools::Registration::automatic;
    pools::LocalStrategy local = pools::LocalStrategy::automatic;
    std::uint64_t connect_timeout_ns = 10 * kNsPerSec;
    // A call that is on the wire this long without a reply, abandoned or not, ends the connection:
    // RC has no keepalive, and a peer that died after it acknowledged would never be missed. 0:
    // never.
    std::uint64_t reply_timeout_ns = 60 * kNsPerSec;
    // Payloads at or above this many bytes go by chunk even where they would fit inline (DDP);
    // below it, inline if they fit.
    std::uint32_t min_chunk_bytes = 2048;
    RecoveryOptions recovery;
    PingOptions ping;
    BackwardOptions backward;
    // Where the events of each call are noted, or nullptr; outlives the transport.
    TraceRing* trace = nullptr;
    std::uint32_t trace_connection = 0;
};

// Exact counts (facts R11's names where they exist).
struct TransportCounters {
    std::uint64_t calls = 0, replies = 0;
    std::uint64_t inline_calls = 0, read_chunk_calls = 0, long_calls = 0;
    std::uint64_t write_chunk_calls = 0, reply_chunk_calls = 0;
    std::uint64_t bad_replies = 0, bad_xids = 0, short_replies = 0, bad_versions = 0, err_vers = 0,
                  err_chunk = 0;
    std::uint64_t waited_for_credit = 0, waited_for_key = 0, waited_for_slot = 0,
                  waited_for_payload = 0;
    std::uint64_t local_invalidations = 0, remote_invalidations = 0, bad_invalidations = 0;
    std::uint64_t payload_copied_bytes = 0;  // fix-up copies of inline payload
    std::uint64_t abandoned = 0, disconnects = 0, reply_timeouts = 0;
    std::uint64_t late_replies = 0;  // to calls that had been abandoned
    std::uint64_t keys_bound = 0, doorbells = 0, in_flight_max = 0;
    std::uint64_t backward_calls = 0, backward_overruns = 0;
    std::uint64_t reconnects = 0, reconnect_tries = 0;  // that worked, and all
    std::uint64_t resends = 0;                          // calls, each time that they were
    std::uint64_t keys_renewed = 0;
    std::uint64_t recover_ns = 0, recover_ns_max = 0;  // from a connection's end to the next one
    std::uint64_t pings = 0, ping_timeouts = 0, probes = 0, probes_told = 0;
    std::uint64_t err_chunk_retries = 0;  // with a larger Reply chunk
};

class Transport : public sunrpc::Xprt {
  public:
    // Starts connecting to `server`; `connected` runs once, on the loop, with the outcome
    // (Errc::refused, timed_out, unsupported, system ...). Pools are made before the request goes
    // out. `device` outlives the transport.
    using Connected = void (*)(void* arg, Result<void> outcome) noexcept;
    static Result<std::unique_ptr<Transport>> create(verbs::Device& device, const SockAddr& server,
                                                     const TransportOptions& options,
                                                     Connected connected, void* arg);
    // The same for a program that has nothing else to do meanwhile: runs the device's loop until
    // there is a connection, or the attempt failed. Not from inside a callback of that loop.
    static Result<std::unique_ptr<Transport>> connect(verbs::Device& device, const SockAddr& server,
                                                      const TransportOptions& options);
    // close(), and runs the loop until idle(). Not from inside a callback. The caller has put every
    // Rqst and released every Payload: it would wait for them for ever.
    void finish() noexcept;
    // Close first and run the loop until idle(), or finish(): the destructor asserts that all pools
    // are full.
    ~Transport() override = default;
    virtual bool idle() const noexcept = 0;  // disconnected, everything flushed and home
    virtual const TransportCounters& counters() const noexcept = 0;
    virtual const pools::IoCounters& io_counters() const noexcept = 0;
    virtual rpcrdma::InlineLimits inline_limits() const noexcept = 0;
    virtual std::uint32_t credits_granted() const noexcept = 0;
    // Whether every credit is held by a call that was abandoned, or of which `nobody_waits` says
    // so: then no call goes out until one of them is answered, or the connection ends.
    virtual bool all_given_up(bool (*nobody_waits)(const sunrpc::Rqst& rqst) noexcept) noexcept = 0;
    // Ends the connection as one that broke: recovers, or fails what is pending, with `why`.
    virtual void end_connection(const char* why) noexcept = 0;
    virtual const SockAddr& server() const noexcept = 0;
    // Why the last connection ended, or the last attempt failed.
    virtual const Error& why_down() const noexcept = 0;
    // Runs each time that recovery begins (false) and that there is a connection again (true).
    virtual void on_recovery(void (*changed)(void*, bool connected) noexcept,
                             void* arg) noexcept = 0;
    // Runs once when the connection is lost for good, after every pending RPC was answered.
    virtual void on_disconnect(void (*lost)(void*) noexcept, void* arg) noexcept = 0;
};

}  // namespace nfsrdma::xprtrdma
