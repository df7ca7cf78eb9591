#include "svcrdma/transport.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "rpcrdma/credits.hpp"
#include "svcrdma/walk.hpp"

namespace nfsrdma::svcrdma {

namespace {
// How often a connection that ends looks whether its queue pair is empty, if no completion tells
// it.
constexpr std::uint64_t kDrainPollNs = kNsPerMs;
constexpr std::uint32_t kSendSges = std::tuple_size_v<decltype(SendCtxt::sges)>;
}  // namespace

void SvcTransport::WorkTask::run_work(Task& task) noexcept {
    auto& self = static_cast<WorkTask&>(task);
    self.scheduled = false;
    self.transport->work();
}

SvcTransport::SvcTransport(Server& server, Peer* peer, std::unique_ptr<verbs::CmId> id) noexcept
    : server_(server),
      id_(std::move(id)),
      peer_(id_->peer()),
      known_peer_(peer),
      trace_connection_(static_cast<std::uint32_t>(server.counters.accepted) + 1),
      idle_timer_(&SvcTransport::on_idle),
      stall_timer_(&SvcTransport::on_stall),
      drain_timer_(&SvcTransport::on_drain),
      keepalive_timer_(&SvcTransport::on_keepalive),
      peer_timer_(&SvcTransport::on_peer_wait) {
    ++server_.handshakes;
    work_.transport = this;
    idle_timer_.transport = stall_timer_.transport = drain_timer_.transport = this;
    keepalive_timer_.transport = peer_timer_.transport = probe_.transport = this;
    peer_waiter_.transport = this;
}

Result<std::unique_ptr<SvcTransport>> SvcTransport::create(Server& server, Peer* peer,
                                                           std::unique_ptr<verbs::CmId>& id,
                                                           const verbs::ConnectRequest& request) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<SvcTransport> self(new SvcTransport(server, peer, std::move(id)));
    const std::uint32_t depth = std::min<std::uint32_t>(
        request.initiator_depth, std::max(1u, server.device.caps().max_read_depth));
    if (auto made = self->make_all(depth); !made) {
        id = std::move(self->id_);
        return made.error();
    }
    self->id_->set_handler(*self);
    self->post_receives();
    if (self->closing() || !self->accept(request)) self->close();
    self->watch_idle();
    return self;
}

Result<void> SvcTransport::make_all(std::uint32_t read_depth) {
    credits_ = grant_limit_ = requested_ = server_.first_credits();
    NR_TRY(charge(server_.connection_bytes()));
    NR_TRY(make_pools(read_depth));
    const bool small = server_.options.first_credits != 0;
    NR_TRY(make_contexts(small ? credits_ + 1 : server_.contexts()));
    NR_TRY(make_receives(Server::receives(credits_)));
    if (server_.options.backward_credits > 0) NR_TRY(make_backward());
    return make_qp();  // last: `id` may go back to its owner, but not with a queue pair
}

Result<void> SvcTransport::make_pools(std::uint32_t read_depth) {
    const pools::Provision& provision = server_.provision;
    NR_TRY_ASSIGN(cq_, server_.device.create_cq(provision.send_wrs + server_.receives()));
    loop().add(*cq_);
    pools::IoOptions options;
    options.local = server_.options.local;
    options.keys = provision.keys;
    // Its runs are one piece each, so that only a device which reads into keys needs one a call.
    constexpr std::uint32_t kKeysOfSmall = 2;
    if (server_.options.first_credits != 0 && options.local != pools::LocalStrategy::key &&
        !server_.device.caps().read_sink_needs_key)
        options.keys = std::min(options.keys, kKeysOfSmall);
    // Where every push takes a key, the longest reply needs as many beside all others.
    if (options.local == pools::LocalStrategy::key) options.keys += SendCtxt::kPushesMax;
    options.pages_per_key = provision.pages_per_key;
    options.transfers = server_.first_transfers();
    options.runs_per_transfer = pools::Exposure::kRunsMax;
    options.read_depth = read_depth;
    options.send_sges = kSendSges;
    NR_TRY_ASSIGN(io_, pools::Io::create(*server_.pd, *server_.arena, options));
    return {};
}

Result<void> SvcTransport::make_qp() {
    verbs::QpOptions queues;
    queues.send_wrs = server_.provision.send_wrs;
    queues.recv_wrs = server_.receives();
    queues.send_sges = kSendSges;
    NR_TRY_ASSIGN(qp_, id_->create_qp(*server_.pd, *cq_, queues));
    io_->set_qp(qp_);
    return {};
}

