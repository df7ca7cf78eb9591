#include "xprtrdma/transport.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/random.h>
#include <utility>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "xprtrdma/transport_impl.hpp"

// Set-up, and what callers do. What happens by itself stands in progress.cpp.
namespace nfsrdma::xprtrdma {
namespace {

constexpr std::uint32_t kReceiveBatch = 7;  // facts R10
constexpr std::uint32_t kRunsPerReq = 2;    // a long call and a Reply chunk
constexpr std::uint32_t kArenaPools = 5;    // each carved from a page boundary
constexpr std::uint32_t kZeroBytes = 4;     // XDR pad
// A Probe's queue pair completes by the same queue: a Send, a Receive and what drains it.
constexpr std::uint32_t kProbeEntries = 3;

bool lies_in(std::span<const std::byte> part, std::span<const std::byte> whole) noexcept {
    const std::uint64_t begin = address_of(whole.data());
    const std::uint64_t at = address_of(part.data());
    return part.empty() || (at >= begin && at - begin <= whole.size() &&
                            part.size() <= whole.size() - (at - begin));
}

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
    const std::uint64_t at_a = address_of(a.data()), at_b = address_of(b.data());
    return !a.empty() && !b.empty() && at_a < at_b + b.size() && at_b < at_a + a.size();
}

std::uint32_t slack_of(std::uint32_t credits) noexcept {
    return std::max(credits / 8, 1u);
}

// The delays of many clients of one server are to differ.
std::uint64_t seed_of(const RecoveryOptions& options) noexcept {
    if (options.seed != 0) return options.seed;
    std::uint64_t seed = 0;
    if (::getrandom(&seed, sizeof seed, GRND_NONBLOCK) != static_cast<ssize_t>(sizeof seed))
        seed = RealClock{}.now_ns();
    return seed;
}

}  // namespace

Result<Counts> Counts::of(const pools::Demand& demand, const verbs::DeviceCaps& caps) noexcept {
    Counts counts;
    NR_TRY_ASSIGN(counts.provision, pools::Provision::for_client(demand, caps));
    const pools::Provision& provision = counts.provision;
    counts.reqs = provision.credits + slack_of(provision.credits);
    counts.backward = demand.backward_credits;
    counts.receive_batch = std::min(kReceiveBatch, provision.credits);
    // A Receive is posted, or held by a call that is answered, or waits for its batch. With this
    // many, those posted are never fewer than the calls in flight, of both directions.
    counts.receives = std::min(
        std::max(provision.recv_buffers, counts.reqs + counts.receive_batch + counts.backward),
        caps.max_recv_wr);
    counts.send_buffer_bytes = align_up(kHeaderRoom + demand.inline_size, 64u);
    counts.message_bytes = align_up(std::max(demand.max_message, 1u), pools::kPageSize);
    counts.message_runs = counts.reqs * kRunsPerReq;
    counts.send_sges = std::min(kSendSgesMax, caps.max_send_sge);
    counts.arena_bytes =
        provision.arena_bytes                                      // payloads
        + std::size_t{counts.send_buffer_bytes} * counts.reqs      // header and inline call
        + std::size_t{demand.inline_size} * counts.receives        // replies
        + std::size_t{counts.message_bytes} * counts.message_runs  // long calls and replies
        + std::size_t{kArenaPools} * pools::kPageSize              // edges, and the zeros
        // Backward replies, and their edge.
        + std::size_t{demand.inline_size} * counts.backward + pools::kPageSize;
    return counts;
}

Result<Counts> Counts::of(const TransportOptions& options, const verbs::DeviceCaps& caps) noexcept {
    pools::Demand demand = options.demand;
    const BackwardOptions& backward = options.backward;
    demand.backward_credits = backward.service != nullptr ? backward.credits : 0;
    return of(demand, caps);
}

Result<std::unique_ptr<Transport>> Transport::create(verbs::Device& device, const SockAddr& server,
                                                     const TransportOptions& options,
                                                     Connected told, void* arg) {
    NR_TRY_ASSIGN(const Counts counts, Counts::of(options, device.caps()));
    auto transport = std::make_unique<TransportImpl>(server, options, counts);
    NR_TRY(transport->start(device, told, arg));
    return std::unique_ptr<Transport>(std::move(transport));
}

