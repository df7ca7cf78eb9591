#pragma once
#include <cstdint>
#include <memory>

#include "base/list.hpp"
#include "pools/page_list.hpp"
#include "svcrdma/ctxt.hpp"
#include "svcrdma/listener.hpp"

namespace nfsrdma::svcrdma {

// The memory that all connections of a loop share: message runs, in which replies are encoded, and
// payload runs, into which arguments are pulled and from which results are pushed.
//
// Operation. A Call takes a message run first, then perhaps a payload run for its arguments, then
// perhaps one for its result. What is not free is waited for: by the Calls of a connection first
// come first served, by the connections of the loop in turn, so that one with many Calls does not
// hold up one with few.
//
// Ownership. (1) A run is held by one RecvCtxt, in one of its three leases, until give_back. (2) No
// cycle of waiting: message runs are taken before payload runs and never after, and arguments never
// hold all of the large payload runs, so that a Call that waits for its result only waits for Calls
// that hold all they need.
//
// Errors. Errc::too_big: more than the largest run. `false`: queued; SvcTransport::make_ready
// follows, lease in place.
class PayloadRuns {
  public:
    // Bytes in front of res_room, for the transport header.
    static std::uint32_t header_room(const pools::Demand& demand) noexcept;
    static std::size_t arena_bytes(const ServerOptions& options) noexcept;
    static std::size_t message_bytes(const ServerOptions& options) noexcept;  // the first of them
    static Result<std::unique_ptr<PayloadRuns>> create(pools::Arena& arena,
                                                       const ServerOptions& options);
    PayloadRuns() = default;
    PayloadRuns(const PayloadRuns&) = delete;
    PayloadRuns& operator=(const PayloadRuns&) = delete;
    ~PayloadRuns();

    std::uint32_t largest() const noexcept { return payloads_->largest(); }
    bool take_message(RecvCtxt& call, ServerCounters& counters) noexcept;
    bool take_args(RecvCtxt& call, std::uint32_t bytes, ServerCounters& counters) noexcept;
    bool take_result(RecvCtxt& call, std::uint32_t bytes, ServerCounters& counters) noexcept;
    // All runs of `call` go home, and those who waited for them go on.
    void give_back(RecvCtxt& call) noexcept;
    void release(pools::PageList& list) noexcept;
    // Leaves the queue that it stands in, if it stands in one of ours.
    void forget(RecvCtxt& call) noexcept;
    bool full() const noexcept;
    // Somebody waits: there is more work than memory.
    bool scarce() noexcept { return !message_ring_.empty() || !payload_ring_.empty(); }

  private:
    enum class Outcome : std::uint8_t { taken, dry, reserved };
    using Ring = List<RunWaiters, RunWaiters>;  // whose turn it is stands first
    Outcome try_payload(RecvCtxt& call) noexcept;
    void serve() noexcept;
    bool serve_message() noexcept;
    bool serve_payload(bool& reserved) noexcept;
    std::unique_ptr<pools::PageListPool> messages_, payloads_;
    Ring message_ring_, payload_ring_;
    std::uint32_t large_count_ = 0;
    std::uint32_t args_large_ = 0;  // large runs that arguments hold: always below large_count_
};

}  // namespace nfsrdma::svcrdma