ConnectionStats SvcTransport::stats() const noexcept {
    ConnectionStats out;
    out.peer = peer_;
    out.credits = granted_;
    out.calls_in_progress = calls_in_progress();
    out.receives_posted = posted_;
    out.calls = calls_;
    out.memory_bytes = charged_;
    out.io = io_->counters();
    if (qp_ != nullptr) out.queue = qp_->counters();
    return out;
}

Result<void> SvcTransport::accept(const verbs::ConnectRequest& request) {
    const std::uint32_t size = server_.options.demand.inline_size;
    const rpcrdma::PrivateData ours{false, size, size};  // flags 0: only the client's R counts
    const rpcrdma::PrivateData peers = rpcrdma::decode_private_data(request.private_data);
    inline_ = rpcrdma::agree_inline(ours, peers);
    may_invalidate_ = peers.remote_invalidation && server_.device.caps().remote_invalidate;
    const auto answer = rpcrdma::encode_private_data(ours);
    verbs::ConnParams params;
    params.private_data = answer;
    params.responder_resources = 0;  // a client never gets to READ from us
    params.initiator_depth = static_cast<std::uint8_t>(std::min<std::uint32_t>(
        request.initiator_depth, std::min(255u, server_.device.caps().max_read_depth)));
    return id_->accept(params);
}

SvcTransport::~SvcTransport() {
    if (work_.scheduled) loop().cancel(work_);
    NR_ASSERT(contexts_count_ == free_.size() && !probe_.pending);
    NR_ASSERT(qp_ == nullptr || qp_->outstanding() == 0);
    free_.clear();
    idle_.clear();
    contexts_.clear();
    backward_.reset();
    io_.reset();  // asserts that every transfer and key is home
    id_.reset();
    if (cq_ != nullptr) loop().remove(*cq_);
    for (const std::span<std::byte> slab : slabs_)
        server_.put_slab(slab);
    end_handshake();
    server_.discharge(charged_);
    if (known_peer_ == nullptr) return;
    server_.options.peers->give_back_memory(*known_peer_, charged_);
    server_.options.peers->leave(*known_peer_);
}

// What the service sees.

Result<std::span<std::byte>> SvcTransport::get_result_payload(sunrpc::SvcRqst& rqst,
                                                              std::uint32_t bytes) noexcept {
    auto& call = static_cast<RecvCtxt&>(rqst);
    NR_ASSERT(call.stage == Stage::executing);
    if (bytes == 0) return std::span<std::byte>{};
    if (bytes > server_.runs->largest())
        return Error{Errc::too_big, 0, "result larger than any run"};
    if (call.wait == Wait::result_run)
        return Error{Errc::again, 0, "still waiting for payload memory"};
    if (call.result && call.result->capacity() < bytes)
        server_.runs->release(std::move(call.result).donate());
    if (!call.result && !server_.runs->take_result(call, bytes, server_.counters))
        return Error{Errc::again, 0, "no payload memory"};
    return call.result->bytes().first(bytes);
}

void SvcTransport::reply(sunrpc::SvcRqst& rqst) noexcept {
    auto& call = static_cast<RecvCtxt&>(rqst);
    NR_ASSERT(call.stage == Stage::executing);
    server_.runs->forget(call);
    call.wake_service = false;
    call.stage = Stage::placing;
    make_ready(call);
}

void SvcTransport::drop(sunrpc::SvcRqst& rqst) noexcept {
    auto& call = static_cast<RecvCtxt&>(rqst);
    NR_ASSERT(call.stage == Stage::executing);
    server_.runs->forget(call);
    call.wake_service = false;
    call.stage = Stage::done;
    ++server_.counters.dropped;
    make_ready(call);
}

void SvcTransport::release_payload(void* cookie) noexcept {
    server_.runs->release(*static_cast<pools::PageList*>(cookie));
}

// The ready list.

void SvcTransport::schedule() noexcept {
    if (work_.scheduled || over_) return;
    work_.scheduled = true;
    loop().ready(work_);
}

void SvcTransport::trace(const RecvCtxt& call) noexcept {
    if (server_.options.trace == nullptr) return;
    server_.options.trace->add(
        {loop().now_ns(), call.header.xid, trace_connection_, to_string(call.stage)});
}

void SvcTransport::make_ready(RecvCtxt& call) noexcept {
    if (call.stepping || call.wait == Wait::ready) return;
    NR_ASSERT(call.wait == Wait::none);
    call.wait = Wait::ready;
    ready_.push_back(call);
    schedule();
}

