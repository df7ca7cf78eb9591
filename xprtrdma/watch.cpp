#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "xprtrdma/transport_impl.hpp"

// The peer that says nothing.
//
// Operation. RC has no keepalive: a peer that died after it acknowledged a call would never be
// missed. So while calls are outstanding one timer looks at the oldest of them and at the last sign
// of life. Nothing heard for a while: ping. An RDMA WRITE of no bytes needs no key, no credit and
// no Receive of the peer, whose device answers it while the peer itself may be busy; no answer in
// time, or the device's own retries in vain, end the connection. A server that was killed and
// started again knows nothing of the connection, and is silent on it for as long as the device has
// patience; a transport that recovers asks its host beside the connection (Probe), and ends it when
// that is answered and the ping is not. A peer whose device lives and whose process does not is
// found out by the calls' own time.
//
// Ownership. The ping is posted once at a time: `pending` from here to its completion, which the
// drain of the connection flushes. A probe lives no longer than the ping's silence, and dies from
// the timer or at the connection's end, not from inside its own event.
//
// Errors. Each ends in Endpoint::disconnect.
namespace nfsrdma::xprtrdma {

void TransportImpl::watch_replies() noexcept {
    if (reply_timer_.armed()) return;
    const std::uint64_t after =
        std::min(options_.ping.after_ns == 0 ? UINT64_MAX : options_.ping.after_ns,
                 options_.reply_timeout_ns == 0 ? UINT64_MAX : options_.reply_timeout_ns);
    if (after == UINT64_MAX) return;
    Loop& loop = endpoint_->loop();
    loop.arm(reply_timer_, loop.now_ns() + after);
}

// When the oldest call that is on the wire was posted; UINT64_MAX: there is none.
std::uint64_t TransportImpl::oldest_call_ns() noexcept {
    std::uint64_t oldest = UINT64_MAX;
    for (const Req& req : active_) {
        if (req.holds_credit) oldest = std::min(oldest, req.posted_ns);
    }
    return oldest;
}

void TransportImpl::note_life() noexcept {
    heard_ns_ = endpoint_->loop().now_ns();
}

// A reply: the next silence is a new one, which the timer may be too late for.
void TransportImpl::note_reply() noexcept {
    note_life();
    const std::uint64_t after = options_.ping.after_ns;
    if (std::exchange(ping_after_ns_, after) <= after || !reply_timer_.armed()) return;
    Loop& loop = endpoint_->loop();
    loop.arm(reply_timer_, std::min(reply_timer_.deadline_ns(), loop.now_ns() + after));
}

// Each look returns when to look again.
void TransportImpl::on_reply_timer() noexcept {
    const std::uint64_t oldest = oldest_call_ns();
    if (!ping_.pending) probe_.reset();
    if (oldest == UINT64_MAX || !connected()) return;
    const std::uint64_t now = endpoint_->loop().now_ns();
    std::uint64_t next = look_at_replies(now, oldest);
    if (connected())
        next = std::min(next, ping_.pending ? look_at_ping(now) : look_at_silence(now, oldest));
    if (connected() && next != UINT64_MAX) endpoint_->loop().arm(reply_timer_, next);
}

std::uint64_t TransportImpl::look_at_replies(std::uint64_t now, std::uint64_t oldest) noexcept {
    if (options_.reply_timeout_ns == 0) return UINT64_MAX;
    if (now - oldest < options_.reply_timeout_ns) return oldest + options_.reply_timeout_ns;
    ++counters_.reply_timeouts;
    endpoint_->disconnect({Errc::reconnect, 0, "no reply in time"});
    return UINT64_MAX;
}

bool TransportImpl::all_given_up(bool (*nobody_waits)(const sunrpc::Rqst& rqst) noexcept) noexcept {
    if (!connected() || credits_.in_flight() < credits_.granted()) return false;
    for (const Req& req : active_) {
        if (req.holds_credit && !req.abandoned && !nobody_waits(req)) return false;
    }
    return true;
}

void TransportImpl::end_connection(const char* why) noexcept {
    if (!connected()) return;
    ++counters_.reply_timeouts;
    endpoint_->disconnect({Errc::reconnect, 0, why});
}

std::uint64_t TransportImpl::look_at_silence(std::uint64_t now, std::uint64_t oldest) noexcept {
    if (options_.ping.after_ns == 0) return UINT64_MAX;
    const std::uint64_t quiet_since = std::max(heard_ns_, oldest);
    if (now - quiet_since < ping_after_ns_) return quiet_since + ping_after_ns_;
    send_ping(now);
    return ping_.pending ? look_at_ping(now) : UINT64_MAX;
}

std::uint64_t TransportImpl::look_at_ping(std::uint64_t now) noexcept {
    if (now - ping_.since_ns >= options_.ping.timeout_ns) {
        ++counters_.ping_timeouts;
        endpoint_->disconnect({Errc::reconnect, 0, "the peer does not answer a ping"});
        return UINT64_MAX;
    }
    const std::uint64_t next = ping_.since_ns + options_.ping.timeout_ns;
    return options_.recovery.on && options_.ping.probe_after_ns != 0
               ? std::min(next, look_at_probe(now))
               : next;
}

std::uint64_t TransportImpl::look_at_probe(std::uint64_t now) noexcept {
    const PingOptions& options = options_.ping;
    if (probe_ == nullptr) {
        if (now - ping_.since_ns < options.probe_after_ns)
            return ping_.since_ns + options.probe_after_ns;
        probe_told_ns_ = 0;
        auto probe =
            endpoint_->probe(server_, {.answered = &TransportImpl::on_probe_answered, .arg = this});
        if (!probe) return UINT64_MAX;  // one question less
        ++counters_.probes;
        trace(0, "probe");
        probe_ = *std::move(probe);
        return now + options.probe_after_ns;
    }
    if (probe_told_ns_ == 0) {
        // It has an end; the silence goes on, and so does the asking.
        if (probe_->over()) probe_.reset();
        return now + options.probe_after_ns;
    }
    // Signs of life that came since the answer, or shortly before.
    const std::uint64_t mute_since = std::max(probe_told_ns_, heard_ns_);
    if (now - mute_since < options.probe_grace_ns) return mute_since + options.probe_grace_ns;
    ++counters_.probes_told;
    endpoint_->disconnect({Errc::reconnect, 0, "the peer lives, and not on this connection"});
    return UINT64_MAX;
}

void TransportImpl::on_probe_answered(void* arg) noexcept {
    TransportImpl& self = *static_cast<TransportImpl*>(arg);
    Loop& loop = self.endpoint_->loop();
    self.probe_told_ns_ = loop.now_ns();
    loop.arm(self.reply_timer_, loop.now_ns());
}

void TransportImpl::send_ping(std::uint64_t now) noexcept {
    ++counters_.pings;
    trace(0, "ping");
    ping_after_ns_ = std::min(ping_after_ns_ * 2, options_.ping.after_max_ns);
    ping_.pending = true;
    ping_.since_ns = now;
    ping_.chain = {};
    ping_.chain.push_back(ping_.wr);
    io_->post(ping_);
}

void TransportImpl::on_ping_posted(pools::Posting& posting, Result<void> result) noexcept {
    if (result) return;
    Ping& ping = static_cast<Ping&>(posting);
    ping.pending = false;
    ping.home->endpoint_->disconnect({Errc::reconnect, 0, "post a ping"});
}

void TransportImpl::on_ping_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Ping& ping = static_cast<Ping&>(cqe);
    TransportImpl& self = *ping.home;
    NR_ASSERT(ping.pending);
    ping.pending = false;
    if (wc.status != verbs::WcStatus::success) {
        self.endpoint_->disconnect({Errc::reconnect, 0, verbs::to_string(wc.status)});
        return;
    }
    self.note_life();
    self.io_->on_send_room();
    self.on_reply_timer();  // which waits for a later time now
}

}  // namespace nfsrdma::xprtrdma
