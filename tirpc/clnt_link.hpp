#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <rpc/rpc.h>

#include "base/list.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "sunrpc/xprt.hpp"
#include "tirpc/driver.hpp"
#include "tirpc/options.hpp"
#include "verbs/device.hpp"
#include "xprtrdma/transport.hpp"

// The connection of one CLIENT: a loop that its callers drive, a device, a transport; and what a
// caller takes of them for a call.
namespace nfsrdma::tirpc {

class ClntLink;

// What one call holds of its connection. The caller's from ClntLink::take to give_back; what the
// loop writes into it (`done`, `outcome`) is read after a wait only.
struct Flight : ListHook<Flight> {
    sunrpc::Rqst* rqst = nullptr;   // nullptr once the call was given up
    sunrpc::Payload args, results;  // for the items that go by RDMA
    bool done = false;
    Result<void> outcome;
    bool one_way = false;   // on the wire, and nobody waits for it
    bool reserved = false;  // counted among the one-way calls
    bool kept = false;      // its payload is the program's: of alloc(), or lent
    // Given back, but its results stay with the program: lent to the object that this routine
    // decoded, whose pointer at this offset leads there.
    xdrproc_t lent_to = nullptr;
    std::int32_t lent_offset = 0;
    Flight* next_back = nullptr;  // of those that were given back
    ClntLink* link = nullptr;
};

// What a caller waits for when it is not to be had at once.
struct Want : ListHook<Want> {
    Flight* flight = nullptr;
    std::uint32_t call_max = 0;                       // of a slot; 0: payloads are wanted
    std::uint32_t args_bytes = 0, results_bytes = 0;  // of payloads
    sunrpc::Payload args, results;                    // of these, what it has got so far
    bool one_way = false;
    bool reserved = false;  // one_way: counted among them already
    bool alloc = false;     // for the program, which may have all that there is
    bool ready = false;     // `outcome` is set, and what was wanted is the flight's
    Result<void> outcome;
};

// Operation. take() gives a slot, in whose room the caller encodes its call as its own thread, with
// no loop held; provide() the memory for what goes by RDMA; fly() sends, and drives the loop until
// the reply is there, which the caller then decodes, again with no loop held. What is given back
// goes to a stack without a lock that whoever next holds the loop empties: giving back costs no
// turn of the loop and no wake-up, unless somebody waits for it.
//
// Ownership. (1) A Flight is in free_, or its caller's, or given back, or lent (its results belong
// to the program until clnt_freeres), or one_way. (2) Its slot and payloads are the transport's
// again only under a Hold. (3) Who waits for payloads has a slot and is served before those that
// wait for slots. Only the first of them holds one of its two payloads while it waits for the
// other, which those have who wait for none. (4) One-way calls are counted from take() to
// to_free(), over a change of the slot. (5) Who has no slot and no payload has no flight: there are
// as many as these can be.
//
// Threads: any, but for create and the destructor.
class ClntLink {
  public:
    // Connects; waits for it, at most the time of the options. `text` says on failure, for
    // people, what was tried and why it failed.
    static Result<std::unique_ptr<ClntLink>> create(const SockAddr& server, const Options& options,
                                                    std::string& text);
    // Nobody is in a call. Disconnects.
    ~ClntLink();
    ClntLink(const ClntLink&) = delete;
    ClntLink& operator=(const ClntLink&) = delete;

    std::uint64_t now_ns() const noexcept { return driver_->loop().now_ns(); }
    // Of the loop: what it does for those that wait.
    std::uint64_t tasks_run() noexcept;
    const sunrpc::XprtLimits& limits() const noexcept { return limits_; }

    // A slot with room for a call of `call_max` bytes. `one_way`: none that would be the last one.
    // Errc::timed_out; Errc::too_big; Errc::reconnect, Errc::closed: there is no connection.
    Result<Flight*> take(std::uint32_t call_max, bool one_way, std::uint64_t deadline_ns) noexcept;
    // Another slot in place of this one, which is given back in any case. Errors as above.
    Result<Flight*> change_slot(Flight& flight, std::uint32_t call_max,
                                std::uint64_t deadline_ns) noexcept;
    // Memory for the items of the call and of its results; 0: none. Errors as of take.
    Result<void> provide(Flight& flight, std::uint32_t args_bytes, std::uint32_t results_bytes,
                         std::uint64_t deadline_ns) noexcept;
    // Whether there may ever be a one-way call: a connection has one credit until its first reply,
    // and that is never theirs.
    bool allows_one_way() noexcept;
    // Whether memory is of alloc(), and stays it as long as the program does not free it.
    bool is_allocated(std::span<const std::byte> memory) noexcept;