TransportImpl::TransportImpl(const SockAddr& server, const TransportOptions& options,
                             const Counts& counts)
    : server_(server),
      counts_(counts),
      options_(options),
      credits_(counts.provision.credits),
      xids_(counts.reqs),
      task_(&TransportImpl::on_progress),
      reply_timer_(
          [](Timer& timer) noexcept { static_cast<OwnTimer&>(timer).home->on_reply_timer(); }),
      recovery_timer_(
          [](Timer& timer) noexcept { static_cast<OwnTimer&>(timer).home->on_recovery_timer(); }),
      delays_(seed_of(options.recovery)) {
    task_.home = reply_timer_.home = recovery_timer_.home = ping_.home = this;
    ping_.done = &TransportImpl::on_ping_done;
    ping_.posted = &TransportImpl::on_ping_posted;
    ping_.wr.cqe = &ping_;
    ping_.wr.op = verbs::SendOp::rdma_write;
    ping_.wr.signaled = true;
    limits_ = {.max_payload = options.demand.max_payload,
               .max_message = options.demand.max_message,
               .slots = counts.provision.credits};
}

TransportImpl::~TransportImpl() {
    NR_ASSERT(active_.empty() && received_.empty());
    if (endpoint_ == nullptr) return;
    if (task_.linked()) endpoint_->loop().cancel(task_);
    // A transport that was never made whole has no lists to check.
    NR_ASSERT(reqs_ == nullptr || free_.size() == counts_.reqs);
    NR_ASSERT(receives_ == nullptr || receives_->full());
    free_.clear();
}

Result<void> TransportImpl::start(verbs::Device& device, Connected told, void* arg) {
    connected_ = told;
    connected_arg_ = arg;
    NR_TRY_ASSIGN(endpoint_, Endpoint::create(device, {.connected = &TransportImpl::on_connected,
                                                       .drained = &TransportImpl::on_drained,
                                                       .arg = this}));
    const verbs::DeviceCaps& caps = device.caps();
    const bool binds = options_.registration != pools::Registration::fixed && caps.fast_reg;
    const std::uint32_t inline_size = options_.demand.inline_size;
    const pools::Provision& provision = counts_.provision;
    // Before the keys: what a process that is killed leaves to the kernel dies newest first, and a
    // soft-RoCE queue pair waits in vain for the windows that are bound on it.
    NR_TRY_ASSIGN(verbs::QueuePair * qp,
                  endpoint_->make_queues(
                      {.qp = {.send_wrs = provision.send_wrs,
                              .recv_wrs = counts_.receives,
                              .send_sges = counts_.send_sges,
                              .recv_sges = 1},
                       .cq_entries = provision.send_wrs + counts_.receives + kProbeEntries,
                       .private_data = {.remote_invalidation = binds && caps.remote_invalidate,
                                        .send_size = inline_size,
                                        .recv_size = inline_size}}));
    NR_TRY(make_pools());
    NR_TRY(make_reqs());
    if (counts_.backward > 0) NR_TRY(make_backward());
    io_->set_qp(qp);
    receives_->set_qp(qp);
    receives_->top_up(1);
    down_ns_ = lost_ns_ = endpoint_->loop().now_ns();
    const std::uint64_t patience = recovers() ? patience_ns() : UINT64_MAX;
    return endpoint_->start(server_, std::min(options_.connect_timeout_ns, patience));
}

