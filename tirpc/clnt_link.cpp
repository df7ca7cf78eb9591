#include "tirpc/clnt_link.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace nfsrdma::tirpc {
namespace {

constexpr std::uint64_t kForever = UINT64_MAX;
// A connection that is told to end by the end of its program's patience has some left.
constexpr std::uint64_t kConnectGraceNs = 2 * kNsPerSec;
constexpr std::uint64_t kAllocPatienceNs = 25 * kNsPerSec;  // a call's, by default
// Slots of the transport, and its payloads, two for each: a flight holds one of them at least.
std::uint32_t flights_for(std::uint32_t credits) noexcept {
    return 4 * (credits + div_ceil(credits, 8u) + 1);
}

bool is_ready(void* want) {
    return static_cast<const Want*>(want)->ready;
}

bool is_done(void* flight) {
    return static_cast<const Flight*>(flight)->done;
}

// For a program: its options in place of those of command lines, which explain() names.
std::string tell_program(const devices::Request& request, const Error& error) {
    std::string text = devices::explain(request, error);
    const std::size_t advice = text.find("; --");
    if (advice == std::string::npos) return text;
    text.resize(advice);
    return text + "; see `device` and `bind` of struct rpcrdma_opts";
}

struct Connecting {
    bool told = false;
    Result<void> outcome;
    static bool is_told(void* self) { return static_cast<const Connecting*>(self)->told; }
    static void tell(void* self, Result<void> outcome) noexcept {
        Connecting& connecting = *static_cast<Connecting*>(self);
        if (connecting.told) return;
        connecting.outcome = outcome;
        connecting.told = true;
    }
};

}  // namespace

// ---- begin and end

ClntLink::DrainTask::DrainTask() noexcept
    : Task([](Task& task) noexcept {
          ClntLink& home = *static_cast<DrainTask&>(task).link;
          home.drain_posted_.store(false);
          home.drain();
      }) {}

ClntLink::StallTimer::StallTimer() noexcept
    : Timer([](Timer& timer) noexcept { static_cast<StallTimer&>(timer).link->on_stall_timer(); }) {
}

ClntLink::ClntLink(const Options& options)
    : options_(options),
      flight_count_(flights_for(options.credits)),
      flights_(std::make_unique<Flight[]>(flight_count_)) {
    waiter_.link = drain_task_.link = stall_timer_.link = this;
    waiter_.wake = on_slot;
    for (std::uint32_t i = 0; i < flight_count_; ++i) {
        flights_[i].link = this;
        free_.push_back(flights_[i]);
    }
}

Result<std::unique_ptr<ClntLink>> ClntLink::create(const SockAddr& server, const Options& options,
                                                   std::string& text) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<ClntLink> link(new ClntLink(options));
    text.clear();
    auto driver = Driver::create();
    Result<void> connected;
    if (driver) {
        link->driver_ = *std::move(driver);
        connected = link->connect(server, text);
    } else {
        connected = driver.error();
    }
    if (connected) return link;
    if (text.empty())
        text = "connect to " + server.to_string() + ": " + to_string(connected.error());
    return connected.error();
}

Result<void> ClntLink::connect(const SockAddr& server, std::string& text) {
    Hold hold(*driver_);
    const devices::Request request = client_request(options_, server);
    auto opened = devices::open(driver_->loop(), request);
    if (!opened) {
        text = tell_program(request, opened.error());
        Error error = opened.error();
        if (error.code == Errc::unsupported) error.sys = ENODEV;
        return error;
    }
    device_ = std::move(opened->device);
    Connecting connecting;
    NR_TRY_ASSIGN(xprt_, xprtrdma::Transport::create(*device_, server, transport_options(options_),
                                                     Connecting::tell, &connecting));
    const std::uint64_t deadline =
        driver_->loop().now_ns() + options_.connect_timeout_ns + kConnectGraceNs;
    driver_->loop().expect_answer();
    Result<void> outcome = Error{Errc::timed_out, 0, "no answer"};
    if (hold.wait_held(Connecting::is_told, &connecting, deadline)) outcome = connecting.outcome;
    limits_ = xprt_->limits();
    // What is told from now on, it is told of in vain: `connecting` ends here.
    if (!outcome) {
        xprt_->close();
        static_cast<void>(hold.wait_held(
            [](void* xprt) { return static_cast<xprtrdma::Transport*>(xprt)->idle(); }, xprt_.get(),
            kForever));
    }
    return outcome;
}

ClntLink::~ClntLink() {
    if (driver_ == nullptr) return;
    disconnect();
    // Before its hooks are asked whether they are linked.
    free_.clear();
}

