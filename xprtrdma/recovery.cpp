#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "xprtrdma/transport_impl.hpp"

// The end of a connection, and the next one.
//
// Operation. Every end of a connection, and of an attempt, comes to on_lost(), when all that was
// posted has been flushed. A transport that does not recover ends there. One that does keeps its
// calls as their callers sent them, in that order, in front of what is sent later; waits; renews
// the keys that were flushed; and connects by another queue pair with the same pools. Once
// connected, pump() sends them like any other call: an XID for life, and one credit until the
// first reply.
//
// Ownership. (1) A call that is kept is in active_ and in waiting_, holds its pins, its message and
// its XID, and neither key nor credit nor Receive: reset_for_sending() asserts it. (2) Keys of the
// last connection are replaced before its queue pair dies and before the next one connects, so that
// nobody reaches memory by them: connect_again().
//
// Who needs no connection gets none at once: a server that closes idle connections means it. The
// next call brings it back, or a minute.
//
// Errors. An attempt that fails counts and is followed by another, until RecoveryOptions says that
// it is enough; then, and by close(), everything ends as without recovery.
namespace nfsrdma::xprtrdma {
namespace {

constexpr std::uint64_t kUnusedNs = kNsPerSec;     // not heard from and not asked for so long: idle
constexpr std::uint64_t kIdleNs = 60 * kNsPerSec;  // between attempts of a transport that is idle

}  // namespace

void TransportImpl::on_lost(const Error& why) noexcept {
    progress();  // replies that came before the end
    io_->on_disconnect();
    if (backward_ != nullptr) backward_->on_disconnect();
    receives_->set_qp(nullptr);
    probe_.reset();
    NR_ASSERT(!ping_.pending);
    const bool was_up = std::exchange(up_, false);
    trace(0, why.what);
    if (was_up || !recovering_) ++counters_.disconnects;
    if (!recovers()) return end(why);
    note_loss(was_up);
    const bool begins = !std::exchange(recovering_, true);
    why_down_ = why;
    keep_active();
    ask_who_waits();
    if (closing_) return;  // from inside: the timer ends it
    if (patience_ns() == 0) return end(why);
    wait_for_next_try();
    // The last thing: its receiver may close.
    if (begins && recovery_ != nullptr) recovery_(recovery_arg_, false);
}

bool TransportImpl::recovers() const noexcept {
    return options_.recovery.on && !closing_ && (connected_told_ || options_.recovery.first_too);
}

// The end of all: every pending call is answered. No key of ours can be reached and no memory is
// lent any more.
void TransportImpl::end(const Error& why) noexcept {
    up_ = recovering_ = false;
    endpoint_->loop().disarm(recovery_timer_);
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
        req.wants_larger_room = false;
        if (!req.outcome) req.outcome.emplace(reason);
        if (std::exchange(req.holds_credit, false)) credits_.give_back();
        advance(req);
        NR_ASSERT(active_.empty() || &active_.front() != &req);
    }
    credits_.reset();
}

// ---- what is kept
// ------------------------------------------------------------------------------------------------------

// The order of active_ is that of the callers. Who has been answered, or went away, ends now, but
// only when the others are in their places: a callback may send.
void TransportImpl::keep_active() noexcept {
    waiting_.clear();
    steps_.clear();
    List<Req, StepTag> ending;
    for (Req& req : active_) {
        req.send_done = true;
        if (std::exchange(req.holds_credit, false)) credits_.give_back();
        if (!req.abandoned && (!req.outcome || req.wants_larger_room)) {
            if (!req.fence_started) fence(req, *io_, [](Req&) noexcept {});
            NR_ASSERT(req.fenced);
            reset_for_sending(req);
            waiting_.push_back(req);
            continue;
        }
        if (!req.outcome) req.outcome.emplace(Error{Errc::reconnect, 0, "disconnected"});
        ending.push_back(req);
    }
    credits_.reset();
    while (!ending.empty())
        advance(ending.pop_front());
}

// ---- when
// ------------------------------------------------------------------------------------------------------------

// A connection that brought a reply, or was asked for none, worked: patience begins anew. Else it
// counts from when somebody began to need one.
void TransportImpl::note_loss(bool was_up) noexcept {
    if (recovering_ || !was_up) return;
    down_ns_ = endpoint_->loop().now_ns();
    if (!answered_ && !active_.empty()) {
        std::uint64_t asked = UINT64_MAX;
        for (const Req& req : active_)
            asked = std::min(asked, req.asked_ns);
        lost_ns_ = std::max(lost_ns_, asked);
        return;
    }
    lost_ns_ = down_ns_;
    // A server that takes connections and drops them is not asked ever faster, either.
    if (!answered_ && down_ns_ - up_ns_ < kUnusedNs) return;
    tries_ = 0;
    delay_ns_ = 0;
}

// Who asked for the first connection waits for it.
bool TransportImpl::needed() const noexcept {
    return !active_.empty() || callers_wait() || !connected_told_;
}

// A call comes, and is not noted yet. Where nobody else waits, patience begins with it, whatever
// was tried before; and where there was no hurry, there is one now.
void TransportImpl::hurry() noexcept {
    if (needed() || asking_) return;
    Loop& loop = endpoint_->loop();
    lost_ns_ = loop.now_ns();
    tries_ = 0;
    delay_ns_ = 0;
    if (!std::exchange(on_demand_, false)) return;
    down_ns_ = lost_ns_;
    loop.arm(recovery_timer_, lost_ns_);
}

