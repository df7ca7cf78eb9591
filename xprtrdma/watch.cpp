#include <algorithm>

#include "base/assert.hpp"
#include "xprtrdma/transport_impl.hpp"

// The peer that says nothing.
//
// Operation. RC has no keepalive: a peer that died after it acknowledged a call would never be
// missed. So while calls are outstanding one timer looks at the oldest of them and at the last sign
// of life. Nothing heard for a while: ping. An RDMA WRITE of no bytes needs no key, no credit and
// no Receive of the peer, whose device answers it while the peer itself may be busy; no answer in
// time, or the device's own retries in vain, end the connection. A peer whose device lives and
// whose process does not is found out by the calls' own time.
//
// Ownership. The ping is posted once at a time: `pending` from here to its completion, which the
// drain of the connection flushes.
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

void TransportImpl::on_reply_timer() noexcept {
    const std::uint64_t oldest = oldest_call_ns();
    if (oldest == UINT64_MAX || !connected()) return;
    const std::uint64_t now = endpoint_->loop().now_ns();
    std::uint64_t next = UINT64_MAX;
    if (options_.reply_timeout_ns != 0) {
        if (now - oldest >= options_.reply_timeout_ns) {
            ++counters_.reply_timeouts;
            return endpoint_->disconnect({Errc::reconnect, 0, "no reply in time"});
        }
        next = oldest + options_.reply_timeout_ns;
    }
    if (ping_.pending) {
        if (now - ping_.since_ns >= options_.ping.timeout_ns) {
            ++counters_.ping_timeouts;
            return endpoint_->disconnect({Errc::reconnect, 0, "the peer does not answer a ping"});
        }
        next = std::min(next, ping_.since_ns + options_.ping.timeout_ns);
    } else if (options_.ping.after_ns != 0) {
        const std::uint64_t quiet_since = std::max(heard_ns_, oldest);
        if (now - quiet_since >= options_.ping.after_ns) {
            send_ping(now);
            next = std::min(next, now + options_.ping.timeout_ns);
        } else {
            next = std::min(next, quiet_since + options_.ping.after_ns);
        }
    }
    if (next != UINT64_MAX) endpoint_->loop().arm(reply_timer_, next);
}

void TransportImpl::send_ping(std::uint64_t now) noexcept {
    ++counters_.pings;
    trace(0, "ping");
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
    self.heard_ns_ = self.endpoint_->loop().now_ns();
    self.io_->on_send_room();
    self.on_reply_timer();  // which waits for a later time now
}

}  // namespace nfsrdma::xprtrdma