Result<void> TransportImpl::make_pools() {
    const pools::Provision& provision = counts_.provision;
    NR_TRY_ASSIGN(
        arena_, pools::Arena::create(endpoint_->pd(), counts_.arena_bytes, options_.registration));
    NR_TRY_ASSIGN(zeros_, arena_->carve(kZeroBytes));
    const pools::PageListPool::ClassSpec message_class[] = {
        {counts_.message_bytes, counts_.message_runs}};
    NR_TRY_ASSIGN(messages_, pools::PageListPool::create(*arena_, message_class));
    NR_TRY_ASSIGN(payloads_, PayloadPool::create(*arena_, provision.page_classes));
    NR_TRY_ASSIGN(send_buffers_,
                  pools::BufferPool::create(*arena_, counts_.reqs, counts_.send_buffer_bytes));
    NR_TRY_ASSIGN(recv_buffers_, pools::BufferPool::create(*arena_, counts_.receives,
                                                           options_.demand.inline_size));
    NR_TRY_ASSIGN(io_, pools::Io::create(endpoint_->pd(), *arena_,
                                         {.registration = options_.registration,
                                          .keys = provision.keys,
                                          .pages_per_key = provision.pages_per_key,
                                          .transfers = 0,
                                          .send_sges = counts_.send_sges}));
    io_->on_room(&TransportImpl::on_room, this);
    NR_TRY_ASSIGN(receives_, ReceiveQueue::create(*recv_buffers_, *io_, counts_.receives,
                                                  {.received = &TransportImpl::on_received,
                                                   .failed = &TransportImpl::on_receive_failed,
                                                   .arg = this}));
    return {};
}

Result<void> TransportImpl::make_backward() {
    const std::uint32_t inline_size = options_.demand.inline_size;
    NR_TRY_ASSIGN(const std::span<std::byte> sends,
                  arena_->carve(std::size_t{counts_.backward} * inline_size));
    backward_ = std::make_unique<Backchannel>(
        Backchannel::Parts{endpoint_->loop(), *io_, *options_.backward.service, server_},
        counts_.backward, sends, inline_size);
    return {};
}

Result<void> TransportImpl::make_reqs() {
    reqs_ = std::make_unique<Req[]>(counts_.reqs);
    for (std::uint32_t i = 0; i < counts_.reqs; ++i) {
        Req& req = reqs_[i];
        free_.push_back(req);
        req.home = this;
        req.done = &TransportImpl::on_send_done;
        req.posted = &TransportImpl::on_posted;
        req.send_wr.cqe = &req;
        NR_TRY_ASSIGN(req.send_buffer, send_buffers_->get());
    }
    return {};
}

Error TransportImpl::not_connected() const noexcept {
    if (closing_) return {Errc::closed, 0, "the transport was closed"};
    return {Errc::reconnect, 0, "not connected"};
}

Result<sunrpc::Rqst*> TransportImpl::get_rqst(std::uint32_t call_max) noexcept {
    if (recovering()) {
        hurry();
        slot_wanted_ = true;
        return Error{Errc::again, 0, "the connection is being recovered"};
    }
    if (!connected()) return not_connected();
    if (call_max > options_.demand.inline_size && call_max > limits_.max_message)
        return Error{Errc::too_big, 0, "call"};
    if (free_.empty()) {
        slot_wanted_ = true;
        ++counters_.waited_for_slot;
        return Error{Errc::again, 0, "every call slot is in use"};
    }
    pools::Lease<pools::PageList> room;
    if (call_max > options_.demand.inline_size) {
        auto got = messages_->get(call_max);
        if (!got) {
            slot_wanted_ = true;
            return got.error();
        }
        room = *std::move(got);
    }
    Req& req = static_cast<Req&>(free_.pop_front());
    NR_ASSERT(req.state == ReqState::free && req.exposure_count == 0 && req.rep == nullptr);
    req.state = ReqState::taken;
    req.call_room = std::move(room);
    req.head_room =
        req.call_room ? req.call_room->bytes() : req.send_buffer->bytes().subspan(kHeaderRoom);
    req.xid = 0;
    req.call = req.reply = {};
    req.ddp_allowed = true;
    req.reply_max = 0;
    req.result_room = {};
    req.resends = 0;
    req.complete = nullptr;
    req.user = nullptr;
    return &req;
}

void TransportImpl::put_rqst(sunrpc::Rqst& rqst) noexcept {
    Req& req = static_cast<Req&>(rqst);
    NR_ASSERT(req.home == this && !req.abandoned);
    switch (req.state) {
        case ReqState::free:
            NR_ASSERT(false && "put twice");
            return;
        case ReqState::taken:
        case ReqState::completed:
            release(req);
            return;
        case ReqState::waiting:
            if (!req.outcome) {
                waiting_.erase(req);
                forget(req);
                release(req);
                return;
            }
            break;
        case ReqState::posting:
        case ReqState::sent:
            break;
    }
    req.abandoned = true;
    if (req.names_memory()) ++given_up_;
    ++counters_.abandoned;
    trace(req.xid, "abandoned");
}

