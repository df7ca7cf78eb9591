#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "xprtrdma/transport_impl.hpp"

// What happens by itself: replies, completions, waiting calls, the end of the connection. See
// transport_impl.hpp.
namespace nfsrdma::xprtrdma {

// ---- completions append
// ------------------------------------------------------------------------------------------------

void TransportImpl::schedule() noexcept {
    if (!task_.linked()) endpoint_->loop().ready(task_);
}

void TransportImpl::schedule(Req& req) noexcept {
    if (!static_cast<ListHook<StepTag>&>(req).linked()) steps_.push_back(req);
    schedule();
}

void TransportImpl::on_received(void* arg, Rep& rep) noexcept {
    TransportImpl& self = *static_cast<TransportImpl*>(arg);
    self.received_.push_back(rep);
    self.schedule();
}

void TransportImpl::on_receive_failed(void* arg) noexcept {
    Endpoint& endpoint = *static_cast<TransportImpl*>(arg)->endpoint_;
    // While connecting, the CM's own event says why the attempt failed.
    if (endpoint.connected()) endpoint.disconnect({Errc::reconnect, 0, "a Receive failed"});
}

void TransportImpl::on_send_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Req& req = static_cast<Req&>(cqe);
    TransportImpl& self = *req.home;
    req.send_done = true;
    if (wc.status != verbs::WcStatus::success) {
        self.endpoint_->disconnect({Errc::reconnect, 0, verbs::to_string(wc.status)});
        return;
    }
    self.io_->on_send_room();
    if (req.outcome) self.schedule(req);
}

void TransportImpl::on_posted(pools::Posting& posting, Result<void> result) noexcept {
    Req& req = static_cast<Req&>(posting);
    if (result) {
        req.state = ReqState::sent;
        req.home->trace(req.xid, "posted");
        return;
    }
    req.send_done = true;  // never begun
    req.home->endpoint_->disconnect({Errc::reconnect, 0, "post send"});
}

void TransportImpl::on_fenced(Req& req) noexcept {
    req.home->schedule(req);
}

void TransportImpl::on_room(void* arg) noexcept {
    static_cast<TransportImpl*>(arg)->schedule();
}

void TransportImpl::on_progress(Task& task) noexcept {
    static_cast<ProgressTask&>(task).home->progress();
}

// ---- and the loop acts
// -------------------------------------------------------------------------------------------------

void TransportImpl::progress() noexcept {
    while (!received_.empty())
        on_reply(received_.pop_front());
    receives_->top_up(counts_.receive_batch);
    while (!steps_.empty())
        advance(steps_.pop_front());
    pump();
    wake_callers();
}

// One frame from the server (facts R6: the order of the checks).
void TransportImpl::on_reply(Rep& rep) noexcept {
    if (distrusted_) return receives_->give_back(rep);
    const rpcrdma::PclLimits limits{.max_chunk_bytes = UINT32_MAX, .max_total_bytes = UINT32_MAX};
    const DecodedReply reply = decode_reply(rep.frame(), limits, parsed_);
    Req* const req = match(reply);
    if (rep.wc.with_invalidate && !accept_remote_invalidation(req, rep.wc.invalidated, *io_)) {
        ++counters_.bad_invalidations;
        trace(reply.xid, "bad invalidation");
        distrusted_ = true;
        receives_->give_back(rep);
        endpoint_->disconnect(
            {Errc::bad_message, 0, "the server invalidated a key that was not this call's"});
        return;
    }
    if (req == nullptr) return receives_->give_back(rep);
    on_matched(*req, rep, reply);
}

// The call that a frame answers, or nullptr: counted, dropped, and the connection goes on.
Req* TransportImpl::match(const DecodedReply& reply) noexcept {
    switch (reply.kind) {
        case ReplyKind::too_short:
            ++counters_.short_replies;
            return nullptr;
        case ReplyKind::bad_version:
            ++counters_.bad_versions;
            return nullptr;
        case ReplyKind::not_a_reply:
            ++counters_.bad_xids;
            return nullptr;
        case ReplyKind::reply:
            break;
    }
    Req* const req = xids_.find(reply.xid);
    // What was not sent yet cannot have been answered.
    if (req == nullptr || req->state != ReqState::sent) {
        ++counters_.bad_xids;
        return nullptr;
    }
    return req;
}

