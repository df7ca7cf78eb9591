#include "svcrdma/payload_runs.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bytes.hpp"
#include "svcrdma/transport.hpp"

namespace nfsrdma::svcrdma {

namespace {

// Small payloads do not take the big runs away.
constexpr std::uint32_t kSmallRun = 16 << 10;
constexpr std::uint32_t kSmallPerLarge = 4;

struct Sizes {
    std::uint32_t message_bytes, message_count;
    std::uint32_t small_bytes, small_count, large_bytes, large_count;
};

Sizes sizes(const ServerOptions& options) noexcept {
    const pools::Demand& demand = options.demand;
    Sizes s{};
    s.message_bytes =
        PayloadRuns::header_room(demand) + align_up(demand.max_message, pools::kPageSize);
    // As many Calls as have payloads, and as many again that have none, such as lookups.
    s.message_count = std::max(2 * options.payload_runs, 2 * demand.credits) +
                      kSmallPerLarge * options.payload_runs;
    // A long Call: its message, then the item on the next page (Layout::whole_item).
    s.large_bytes = align_up(demand.max_message, pools::kPageSize) +
                    align_up(demand.max_payload, pools::kPageSize) + pools::kPageSize;
    s.large_count = std::max(options.payload_runs, 2u);  // one that arguments leave to results
    s.small_bytes = std::min(kSmallRun, s.large_bytes / 2);
    s.small_bytes = align_up(s.small_bytes, pools::kPageSize);
    s.small_count = s.small_bytes < s.large_bytes ? kSmallPerLarge * options.payload_runs : 0;
    return s;
}

template <class Ring>
void queue(Ring& ring, RunWaiters& waiters, RecvCtxt& call) noexcept {
    if (waiters.calls.empty()) ring.push_back(waiters);
    waiters.calls.push_back(call);
}

template <class Ring>
void unqueue(Ring& ring, RunWaiters& waiters, RecvCtxt& call) noexcept {
    waiters.calls.erase(call);
    if (waiters.calls.empty()) ring.erase(waiters);
}

// As unqueue; its connection has had its turn.
template <class Ring>
void serve_next(Ring& ring, RunWaiters& waiters, RecvCtxt& call) noexcept {
    waiters.calls.erase(call);
    ring.erase(waiters);
    if (!waiters.calls.empty()) ring.push_back(waiters);
}

}  // namespace

std::uint32_t PayloadRuns::header_room(const pools::Demand& demand) noexcept {
    return align_up(demand.inline_size, pools::kPageSize);
}

std::size_t PayloadRuns::message_bytes(const ServerOptions& options) noexcept {
    const Sizes s = sizes(options);
    return std::size_t{s.message_bytes} * s.message_count;
}

std::size_t PayloadRuns::arena_bytes(const ServerOptions& options) noexcept {
    const Sizes s = sizes(options);
    return std::size_t{s.message_bytes} * s.message_count +
           std::size_t{s.small_bytes} * s.small_count + std::size_t{s.large_bytes} * s.large_count;
}

Result<std::unique_ptr<PayloadRuns>> PayloadRuns::create(pools::Arena& arena,
                                                         const ServerOptions& options) {
    const Sizes s = sizes(options);
    auto runs = std::make_unique<PayloadRuns>();
    const std::array messages{pools::PageListPool::ClassSpec{s.message_bytes, s.message_count}};
    NR_TRY_ASSIGN(runs->messages_, pools::PageListPool::create(arena, messages));
    const std::array payloads{pools::PageListPool::ClassSpec{s.small_bytes, s.small_count},
                              pools::PageListPool::ClassSpec{s.large_bytes, s.large_count}};
    NR_TRY_ASSIGN(runs->payloads_, pools::PageListPool::create(arena, payloads));
    runs->large_count_ = s.large_count;
    return runs;
}

PayloadRuns::~PayloadRuns() {
    NR_ASSERT(message_ring_.empty() && payload_ring_.empty());
}

bool PayloadRuns::take_message(RecvCtxt& call, ServerCounters& counters) noexcept {
    if (call.message) return true;
    if (message_ring_.empty()) {
        if (auto lease = messages_->get(1)) {
            call.message = *std::move(lease);
            return true;
        }
    }
    ++counters.waited_for_message_run;
    call.wait = Wait::message_run;
    queue(message_ring_, call.transport->message_waiters(), call);
    return false;
}

bool PayloadRuns::take_args(RecvCtxt& call, std::uint32_t bytes,
                            ServerCounters& counters) noexcept {
    if (call.args) return true;
    call.run_bytes = bytes;
    call.wait = Wait::args_run;
    if (payload_ring_.empty() && try_payload(call) == Outcome::taken) {
        call.wait = Wait::none;
        return true;
    }
    ++counters.waited_for_payload;
    queue(payload_ring_, call.transport->payload_waiters(), call);
    return false;
}

bool PayloadRuns::take_result(RecvCtxt& call, std::uint32_t bytes,
                              ServerCounters& counters) noexcept {
    call.run_bytes = bytes;
    const Wait before = std::exchange(call.wait, Wait::result_run);
    if (payload_ring_.empty() && try_payload(call) == Outcome::taken) {
        call.wait = before;
        return true;
    }
    queue(payload_ring_, call.transport->payload_waiters(), call);
    serve();  // arguments that wait in front for a second run do not hold up a result
    if (call.result) {
        call.wake_service = false;
        return true;
    }
    ++counters.waited_for_payload;
    return false;
}

PayloadRuns::Outcome PayloadRuns::try_payload(RecvCtxt& call) noexcept {
    auto lease = payloads_->get(call.run_bytes);
    if (!lease) return Outcome::dry;
    if (call.wait != Wait::args_run) {
        call.result = *std::move(lease);
        return Outcome::taken;
    }
    if ((*lease)->capacity() == payloads_->largest()) {
        if (args_large_ + 1 >= large_count_) return Outcome::reserved;
        ++args_large_;
    }
    call.args = *std::move(lease);
    return Outcome::taken;
}

void PayloadRuns::give_back(RecvCtxt& call) noexcept {
    if (call.args && call.args->capacity() == payloads_->largest()) --args_large_;
    call.message.reset();
    call.args.reset();
    call.result.reset();
    serve();
}

void PayloadRuns::release(pools::PageList& list) noexcept {
    pools::Lease<pools::PageList>::reclaim(list).reset();
    serve();
}

void PayloadRuns::forget(RecvCtxt& call) noexcept {
    switch (call.wait) {
        case Wait::message_run:
            unqueue(message_ring_, call.transport->message_waiters(), call);
            break;
        case Wait::args_run:
        case Wait::result_run:
            unqueue(payload_ring_, call.transport->payload_waiters(), call);
            break;
        case Wait::none:
        case Wait::ready:
        case Wait::transfer:
            return;
    }
    call.wait = Wait::none;
    serve();  // whoever stood behind it may be served by what is there
}

// The connections in turn, each one's Calls in order. One exception: a result may go before
// arguments that would take the last large run.
void PayloadRuns::serve() noexcept {
    while (serve_message()) {
    }
    bool reserved = false;
    while (serve_payload(reserved)) {
    }
}

bool PayloadRuns::serve_message() noexcept {
    if (message_ring_.empty()) return false;
    auto lease = messages_->get(1);
    if (!lease) return false;
    RunWaiters& turn = message_ring_.front();
    RecvCtxt& call = turn.calls.front();
    serve_next(message_ring_, turn, call);
    call.message = *std::move(lease);
    call.wait = Wait::none;
    call.transport->make_ready(call);
    return true;
}

// `reserved`: no arguments can be served any more.
bool PayloadRuns::serve_payload(bool& reserved) noexcept {
    for (RunWaiters& turn : payload_ring_) {
        for (RecvCtxt& call : turn.calls) {
            const bool args = call.wait == Wait::args_run;
            if (args && reserved) continue;
            const Outcome outcome = try_payload(call);
            if (outcome == Outcome::dry) return false;
            if (outcome == Outcome::reserved) {
                reserved = true;
                continue;
            }
            serve_next(payload_ring_, turn, call);
            call.wait = Wait::none;
            call.wake_service = !args;
            call.transport->make_ready(call);
            return true;
        }
    }
    return false;
}

bool PayloadRuns::full() const noexcept {
    return messages_->full() && payloads_->full();
}

}  // namespace nfsrdma::svcrdma