// Back to the free list, with everything that the caller could still read.
void TransportImpl::release(Req& req) noexcept {
    NR_ASSERT(req.exposure_count == 0 && !req.holds_credit && req.pins[0] == nullptr &&
              req.pins[1] == nullptr);
    if (req.rep != nullptr) receives_->give_back(*std::exchange(req.rep, nullptr));
    req.call_room.reset();
    req.gather_room.reset();
    req.reply_room.reset();
    req.outcome.reset();
    req.fenced.reset();
    req.abandoned = req.waited = req.send_done = req.fence_started = false;
    req.posted_before = req.wants_larger_room = req.had_larger_room = false;
    req.state = ReqState::free;
    free_.push_front(req);
    if (callers_wait() || !waiting_.empty()) schedule();
}

Result<sunrpc::Payload> TransportImpl::get_payload(std::uint32_t bytes) noexcept {
    if (bytes > limits_.max_payload) return Error{Errc::too_big, 0, "payload"};
    auto payload = payloads_->get(bytes, *this);
    if (!payload && payload.error().code == Errc::again) {
        want_payload();
        ++counters_.waited_for_payload;
    }
    return payload;
}

// What came home for somebody else who waits already is still to be told.
void TransportImpl::want_payload() noexcept {
    if (!std::exchange(payload_wanted_, true)) payload_home_ = false;
}

void TransportImpl::release_payload(void* cookie) noexcept {
    if (payloads_->release(cookie)) on_payload_home();
}

Result<void> TransportImpl::register_memory(std::span<std::byte> memory) {
    const bool overlaps = !memory.empty() && lies_in(memory.first(1), arena_->memory());
    if (overlaps) return Error{Errc::invalid_argument, 0, "memory that is the transport's"};
    NR_TRY(io_->register_memory(memory));
    payloads_->add_own(memory);
    return {};
}

// A call that was given up still has its keys: the peer may move bytes until it has answered, or
// the connection is gone (facts/fastreg, trap 3).
Result<void> TransportImpl::deregister_memory(std::span<std::byte> memory) noexcept {
    PayloadSlot* const slot = payloads_->own(memory);
    if (slot == nullptr) return Error{Errc::invalid_argument, 0, "memory that is not registered"};
    PayloadPool::withdraw(*slot);
    if (slot->pins > 0) {
        want_payload();
        return Error{Errc::again, 0, "a call in flight names this memory"};
    }
    NR_TRY(io_->deregister_memory(memory));
    payloads_->remove_own(memory);
    return {};
}

void TransportImpl::on_slot(void (*wake)(void*) noexcept, void* arg) noexcept {
    wake_ = wake;
    wake_arg_ = arg;
}

PlanLimits TransportImpl::plan_limits() const noexcept {
    return {.inline_limits = endpoint_->inline_limits(),
            .min_chunk_bytes = options_.min_chunk_bytes,
            .max_payload = limits_.max_payload,
            .max_message = limits_.max_message,
            .send_sges = counts_.send_sges};
}

// Its key lives until the reply, so that its peer may still place bytes where `rqst` has its own,
// or read them. Two calls that only send the same bytes of a Payload are one that is tried again.
Result<void> TransportImpl::check_given_up(const sunrpc::Rqst& rqst) noexcept {
    if (given_up_ == 0) return {};
    for (const Req& old : active_) {
        if (!old.abandoned || (old.send_done && old.exposure_count == 0)) continue;
        const std::span<const std::byte> payload = rqst.call.payload, room = rqst.result_room;
        const bool sends_own = old.pins[0] != nullptr && !old.pins[0]->list;
        if (overlap(old.result_room, room) || overlap(old.result_room, payload) ||
            overlap(old.call.payload, room) || (sends_own && overlap(old.call.payload, payload))) {
            return Error{Errc::invalid_argument, 0, "memory that a call given up still names"};
        }
    }
    return {};
}

