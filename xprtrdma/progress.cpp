#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "xprtrdma/transport_impl.hpp"

// What happens by itself while there is a connection: replies, completions, waiting calls. See
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
    self.note_reply();
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
    self.note_life();
    self.io_->on_send_room();
    if (req.outcome) self.schedule(req);
}

void TransportImpl::on_posted(pools::Posting& posting, Result<void> result) noexcept {
    Req& req = static_cast<Req&>(posting);
    if (result) {
        req.state = ReqState::sent;
        if (std::exchange(req.posted_before, true)) {
            ++req.resends;
            ++req.home->counters_.resends;
        }
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

// The server may call as soon as it has the connection, which may be before we are told of it.
bool TransportImpl::take_backward(Rep& rep) noexcept {
    const Endpoint::State state = endpoint_->state();
    const bool live = state == Endpoint::State::connected || state == Endpoint::State::connecting;
    if (backward_ == nullptr || !live || rep.wc.with_invalidate) return false;
    backward_->set_limits(endpoint_->inline_limits());
    return backward_->take_frame(rep.frame());
}

// One frame from the server (facts R6: the order of the checks).
void TransportImpl::on_reply(Rep& rep) noexcept {
    if (distrusted_) return receives_->give_back(rep);
    if (take_backward(rep)) return receives_->give_back(rep);
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
    // What was not sent yet cannot have been answered, and what was answered is not answered again.
    if (req == nullptr || req->state != ReqState::sent || req->outcome) {
        ++counters_.bad_xids;
        return nullptr;
    }
    return req;
}

void TransportImpl::on_matched(Req& req, Rep& rep, const DecodedReply& reply) noexcept {
    NR_ASSERT(!req.outcome && req.holds_credit);
    ++counters_.replies;
    if (req.abandoned) ++counters_.late_replies;
    trace(req.xid, rep.wc.with_invalidate ? "reply with invalidate" : "reply");
    answered_ = true;
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
            req.wants_larger_room = retry_with_larger_room(req);
            break;
    }
    if (!req.wants_larger_room) xids_.erase(req.xid);
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
    if (!req.fenced || !req.send_done) return;
    if (!req.wants_larger_room || req.abandoned) return answer(req);
    if (connected()) send_again(req);  // else it is kept, or ends, with the others
}

// ERR_CHUNK does not say what was too small. A Reply chunk that was none, or smaller than the
// largest, may have been; the place for a payload is what the caller gave.
bool TransportImpl::retry_with_larger_room(Req& req) noexcept {
    if (req.had_larger_room || req.abandoned || has_write(req.plan.results)) return false;
    const std::uint32_t before = std::exchange(req.reply_max, limits_.max_message);
    auto plan = plan_transfer(sizes_of(req), plan_limits());
    if (plan && plan->reply_room > req.plan.reply_room) {
        req.plan = *plan;
        return req.had_larger_room = true;
    }
    req.reply_max = before;
    return false;
}

// With its XID: who has executed it answers from memory. Behind those that wait already: they were
// sent later, but this one had its turn.
void TransportImpl::send_again(Req& req) noexcept {
    ++counters_.err_chunk_retries;
    trace(req.xid, "again, with a larger Reply chunk");
    reset_for_sending(req);
    waiting_.push_back(req);
    schedule();
}

// As it was when its caller sent it: the encoded call, its XID and its pins.
void TransportImpl::reset_for_sending(Req& req) noexcept {
    NR_ASSERT(req.exposure_count == 0 && !req.holds_credit && req.rep == nullptr);
    if (static_cast<ListHook<StepTag>&>(req).linked()) steps_.erase(req);
    req.gather_room.reset();
    req.reply_room.reset();
    req.outcome.reset();
    req.fenced.reset();
    req.waited = req.send_done = req.fence_started = req.wants_larger_room = false;
    req.reply = {};
    req.state = ReqState::waiting;
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
    if (req.abandoned && req.names_memory()) --given_up_;
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
    while (!waiting_.empty() && connected()) {
        Req& req = waiting_.front();
        // A credit is worth as much as the Receive for its reply.
        if (receives_->posted() <= credits_.in_flight() + counts_.backward) receives_->top_up(1);
        if (receives_->posted() <= credits_.in_flight() + counts_.backward || !credits_.take()) {
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
// While the connection is being recovered there is only memory to be had.
void TransportImpl::wake_callers() noexcept {
    const bool ended = !connected() && !recovering();
    const bool slot = slot_wanted_ && (ended || (connected() && !free_.empty()));
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

// ---- begin and end
// -----------------------------------------------------------------------------------------------------

void TransportImpl::on_connected(void* arg) noexcept {
    static_cast<TransportImpl*>(arg)->resume();
}

void TransportImpl::on_drained(void* arg, const Error& why) noexcept {
    static_cast<TransportImpl*>(arg)->on_lost(why);
}

}  // namespace nfsrdma::xprtrdma