    // Sends, and waits for the reply. Errc::timed_out: the call was given up; its keys die with its
    // reply or its connection. `sent` tells whether it may have reached the server.
    Result<void> fly(Flight& flight, std::uint64_t deadline_ns, bool& sent) noexcept;
    // Sends, and waits for nothing: the flight is the link's.
    Result<void> fly_one_way(Flight& flight) noexcept;
    void give_back(Flight& flight) noexcept;

    // Memory of the connection for a program. Waits, for so long at most as a call does by default,
    // while calls have what there is. Errc::too_big: there is none so large, or, with ENOMEM, all
    // is the program's own, or of calls that were given up. Errc::timed_out, reconnect, closed.
    Result<std::span<std::byte>> alloc(std::uint32_t bytes) noexcept;
    // Whoever waits in alloc() is told Errc::closed; so is whoever would.
    void end_allocs() noexcept;
    bool free(const void* memory) noexcept;  // false: it is none of alloc
    // The program is done with `object`, which `routine` decoded: takes back what was lent to it,
    // and nulls its pointer.
    void take_back(xdrproc_t routine, void* object) noexcept;

    // Exact, as of one moment. `late` are replies to calls that had been given up.
    xprtrdma::TransportCounters counters(std::uint64_t& late, std::uint32_t& connections) noexcept;

  private:
    using Hold = Driver::Hold;
    struct Waiter final : sunrpc::SlotWaiter {
        ClntLink* link = nullptr;
    };
    struct DrainTask final : Task {
        DrainTask() noexcept;
        ClntLink* link = nullptr;
    };
    struct StallTimer final : Timer {
        StallTimer() noexcept;
        ClntLink* link = nullptr;
    };

    explicit ClntLink(const Options& options);
    Result<void> connect(const SockAddr& server, std::string& text);
    void disconnect() noexcept;
    void drain() noexcept;
    void to_free(Flight& flight) noexcept;
    std::uint32_t one_way_limit() const noexcept;
    Result<void> attempt(Want& want) noexcept;
    Result<void> attempt_slot(Want& want) noexcept;
    Result<void> attempt_payloads(Want& want) noexcept;
    Flight& flight_of(Want& want) noexcept;
    Result<void> obtain(Hold& hold, Want& want, std::uint64_t deadline_ns) noexcept;
    List<Want, Want>& queue_of(const Want& want) noexcept;
    void serve(List<Want, Want>& wants) noexcept;
    void serve_all() noexcept;
    static void on_slot(sunrpc::SlotWaiter& waiter) noexcept;
    static void on_complete(sunrpc::Rqst& rqst, Result<void> result) noexcept;
    void on_one_way_done(Flight& flight) noexcept;
    bool calls_hold_payloads() const noexcept;
    bool is_stalled() noexcept;
    void watch_for_stall() noexcept;
    void on_stall_timer() noexcept;

    Options options_;
    sunrpc::XprtLimits limits_;
    std::unique_ptr<Driver> driver_;
    // Of who holds the loop.
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<xprtrdma::Transport> xprt_;
    std::uint32_t flight_count_ = 0;
    std::unique_ptr<Flight[]> flights_;
    List<Flight, Flight> free_, allocated_, lent_;
    List<Want, Want> payload_wants_, slot_wants_, one_way_wants_;
    Waiter waiter_;
    std::uint32_t one_way_ = 0;  // taken and not free again
    bool allocs_ended_ = false;
    StallTimer stall_timer_;
    std::uint64_t stall_replies_ = 0;  // that there were when it was armed

    std::atomic<Flight*> back_{nullptr};  // given back
    std::atomic<std::uint32_t> waiting_{0};
    std::atomic<std::uint32_t> allocated_count_{
        0};  // size of allocated_, to look at without a Hold
    std::atomic<bool> drain_posted_{false};
    DrainTask drain_task_;
};

}  // namespace nfsrdma::tirpc