void ClntLink::disconnect() noexcept {
    Hold hold(*driver_);
    drain();
    driver_->loop().disarm(stall_timer_);
    // What the program did not give back: zero-copy results, memory of alloc.
    allocated_.clear();
    lent_.clear();
    for (std::uint32_t i = 0; i < flight_count_; ++i) {
        Flight& flight = flights_[i];
        if (flight.rqst != nullptr && !flight.one_way)
            xprt_->put_rqst(*std::exchange(flight.rqst, nullptr));
        flight.args.reset();
        flight.results.reset();
    }
    if (xprt_ != nullptr) {
        xprt_->stop_waiting(waiter_);
        xprt_->close();
    }
    const auto idle = [](void* self) {
        ClntLink& link = *static_cast<ClntLink*>(self);
        return !link.drain_posted_.load() && (link.xprt_ == nullptr || link.xprt_->idle());
    };
    static_cast<void>(hold.wait_held(idle, this, kForever));
    xprt_ = nullptr;
    device_ = nullptr;
}

// ---- what is given back

void ClntLink::give_back(Flight& flight) noexcept {
    flight.next_back = back_.load(std::memory_order_relaxed);
    while (!back_.compare_exchange_weak(flight.next_back, &flight))
        continue;
    // Who waits has counted itself before it looked at the stack for the last time.
    if (waiting_.load() != 0 && !drain_posted_.exchange(true)) driver_->loop().post(drain_task_);
}

void ClntLink::drain() noexcept {
    if (back_.load(std::memory_order_relaxed) == nullptr) return;
    Flight* next = back_.exchange(nullptr);
    while (next != nullptr)
        to_free(*std::exchange(next, next->next_back));
    serve_all();
}

void ClntLink::to_free(Flight& flight) noexcept {
    if (flight.rqst != nullptr) xprt_->put_rqst(*std::exchange(flight.rqst, nullptr));
    flight.args.reset();
    if (std::exchange(flight.reserved, false)) {
        NR_ASSERT(one_way_ != 0);
        --one_way_;
    }
    flight.kept = flight.lent_to != nullptr;
    if (flight.kept) return lent_.push_back(flight);
    flight.results.reset();
    flight.one_way = false;
    free_.push_front(flight);
}

// ---- what is taken

// So many one-way calls that a credit is left, and a slot.
std::uint32_t ClntLink::one_way_limit() const noexcept {
    return std::max(std::min(xprt_->credits_granted(), limits_.slots), 1u) - 1;
}

Result<void> ClntLink::attempt_slot(Want& want) noexcept {
    const bool reserves = want.one_way && !want.reserved;
    if (reserves && one_way_ >= one_way_limit())
        return Error{Errc::again, 0, "every credit but one is taken by one-way calls"};
    NR_TRY_ASSIGN(sunrpc::Rqst* const rqst, xprt_->get_rqst(want.call_max));
    Flight& flight = flight_of(want);
    NR_ASSERT(flight.rqst == nullptr);
    flight.rqst = rqst;
    flight.done = flight.one_way = false;
    flight.reserved = want.one_way;
    if (reserves) ++one_way_;
    return {};
}

// What was got of two is kept until the other is there: giving it back would wake whoever waits,
// which is this very want.
Result<void> ClntLink::attempt_payloads(Want& want) noexcept {
    if (want.alloc && allocs_ended_) return Error{Errc::closed, 0, "the CLIENT is being destroyed"};
    if (want.args_bytes != 0 && !want.args) {
        auto got = xprt_->get_payload(want.args_bytes);
        if (!got && got.error().code == Errc::again && want.alloc && !calls_hold_payloads())
            return Error{Errc::too_big, ENOMEM, "the program has all that there is"};
        if (!got) return got.error();
        want.args = *std::move(got);
    }
    if (want.results_bytes != 0 && !want.results) {
        NR_TRY_ASSIGN(want.results, xprt_->get_payload(want.results_bytes));
    }
    Flight& flight = flight_of(want);
    flight.args = std::move(want.args);
    flight.results = std::move(want.results);
    return {};
}

// Those who will give them back, sooner or later.
bool ClntLink::calls_hold_payloads() const noexcept {
    for (std::uint32_t i = 0; i < flight_count_; ++i) {
        const Flight& flight = flights_[i];
        if (!flight.kept && (flight.args || flight.results)) return true;
    }
    return false;
}

Flight& ClntLink::flight_of(Want& want) noexcept {
    if (want.flight == nullptr) {
        NR_ASSERT(!free_.empty());
        want.flight = &free_.pop_front();
    }
    return *want.flight;
}