void TransportImpl::on_matched(Req& req, Rep& rep, const DecodedReply& reply) noexcept {
    NR_ASSERT(!req.outcome && req.holds_credit);
    ++counters_.replies;
    trace(req.xid, rep.wc.with_invalidate ? "reply with invalidate" : "reply");
    xids_.erase(req.xid);
    credits_.on_grant(reply.credits);
    credits_.give_back();
    req.holds_credit = false;
    const ReplyFault fault = place_reply(req, reply, parsed_);
    switch (fault) {
        case ReplyFault::none:
            req.outcome.emplace();
            break;
        case ReplyFault::malformed:
            ++counters_.bad_replies;
            break;
        case ReplyFault::err_vers:
            ++counters_.err_vers;
            break;
        case ReplyFault::err_chunk:
            ++counters_.err_chunk;
            break;
    }
    if (fault != ReplyFault::none)
        req.outcome.emplace(Error{Errc::bad_message, 0, "the server's reply"});
    // The caller decodes the message where it was received; anything else needs the Receive no
    // more.
    if (fault == ReplyFault::none && parsed_.proc == rpcrdma::Proc::msg) {
        req.rep = &rep;
    } else {
        receives_->give_back(rep);
    }
    schedule(req);
}

// The three facts: outcome, keys fenced, Send completed.
void TransportImpl::advance(Req& req) noexcept {
    if (!req.outcome) return;
    if (!req.fence_started) {
        req.fence_started = true;
        trace(req.xid, "fence");
        fence(req, *io_, &TransportImpl::on_fenced);
    }
    if (req.fenced && req.send_done) answer(req);
}

void TransportImpl::answer(Req& req) noexcept {
    if (static_cast<ListHook<StepTag>&>(req).linked()) steps_.erase(req);
    forget(req);
    const bool abandoned = req.abandoned;
    trace(req.xid, *req.outcome ? "complete" : to_string(req.outcome->error().code));
    complete(req, *req.fenced);
    if (abandoned) release(req);
}

// What an active call holds of the transport's books.
void TransportImpl::forget(Req& req) noexcept {
    active_.erase(req);
    if (xids_.find(req.xid) == &req) xids_.erase(req.xid);
    for (PayloadSlot*& pin : req.pins) {
        if (pin != nullptr && payloads_->unpin(*pin)) on_payload_home();
        pin = nullptr;
    }
}

// ---- waiting calls
// -----------------------------------------------------------------------------------------------------

void TransportImpl::count_wait(Req& req, std::uint64_t& counter) noexcept {
    if (req.waited) return;
    req.waited = true;
    ++counter;
}

// First come, first served: what the first lacks, all wait for.
void TransportImpl::pump() noexcept {
    while (!waiting_.empty() && endpoint_->connected()) {
        Req& req = waiting_.front();
        // A credit is worth as much as the Receive for its reply.
        if (receives_->posted() <= credits_.in_flight()) receives_->top_up(1);
        if (receives_->posted() <= credits_.in_flight() || !credits_.take()) {
            return count_wait(req, counters_.waited_for_credit);
        }
        Result<void> sent = send_request(req);
        if (sent) continue;
        credits_.give_back();
        if (sent.error().code == Errc::again) {
            return count_wait(
                req, req.dry == Dry::key ? counters_.waited_for_key : counters_.waited_for_payload);
        }
        waiting_.erase(req);
        req.outcome.emplace(sent.error());
        req.send_done = true;
        schedule(req);
    }
}

// The walk of a call. The credit is taken; the plan was made when the caller sent it.
Result<void> TransportImpl::send_request(Req& req) noexcept {
    NR_TRY(bind_chunks(
        req, {.io = io_.get(), .messages = messages_.get(), .payloads = &payloads_->lists()}));
    auto header =
        marshal_call(req.header_room(), req.xid, credits_.requested(), req.plan, req.chunks);
    if (!header) {
        unbind_chunks(req, *io_);
        return header.error();
    }
    waiting_.erase(req);
    req.holds_credit = true;
    count_plan(req);
    watch_replies();
    req.posted_ns = endpoint_->loop().now_ns();
    post_call(req, *header, zeros_, *io_);
    return {};
}