// A caller that was told `again` may have gone away since. Who has not asks once more, and goes on
// waiting: that is no new need.
void TransportImpl::ask_who_waits() noexcept {
    if (!callers_wait() || wake_ == nullptr) return;
    slot_wanted_ = payload_wanted_ = payload_home_ = false;
    asking_ = true;
    wake_(wake_arg_);
    asking_ = false;
}

// 0: none is left. Patience is for those who wait.
std::uint64_t TransportImpl::patience_ns() noexcept {
    const RecoveryOptions& recovery = options_.recovery;
    if (!needed()) return UINT64_MAX;
    if (recovery.tries_max != 0 && tries_ >= recovery.tries_max) return 0;
    if (recovery.give_up_ns == 0) return UINT64_MAX;
    const std::uint64_t gone = endpoint_->loop().now_ns() - lost_ns_;
    return gone >= recovery.give_up_ns ? 0 : recovery.give_up_ns - gone;
}

void TransportImpl::wait_for_next_try() noexcept {
    Loop& loop = endpoint_->loop();
    std::uint64_t delay = connected_told_ && tries_ == 0 ? 0 : next_delay_ns();
    on_demand_ = connected_told_ && !needed() && loop.now_ns() - heard_ns_ >= kUnusedNs;
    if (on_demand_) delay = kIdleNs;
    loop.arm(recovery_timer_, loop.now_ns() + std::min(delay, patience_ns()));
}

std::uint64_t TransportImpl::next_delay_ns() noexcept {
    const RecoveryOptions& recovery = options_.recovery;
    delay_ns_ = delay_ns_ == 0 ? recovery.first_delay_ns : delay_ns_ * 2;
    delay_ns_ = std::clamp<std::uint64_t>(delay_ns_, 1, recovery.max_delay_ns);
    const std::uint64_t quarter = delay_ns_ / 4;
    return std::min(delay_ns_ - quarter + delays_.below(2 * quarter + 1), recovery.max_delay_ns);
}

// ---- the next connection
// -----------------------------------------------------------------------------------------------

void TransportImpl::on_recovery_timer() noexcept {
    if (closing_ || patience_ns() == 0)
        return end({Errc::reconnect, 0, "no connection in the time that was given"});
    on_demand_ = false;
    ++tries_;
    ++counters_.reconnect_tries;
    const Result<void> begun = connect_again();
    if (begun) return;
    // As an attempt that failed: nothing is posted.
    io_->on_disconnect();
    receives_->set_qp(nullptr);
    on_attempt_refused(begun.error());
}

// This host could not even ask.
void TransportImpl::on_attempt_refused(const Error& why) noexcept {
    why_down_ = why;
    trace(0, why.what);
    const std::uint64_t now = endpoint_->loop().now_ns();
    if (told_refused_.pass(now)) {
        log::warn("cannot connect to {} again: {} ({} more such)", server_.to_string(),
                  to_string(why), told_refused_.held_back());
    }
    if (why.sys == ENODEV) return end(why);  // there is no device that could
    ask_who_waits();
    if (closing_) return;
    wait_for_next_try();
}

Result<void> TransportImpl::connect_again() noexcept {
    NR_TRY(io_->renew());
    NR_TRY_ASSIGN(verbs::QueuePair* const qp, endpoint_->renew());
    io_->set_qp(qp);
    receives_->set_qp(qp);
    receives_->top_up(1);
    const std::uint64_t timeout = std::min(options_.recovery.try_timeout_ns, patience_ns());
    return endpoint_->start(server_, std::max<std::uint64_t>(timeout, 1));
}

// Connected, for the first time or again.
void TransportImpl::resume() noexcept {
    const std::uint64_t now = endpoint_->loop().now_ns();
    up_ = true;
    answered_ = distrusted_ = false;
    heard_ns_ = up_ns_ = now;
    ping_after_ns_ = options_.ping.after_ns;
    trace(0, "connected");
    const bool again = std::exchange(recovering_, false);
    if (again && connected_told_) {
        ++counters_.reconnects;
        const std::uint64_t took = now - down_ns_;
        counters_.recover_ns += took;
        counters_.recover_ns_max = std::max(counters_.recover_ns_max, took);
    }
    plan_again();
    schedule();
    const bool told = std::exchange(connected_told_, true);
    if (!told && connected_ != nullptr) connected_(connected_arg_, {});
    if (again && recovery_ != nullptr) recovery_(recovery_arg_, true);
}

// This server, or this one after its restart, may take other sizes inline.
void TransportImpl::plan_again() noexcept {
    for (std::uint32_t left = waiting_.size(); left != 0; --left) {
        Req& req = waiting_.pop_front();
        auto plan = plan_transfer(sizes_of(req), plan_limits());
        if (plan) {
            req.plan = *plan;
            waiting_.push_back(req);
            continue;
        }
        req.outcome.emplace(plan.error());
        req.send_done = true;
        schedule(req);
    }
}

}  // namespace nfsrdma::xprtrdma
