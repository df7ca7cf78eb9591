#include <utility>

#include "base/log.hpp"
#include "svcrdma/transport.hpp"

// The peer that says nothing, takes nothing, wants too much or sends garbage.
namespace nfsrdma::svcrdma {

// What of a peer may be in progress at once is shared by its connections. Those that wait stand in
// one queue of the loop: who ends a call hands its place to the next of the same peer, and the
// first looks by itself now and then, since calls end on other loops, too. It tells of itself where
// it finds none: the other loop then gives a place back, and leaves it alone for a while.
namespace {
constexpr std::uint64_t kPeerPollNs = kNsPerMs;
}  // namespace

void SvcTransport::end_handshake() noexcept {
    if (!std::exchange(handshaking_, false)) return;
    --server_.handshakes;
    if (known_peer_ != nullptr) server_.options.peers->end_handshake(*known_peer_);
}

bool SvcTransport::begin_request() noexcept {
    if (known_peer_ == nullptr) return true;
    if (waits_for_peer()) return false;
    if (std::exchange(has_place_, false)) return true;
    if (next_of_peer() == nullptr && server_.options.peers->begin_request(*known_peer_))
        return true;
    ++server_.counters.waited_for_peer;
    server_.peer_waiters.push_back(peer_waiter_);
    loop().arm(peer_timer_, loop().now_ns() + kPeerPollNs);
    return false;
}

void SvcTransport::end_request() noexcept {
    if (known_peer_ == nullptr) return;
    PeerTable& peers = *server_.options.peers;
    SvcTransport* const heir = next_of_peer();
    if (heir == nullptr) return peers.end_request(*known_peer_);
    if (peers.is_wanted_elsewhere(*known_peer_, &server_)) {
        loop().arm(heir->peer_timer_, loop().now_ns() + 2 * kPeerPollNs);
        return peers.end_request(*known_peer_);
    }
    heir->take_place();
}

void SvcTransport::take_place() noexcept {
    stop_waiting_for_peer();
    has_place_ = true;
    schedule();
}

SvcTransport* SvcTransport::next_of_peer() noexcept {
    for (const PeerWaiter& waiter : server_.peer_waiters) {
        if (waiter.transport->known_peer_ == known_peer_) return waiter.transport;
    }
    return nullptr;
}

void SvcTransport::stop_waiting_for_peer() noexcept {
    if (!waits_for_peer()) return;
    server_.peer_waiters.erase(peer_waiter_);
    loop().disarm(peer_timer_);
}

void SvcTransport::on_peer_wait(Timer& timer) noexcept {
    SvcTransport& self = *static_cast<OwnedTimer&>(timer).transport;
    if (self.next_of_peer() == &self) {
        PeerTable& peers = *self.server_.options.peers;
        if (peers.begin_request(*self.known_peer_)) return self.take_place();
        peers.want_request(*self.known_peer_, &self.server_);
    }
    self.loop().arm(timer, self.loop().now_ns() + kPeerPollNs);
}

void SvcTransport::note_fault() noexcept {
    ++server_.counters.peer_faults;
    if (known_peer_ == nullptr) return;
    PeerTable& peers = *server_.options.peers;
    switch (peers.fault(*known_peer_, loop().now_ns())) {
        case FaultVerdict::tolerated:
            return;
        case FaultVerdict::begins:
            ++server_.counters.quarantines;
            log::warn("{} sends garbage: no connection from it for {} s", peer_.address_to_string(),
                      peers.limits().quarantine_ns / kNsPerSec);
            break;
        case FaultVerdict::quarantined:
            break;
    }
    close();
}

// A peer that vanished without a word: RC finds that out only when it sends. While something of
// ours is out the device watches; else we ask.
void SvcTransport::watch_peer() noexcept {
    heard_ns_ = loop().now_ns();
    if (server_.options.keepalive_ns != 0)
        loop().arm(keepalive_timer_, heard_ns_ + server_.options.keepalive_ns);
}

void SvcTransport::on_keepalive(Timer& timer) noexcept {
    SvcTransport& self = *static_cast<OwnedTimer&>(timer).transport;
    const std::uint64_t now = self.loop().now_ns(), every = self.server_.options.keepalive_ns;
    const bool quiet = now >= self.heard_ns_ + every;
    self.loop().arm(self.keepalive_timer_, quiet ? now + every : self.heard_ns_ + every);
    if (quiet && self.sends_lent_ == 0 && !self.probe_.pending) self.post_probe();
}

// Of no bytes, so that it needs no key and no Receive, and the peer's program never hears of it:
// its device alone answers (InfiniBand volume 1, C9-88).
void SvcTransport::post_probe() noexcept {
    ++server_.counters.keepalives;
    probe_.pending = true;
    probe_.done = &SvcTransport::on_probed;
    probe_.wr.cqe = &probe_;
    probe_.wr.op = verbs::SendOp::rdma_write;
    probe_.wr.signaled = true;
    probe_.chain = {};
    probe_.chain.push_back(probe_.wr);
    probe_.posted = [](pools::Posting& posting, Result<void> result) noexcept {
        auto& probe = static_cast<Probe&>(posting);
        if (result) return;
        probe.pending = false;
        probe.transport->close();
    };
    io_->post(probe_);
}

void SvcTransport::on_probed(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    auto& probe = static_cast<Probe&>(cqe);
    SvcTransport& self = *probe.transport;
    probe.pending = false;
    if (wc.status == verbs::WcStatus::success) {
        self.heard_ns_ = self.loop().now_ns();
    } else {
        self.note_lost(wc.status);
        self.close();
    }
    self.io_->on_send_room();
}

// Before close(): it is counted once a connection.
void SvcTransport::note_lost(verbs::WcStatus status) noexcept {
    if (status == verbs::WcStatus::retry_exceeded && !std::exchange(lost_, true))
        ++server_.counters.peers_lost;
}

void SvcTransport::watch_idle() noexcept {
    if (server_.options.idle_timeout_ns == 0 || closing()) return;
    last_call_ns_ = loop().now_ns();
    loop().arm(idle_timer_, last_call_ns_ + server_.options.idle_timeout_ns);
}

// B64: a connection that nobody uses is closed.
void SvcTransport::on_idle(Timer& timer) noexcept {
    SvcTransport& self = *static_cast<OwnedTimer&>(timer).transport;
    const std::uint64_t now = self.loop().now_ns();
    const std::uint64_t timeout = self.server_.options.idle_timeout_ns;
    const bool busy = self.calls_in_progress() > 0 || !self.arrived_.empty() ||
                      (self.backward_ != nullptr && self.backward_->busy());
    if (!busy && now >= self.last_call_ns_ + timeout) return self.close();
    const std::uint64_t from = busy ? now : self.last_call_ns_;
    self.loop().arm(self.idle_timer_, from + timeout);
}

// A peer without a Receive for its answer is retried for as long as it told the device to: for
// ever, if it likes. What its replies hold is shared with other connections, so patience ends here.
// The timer runs only while a reply is out.
void SvcTransport::on_send_lent() noexcept {
    if (sends_lent_++ > 0) return;
    send_progress_ns_ = loop().now_ns();
    if (!stall_timer_.armed() && !closing())
        loop().arm(stall_timer_, send_progress_ns_ + server_.options.stall_timeout_ns);
}

void SvcTransport::on_send_home() noexcept {
    NR_ASSERT(sends_lent_ > 0);
    --sends_lent_;
    send_progress_ns_ = heard_ns_ = loop().now_ns();
}

void SvcTransport::on_stall(Timer& timer) noexcept {
    SvcTransport& self = *static_cast<OwnedTimer&>(timer).transport;
    if (self.sends_lent_ == 0) return;
    const std::uint64_t end = self.send_progress_ns_ + self.server_.options.stall_timeout_ns;
    if (self.loop().now_ns() < end) return self.loop().arm(self.stall_timer_, end);
    ++self.server_.counters.stalled;
    self.close();
}

}  // namespace nfsrdma::svcrdma