void TransportImpl::count_plan(const Req& req) noexcept {
    const TransferPlan& plan = req.plan;
    counters_.in_flight_max =
        std::max<std::uint64_t>(counters_.in_flight_max, credits_.in_flight());
    if (plan.args == ArgsType::in_line) ++counters_.inline_calls;
    if (has_read(plan.args)) ++counters_.read_chunk_calls;
    if (is_long(plan.args)) ++counters_.long_calls;
    if (has_write(plan.results)) ++counters_.write_chunk_calls;
    if (has_reply(plan.results)) ++counters_.reply_chunk_calls;
    if (plan.args == ArgsType::position_zero)
        counters_.payload_copied_bytes += req.call.payload.size();
}

void TransportImpl::on_payload_home() noexcept {
    payload_home_ = true;
    if (callers_wait() || !waiting_.empty()) schedule();
}

// Whoever waits is told of the end, too: it asks again and gets Errc::reconnect or Errc::closed.
void TransportImpl::wake_callers() noexcept {
    const bool ended = !endpoint_->connected();
    const bool slot = slot_wanted_ && (ended || !free_.empty());
    const bool payload = payload_wanted_ && (ended || payload_home_);
    if (!(slot || payload) || wake_ == nullptr) return;
    slot_wanted_ = payload_wanted_ = payload_home_ = false;
    wake_(wake_arg_);
}

void TransportImpl::trace(std::uint32_t xid, const char* point) noexcept {
    if (options_.trace == nullptr) return;
    options_.trace->add({.time_ns = endpoint_->loop().now_ns(),
                         .xid = xid,
                         .connection = options_.trace_connection,
                         .point = point});
}

// ---- the peer that says nothing -------------------------------------------------------------

void TransportImpl::watch_replies() noexcept {
    if (options_.reply_timeout_ns == 0 || reply_timer_.armed()) return;
    Loop& loop = endpoint_->loop();
    loop.arm(reply_timer_, loop.now_ns() + options_.reply_timeout_ns);
}

// One timer for all calls: it looks at the oldest that is on the wire, and comes back when that one
// is due.
void TransportImpl::on_reply_timer() noexcept {
    Loop& loop = endpoint_->loop();
    std::uint64_t oldest = UINT64_MAX;
    for (const Req& req : active_) {
        if (req.holds_credit) oldest = std::min(oldest, req.posted_ns);
    }
    if (oldest == UINT64_MAX || !endpoint_->connected()) return;
    if (loop.now_ns() - oldest < options_.reply_timeout_ns) {
        loop.arm(reply_timer_, oldest + options_.reply_timeout_ns);
        return;
    }
    ++counters_.reply_timeouts;
    endpoint_->disconnect({Errc::reconnect, 0, "no reply in time"});
}

// ---- begin and end
// -----------------------------------------------------------------------------------------------------

void TransportImpl::on_connected(void* arg) noexcept {
    TransportImpl& self = *static_cast<TransportImpl*>(arg);
    self.connected_told_ = true;
    self.trace(0, "connected");
    if (self.connected_ != nullptr) self.connected_(self.connected_arg_, {});
}

void TransportImpl::on_drained(void* arg, const Error& why) noexcept {
    static_cast<TransportImpl*>(arg)->on_lost(why);
}

// Everything that was posted has been flushed: no key of ours can be reached and no memory is lent
// any more.
void TransportImpl::on_lost(const Error& why) noexcept {
    progress();  // replies that came before the end
    io_->on_disconnect();
    ++counters_.disconnects;
    trace(0, why.what);
    fail_active();
    wake_callers();
    const Error reason = closing_ ? Error{Errc::closed, 0, "closed"} : why;
    // The last thing: its receiver may do anything but destroy this.
    if (!connected_told_) {
        if (connected_ != nullptr) connected_(connected_arg_, reason);
    } else if (!closing_ && lost_ != nullptr) {
        lost_(lost_arg_);
    }
}

void TransportImpl::fail_active() noexcept {
    const Error reason =
        closing_ ? Error{Errc::closed, 0, "closed"} : Error{Errc::reconnect, 0, "disconnected"};
    waiting_.clear();
    while (!active_.empty()) {
        Req& req = active_.front();
        req.send_done = true;
        if (!req.outcome) req.outcome.emplace(reason);
        if (std::exchange(req.holds_credit, false)) credits_.give_back();
        advance(req);
        NR_ASSERT(active_.empty() || &active_.front() != &req);
    }
    credits_.reset();
}

}  // namespace nfsrdma::xprtrdma