Result<void> ClntLink::attempt(Want& want) noexcept {
    if (!xprt_->connected() && !xprt_->recovering())
        return Error{Errc::reconnect, 0, "the connection is gone"};
    Result<void> got = want.call_max != 0 ? attempt_slot(want) : attempt_payloads(want);
    if (!got && got.error().code == Errc::again) xprt_->wait_for_slot(waiter_);
    return got;
}

List<Want, Want>& ClntLink::queue_of(const Want& want) noexcept {
    if (want.call_max == 0) return payload_wants_;
    return want.one_way && !want.reserved ? one_way_wants_ : slot_wants_;
}

// First come, first served.
Result<void> ClntLink::obtain(Hold& hold, Want& want, std::uint64_t deadline_ns) noexcept {
    List<Want, Want>& queue = queue_of(want);
    if (queue.empty()) {
        Result<void> got = attempt(want);
        if (got || got.error().code != Errc::again) return got;
    }
    waiting_.fetch_add(1);
    drain();  // who gave back before that does not tell
    queue.push_back(want);
    serve(queue);
    if (!want.ready) static_cast<void>(hold.wait_held(is_ready, &want, deadline_ns));
    waiting_.fetch_sub(1);
    if (want.ready) return want.outcome;
    queue.erase(want);
    want.args.reset();
    want.results.reset();
    serve(queue);  // the next one may want less
    return Error{Errc::timed_out, 0, "no slot or memory of the connection came free"};
}

void ClntLink::serve(List<Want, Want>& wants) noexcept {
    while (!wants.empty()) {
        Want& want = wants.front();
        const Result<void> got = attempt(want);
        if (!got && got.error().code == Errc::again) return;
        wants.erase(want);
        want.outcome = got;
        want.ready = true;
    }
}

void ClntLink::serve_all() noexcept {
    serve(payload_wants_);
    serve(slot_wants_);
    serve(one_way_wants_);
}

void ClntLink::on_slot(sunrpc::SlotWaiter& waiter) noexcept {
    static_cast<Waiter&>(waiter).link->serve_all();
}

Result<Flight*> ClntLink::take(std::uint32_t call_max, bool one_way,
                               std::uint64_t deadline_ns) noexcept {
    Hold hold(*driver_);
    drain();
    Want want;
    want.call_max = call_max;
    want.one_way = one_way;
    NR_TRY(obtain(hold, want, deadline_ns));
    return want.flight;
}

Result<Flight*> ClntLink::change_slot(Flight& flight, std::uint32_t call_max,
                                      std::uint64_t deadline_ns) noexcept {
    Hold hold(*driver_);
    drain();
    Want want;
    want.call_max = call_max;
    want.one_way = want.reserved = std::exchange(flight.reserved, false);
    to_free(flight);
    const Result<void> got = obtain(hold, want, deadline_ns);
    if (got) return want.flight;
    if (want.reserved) {
        --one_way_;
        serve(one_way_wants_);
    }
    return got.error();
}

Result<void> ClntLink::provide(Flight& flight, std::uint32_t args_bytes,
                               std::uint32_t results_bytes, std::uint64_t deadline_ns) noexcept {
    Hold hold(*driver_);
    drain();
    Want want;
    want.flight = &flight;
    want.args_bytes = args_bytes;
    want.results_bytes = results_bytes;
    return obtain(hold, want, deadline_ns);
}

bool ClntLink::allows_one_way() noexcept {
    const Hold hold(*driver_);
    return one_way_limit() != 0;
}

// ---- calls

void ClntLink::on_complete(sunrpc::Rqst& rqst, Result<void> result) noexcept {
    Flight& flight = *static_cast<Flight*>(rqst.user);
    flight.outcome = result;
    flight.done = true;
    if (flight.one_way) flight.link->on_one_way_done(flight);
}

void ClntLink::on_one_way_done(Flight& flight) noexcept {
    to_free(flight);
    serve(one_way_wants_);
}

Result<void> ClntLink::fly(Flight& flight, std::uint64_t deadline_ns, bool& sent) noexcept {
    Hold hold(*driver_);
    drain();
    flight.done = sent = false;
    flight.rqst->complete = on_complete;
    flight.rqst->user = &flight;
    NR_TRY(xprt_->send(*flight.rqst));
    sent = true;
    driver_->loop().expect_answer();
    if (hold.wait_for(is_done, &flight, deadline_ns)) return flight.outcome;
    const Hold again(*driver_);
    if (flight.done) return flight.outcome;
    // Its memory and keys stay the transport's until the reply, or the end of the connection.
    xprt_->put_rqst(*std::exchange(flight.rqst, nullptr));
    watch_for_stall();
    return Error{Errc::timed_out, 0, "wait for the reply"};
}