void SvcTransport::work() noexcept {
    take_backward();
    for (start_calls(); !ready_.empty(); start_calls()) {
        RecvCtxt& call = ready_.pop_front();
        call.wait = Wait::none;
        advance_while_it_goes(*this, call);
    }
    retry_transfers();
    if (state_ == State::open && !arrived_.empty() && !free_.empty() && !waits_for_peer())
        schedule();
    if (idle_.size() >= receive_batch()) post_receives();
    if (closing()) {
        replies_.flush();
        drain();
    }
}

// Not behind calls that wait: a service may hold one until it has been answered itself.
void SvcTransport::take_backward() noexcept {
    while (state_ == State::open && !backward_arrived_.empty()) {
        RecvBuf& buf = backward_arrived_.pop_front();
        backward_->take_frame(buf.frame());
        --held_;
        idle_.push_back(buf);
    }
}

// Frames that came before the connection was ours to send on, or before a context was free, wait in
// `arrived_`.
void SvcTransport::start_calls() noexcept {
    while (state_ == State::open && !arrived_.empty()) {
        if (free_.empty()) add_contexts();
        if (free_.empty() || !begin_request()) break;
        RecvBuf& buf = arrived_.pop_front();
        RecvCtxt& call = free_.pop_front();
        call.buf = &buf;
        call.stage = Stage::received;
        server_.counters.in_flight_max =
            std::max<std::uint64_t>(server_.counters.in_flight_max, calls_in_progress());
        make_ready(call);
    }
}

void SvcTransport::wait_for_transfer(RecvCtxt& call) noexcept {
    NR_ASSERT(call.wait == Wait::none);
    call.wait = Wait::transfer;
    transfer_waiters_.push_back(call);
    if (!retrying_) ++server_.counters.waited_for_transfer;
    // Unless it is a key that is short, more transfers help. A reply that needs several gave back
    // those that it had got.
    const std::uint32_t have = io_->transfers(), most = server_.transfers();
    if (have >= most) return;
    io_->add_transfers(std::min(have, most - have));
    transfers_grew_ = true;
    schedule();
}

void SvcTransport::release_transfer(pools::Lease<pools::Transfer>& transfer) noexcept {
    if (!transfer) return;
    transfer.reset();
    transfer_came_ = true;
    if (!transfer_waiters_.empty()) schedule();
}

// In order; the first that still cannot go on keeps its place.
void SvcTransport::retry_transfers() noexcept {
    retrying_ = true;
    if (std::exchange(transfers_grew_, false)) transfer_came_ = true;
    while (transfer_came_ && !transfer_waiters_.empty()) {
        RecvCtxt& call = transfer_waiters_.pop_front();
        call.wait = Wait::none;
        advance_while_it_goes(*this, call);
        if (call.wait != Wait::transfer) continue;
        transfer_waiters_.erase(call);
        transfer_waiters_.push_front(call);
        break;
    }
    retrying_ = false;
    transfer_came_ = false;
    if (transfers_grew_ && !transfer_waiters_.empty()) schedule();
}

// Receives.

void SvcTransport::on_recv(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& buf = static_cast<RecvBuf&>(cqe);
    SvcTransport& self = *buf.xprt;
    --self.posted_;
    ++self.held_;
    if (wc.status != verbs::WcStatus::success || self.closing()) {
        --self.held_;
        self.idle_.push_back(buf);
        self.close();
        return;
    }
    buf.length = wc.byte_len;
    self.last_call_ns_ = self.heard_ns_ = self.loop().now_ns();
    // We gave it no key that it could invalidate.
    if (wc.with_invalidate && self.io_->on_remote_invalidate(wc.invalidated) == nullptr) {
        --self.held_;
        self.idle_.push_back(buf);
        self.note_fault();
        self.close();
        return;
    }
    if (self.backward_ != nullptr && Backchannel::is_ours(buf.frame())) {
        self.backward_arrived_.push_back(buf);
        return self.schedule();
    }
    if (self.free_.size() <= self.arrived_.size() &&
        self.contexts_count_ >= Server::contexts(self.credits_))
        ++self.server_.counters.waited_for_context;
    self.arrived_.push_back(buf);
    self.note_use();
    self.schedule();
}

void SvcTransport::release_buf(RecvCtxt& call) noexcept {
    if (call.buf == nullptr) return;
    idle_.push_back(*std::exchange(call.buf, nullptr));
    --held_;
    if (idle_.size() >= receive_batch()) post_receives();
}