// The caller's side of the contract. Errc::invalid_argument; Errc::too_big.
Result<void> TransportImpl::check_call(Req& req) noexcept {
    const sunrpc::XdrBuf& call = req.call;
    if (!lies_in(call.head, req.head_room) || !lies_in(call.tail, req.head_room)) {
        return Error{Errc::invalid_argument, 0, "the call lies outside of its room"};
    }
    if (call.head.size() < rpcrdma::kXdrUnit || call.head.size() % rpcrdma::kXdrUnit != 0 ||
        load_be32(call.head.data()) != req.xid) {
        return Error{Errc::invalid_argument, 0, "the call does not begin with its XID"};
    }
    const std::span<const std::byte> used[] = {call.payload, req.result_room};
    for (std::size_t i = 0; i < req.pins.size(); ++i) {
        if (!used[i].empty() && payloads_->find(used[i]) == nullptr) {
            return Error{Errc::invalid_argument, 0, "a payload that is not this transport's"};
        }
        // Memory of the caller's own may be larger than what sizes_of can say.
        if (used[i].size() > limits_.max_payload) return Error{Errc::too_big, 0, "payload"};
    }
    return check_given_up(req);
}

Result<void> TransportImpl::send(sunrpc::Rqst& rqst) noexcept {
    Req& req = static_cast<Req&>(rqst);
    NR_ASSERT(req.home == this && req.state == ReqState::taken);
    if (!connected() && !recovering()) return not_connected();
    NR_TRY(check_call(req));
    NR_TRY_ASSIGN(req.plan, plan_transfer(sizes_of(req), plan_limits()));
    if (!xids_.insert(req.xid, req))
        return Error{Errc::invalid_argument, EEXIST, "the XID is in use"};
    if (!req.call.payload.empty())
        PayloadPool::pin(*(req.pins[0] = payloads_->find(req.call.payload)));
    if (!req.result_room.empty())
        PayloadPool::pin(*(req.pins[1] = payloads_->find(req.result_room)));
    ++counters_.calls;
    trace(req.xid, "send");
    req.state = ReqState::waiting;
    req.asked_ns = endpoint_->loop().now_ns();
    if (recovering()) hurry();
    active_.push_back(req);
    waiting_.push_back(req);
    if (waiting_.size() == 1) pump();
    return {};
}

void TransportImpl::close() noexcept {
    if (closing_) return;
    closing_ = true;
    endpoint_->disconnect({Errc::closed, 0, "closed"});
    // Between two attempts nothing will be drained: the timer ends it.
    if (recovering_ && endpoint_->state() == Endpoint::State::closed)
        endpoint_->loop().arm(recovery_timer_, endpoint_->loop().now_ns());
}

bool TransportImpl::idle() const noexcept {
    return endpoint_->state() == Endpoint::State::closed && !recovering_ && active_.empty() &&
           received_.empty() && free_.size() == counts_.reqs && receives_->full() &&
           payloads_->full() && messages_->full() && io_->full() &&
           (backward_ == nullptr || backward_->idle());
}

const TransportCounters& TransportImpl::counters() const noexcept {
    const pools::IoCounters& io = io_->counters();
    counters_.keys_bound = io.binds;
    counters_.doorbells = io.doorbells;
    counters_.local_invalidations = io.local_invalidations;
    counters_.remote_invalidations = io.remote_invalidations;
    if (backward_ != nullptr) {
        counters_.backward_calls = backward_->counters().calls;
        counters_.backward_overruns = backward_->counters().overruns;
    }
    counters_.keys_renewed = io.keys_renewed;
    return counters_;
}

void TransportImpl::on_recovery(void (*changed)(void*, bool connected) noexcept,
                                void* arg) noexcept {
    recovery_ = changed;
    recovery_arg_ = arg;
}

void TransportImpl::on_disconnect(void (*lost)(void*) noexcept, void* arg) noexcept {
    lost_ = lost;
    lost_arg_ = arg;
}

}  // namespace nfsrdma::xprtrdma