Result<void> ClntLink::fly_one_way(Flight& flight) noexcept {
    const Hold hold(*driver_);
    drain();
    flight.done = false;
    flight.one_way = true;
    flight.rqst->complete = on_complete;
    flight.rqst->user = &flight;
    const Result<void> sent = xprt_->send(*flight.rqst);
    if (!sent) {
        flight.one_way = false;
        return sent;
    }
    static_cast<void>(driver_->loop().run_once(0));  // nobody else may, for a while
    watch_for_stall();
    return {};
}

// ---- the server that drops calls

// Calls that nobody waits for have all the credits: no other goes out.
bool ClntLink::is_stalled() noexcept {
    return xprt_->all_given_up([](const sunrpc::Rqst& rqst) noexcept {
        return static_cast<const Flight*>(rqst.user)->one_way;
    });
}

// Asked whenever a call was given up; the timer runs while it holds.
void ClntLink::watch_for_stall() noexcept {
    if (stall_timer_.armed() || !is_stalled()) return;
    Loop& loop = driver_->loop();
    stall_replies_ = xprt_->counters().replies;
    loop.arm(stall_timer_, loop.now_ns() + options_.stall_ns);
}

void ClntLink::on_stall_timer() noexcept {
    if (xprt_->counters().replies != stall_replies_) return watch_for_stall();
    if (is_stalled())
        xprt_->end_connection("every credit is of a call that the server did not answer");
}

// ---- memory of the connection for the program

Result<std::span<std::byte>> ClntLink::alloc(std::uint32_t bytes) noexcept {
    Hold hold(*driver_);
    drain();
    if (bytes == 0 || bytes > limits_.max_payload)
        return Error{Errc::too_big, 0, "0 bytes, or more than max_payload"};
    Want want;
    want.args_bytes = bytes;
    want.alloc = true;
    NR_TRY(obtain(hold, want, now_ns() + kAllocPatienceNs));
    want.flight->kept = true;
    allocated_.push_back(*want.flight);
    allocated_count_.fetch_add(1, std::memory_order_relaxed);
    return want.flight->args.memory();
}

void ClntLink::end_allocs() noexcept {
    const Hold hold(*driver_);
    drain();
    allocs_ended_ = true;
    serve(payload_wants_);
}

bool ClntLink::free(const void* memory) noexcept {
    const Hold hold(*driver_);
    drain();
    for (Flight& flight : allocated_) {
        if (flight.args.memory().data() != memory) continue;
        allocated_.erase(flight);
        allocated_count_.fetch_sub(1, std::memory_order_relaxed);
        to_free(flight);
        return true;
    }
    return false;
}

bool ClntLink::is_allocated(std::span<const std::byte> memory) noexcept {
    if (allocated_count_.load(std::memory_order_relaxed) == 0) return false;
    const Hold hold(*driver_);
    const std::uint64_t begin = address_of(memory.data());
    for (const Flight& flight : allocated_) {
        const std::span<const std::byte> whole = flight.args.memory();
        const std::uint64_t at = address_of(whole.data());
        if (begin >= at && begin - at <= whole.size() &&
            memory.size() <= whole.size() - (begin - at))
            return true;
    }
    return false;
}

void ClntLink::take_back(xdrproc_t routine, void* object) noexcept {
    const Hold hold(*driver_);
    drain();
    for (Flight& flight : lent_) {
        if (flight.lent_to != routine) continue;
        // Of the same type as what was lent to: there is a pointer, of it or of a copy of it.
        char* const slot = static_cast<char*>(object) + flight.lent_offset;
        char* pointer = nullptr;
        std::memcpy(&pointer, slot, sizeof pointer);
        if (as_bytes(pointer) != flight.results.memory().data()) continue;
        pointer = nullptr;
        std::memcpy(slot, &pointer, sizeof pointer);
        lent_.erase(flight);
        flight.lent_to = nullptr;
        return to_free(flight);
    }
}

std::uint64_t ClntLink::tasks_run() noexcept {
    const Hold hold(*driver_);
    return driver_->loop().counters().tasks_run;
}

xprtrdma::TransportCounters ClntLink::counters(std::uint64_t& late,
                                               std::uint32_t& connections) noexcept {
    const Hold hold(*driver_);
    drain();
    const xprtrdma::TransportCounters& counters = xprt_->counters();
    late = counters.late_replies;
    connections = xprt_->connected() ? 1 : 0;
    return counters;
}

}  // namespace nfsrdma::tirpc