void SvcTransport::post_receives() noexcept {
    if (closing() || idle_.empty()) return;
    RecvBuf* last = nullptr;
    for (RecvBuf& buf : idle_) {
        buf.wr.next = nullptr;
        if (last != nullptr) last->wr.next = &buf.wr;
        last = &buf;
    }
    // A queue as long as our buffers are many takes all or, in error, none.
    if (!qp_->post_recv(idle_.front().wr)) return close();
    posted_ += idle_.size();
    idle_.clear();
}

// Posted ones, and those that are posted again before their answer goes out.
std::uint32_t SvcTransport::grant(std::uint32_t requested) noexcept {
    NR_ASSERT(posted_ + held_ + 1 >= credits_ || closing());
    requested_ = requested;
    adapt_grant();
    granted_ = rpcrdma::credits_to_grant(requested, posted_ + held_, grant_limit_);
    return granted_;
}

void SvcTransport::release(RecvCtxt& call) noexcept {
    release_buf(call);
    release_transfer(call.chunk.transfer);
    call.chunk.failed = false;
    for (std::uint32_t i = 0; i < call.send.push_count; ++i)
        release_transfer(call.send.pushes[i]);
    call.send.push_count = call.send.pushed_bytes = 0;
    call.send.finished = false;
    call.answer = Answer::reply;
    call.wake_service = false;
    call.arg = {};
    call.res = {};
    server_.runs->give_back(call);
    end_request();
    free_.push_front(call);  // what was used last is in the cache
}

// The end.

void SvcTransport::on_cm_event(verbs::CmId& id, const verbs::CmEvent& event) noexcept {
    static_cast<void>(id);
    switch (event.type) {
        case verbs::CmEventType::established:
            event_owed_ = true;
            if (closing()) {
                id_->disconnect();
                return;
            }
            state_ = State::open;
            end_handshake();
            watch_peer();
            if (backward_ != nullptr) backward_->on_open(inline_);
            if (event.initiator_depth > 0) io_->set_read_depth(event.initiator_depth);
            server_.service.on_begin(*this);
            schedule();
            return;
        case verbs::CmEventType::disconnected:
            event_owed_ = false;
            break;
        case verbs::CmEventType::rejected:
        case verbs::CmEventType::unreachable:
            break;
    }
    close();
    schedule();
}

void SvcTransport::close() noexcept {
    if (closing()) return;
    const bool was_open = state_ == State::open;
    state_ = State::closing;
    loop().disarm(idle_timer_);
    loop().disarm(stall_timer_);
    loop().disarm(keepalive_timer_);
    stop_waiting_for_peer();
    if (std::exchange(has_place_, false)) end_request();
    end_handshake();
    if (was_open && event_owed_) id_->disconnect();
    if (qp_ != nullptr && !qp_->in_error()) qp_->set_error();
    schedule();
}

void SvcTransport::abort_calls() noexcept {
    for (auto* const frames : {&arrived_, &backward_arrived_}) {
        while (!frames->empty()) {
            idle_.push_back(frames->pop_front());
            --held_;
        }
    }
    for (const ContextBlock& block : contexts_) {
        for (std::uint32_t i = 0; i < block.count; ++i)
            abort_call(block.contexts[i]);
    }
}

void SvcTransport::abort_call(RecvCtxt& call) noexcept {
    if (call.stage == Stage::free || call.stage == Stage::executing) return;
    server_.runs->forget(call);
    if (call.wait == Wait::transfer) {
        transfer_waiters_.erase(call);
        call.wait = Wait::none;
    }
    if (call.wait == Wait::ready) ready_.erase(call);
    call.wait = Wait::none;
    advance_while_it_goes(*this, call);
}

// Everything that is posted comes back flushed; then what waited to be posted is refused; then all
// Calls are given up but those that the service has. Called again until all of that holds.
void SvcTransport::drain() noexcept {
    if (over_) return;
    abort_calls();
    if (!drained_) {
        if (qp_->outstanding() > 0 || posted_ > 0) {
            loop().arm(drain_timer_, loop().now_ns() + kDrainPollNs);
            return;
        }
        drained_ = true;
        io_->on_disconnect();
        if (backward_ != nullptr) backward_->on_end();
        abort_calls();
        if (qp_->counters().peer_faults > 0) note_fault();
    }
    if (event_owed_ || free_.size() != contexts_count_) return;
    NR_ASSERT(idle_.size() == bufs_count_ && io_->full());
    over_ = true;
    loop().disarm(drain_timer_);
    server_.service.on_end(*this);
    server_.owner->on_connection_over(*this);
}

void SvcTransport::on_drain(Timer& timer) noexcept {
    static_cast<OwnedTimer&>(timer).transport->schedule();
}

}  // namespace nfsrdma::svcrdma
