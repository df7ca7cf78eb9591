// What the threads of svc_run do with connections: libtirpc's operations of svc_listener.hpp.
#include <utility>

#include "tirpc/svc_listener.hpp"

namespace nfsrdma::tirpc {
namespace {

// After a request a thread polls for the next one: a wake-up costs as much, a round trip that is
// polled for a fifth of it. Less, the more often that was in vain.
constexpr std::uint64_t kSpinNs = 50 * kNsPerUs, kSpinLeastNs = 3 * kNsPerUs;
constexpr std::uint32_t kVainSpins = 8;
// A request that comes so soon after polling had ended shows that it ended too early.
constexpr std::uint64_t kNearMissNs = 4 * kSpinNs;
// Requests, and time without any, after which libtirpc polls its other fds, though something
// happens still: it may be a request whose arguments are fetched.
constexpr std::uint32_t kBurst = 64;
constexpr std::uint64_t kPollNs = kNsPerMs;

// Of this thread: whether it serves one connection from inside the xp_stat of another.
thread_local bool nested_here = false;

}  // namespace

void SvcListener::accept() noexcept {
    kick_.ack();
    // After svc_exit each thread is to return from its poll, whichever comes here first.
    if (shared_.threads && svc_pollfd == nullptr) kick_.kick();
    const Driver::Hold hold(*shared_.driver);
    if (!destroyed_) open_waiting();
}

// Takes the next request, with the connection.
bool SvcListener::take(SvcConnection& connection) noexcept {
    if (connection.kicked) {
        connection.kicked = false;
        connection.kick.ack();
    }
    if (connection.owned() && !(connection.mine() && std::exchange(connection.more, false))) {
        // From inside a dispatch of it, or another thread has it.
        if (connection.mine()) ++connection.refused;
        return false;
    }
    const bool visited = std::exchange(connection.revisit, false);
    if (!connection.registered || !(visited || connection.wants_attention())) {
        if (connection.owned()) --owned_;
        connection.owner = {};
        return false;
    }
    if (connection.in_ready()) ready_.erase(connection);
    if (!connection.owned()) ++owned_;
    connection.owner = std::this_thread::get_id();
    if (connection.queue.empty()) return false;  // the rest is done in xp_stat
    connection.current = &connection.queue.pop_front();
    return true;
}

bool SvcListener::receive(SvcConnection& connection, rpc_msg& msg) noexcept {
    sunrpc::SvcRqst* rqst = nullptr;
    {
        const Driver::Hold hold(*shared_.driver);
        if (!take(connection)) return false;
        rqst = connection.current;
        const std::uint64_t now = shared_.driver->loop().now_ns();
        if (now - left_ns_ < kNearMissNs) spin_ns_ = std::min(spin_ns_ * 2, kSpinNs);
        left_ns_ = 0;
    }
    // The security flavors left it pointing into libtirpc's stack.
    connection.face.xprt.xp_verf.oa_base = connection.request.verifier_room();
    const std::time_t now = std::time(nullptr);
    if (!connection.request.begin(*rqst, msg)) return false;
    connection.gss_call = msg.rm_call.cb_cred.oa_flavor == RPCSEC_GSS;
    if (connection.gss_call) connection.gss_used = now;
    return true;
}

xprt_stat SvcListener::status(SvcConnection& connection) noexcept {
    Hold hold(std::in_place, *shared_.driver);
    if (!connection.owned() || !connection.mine()) return XPRT_IDLE;
    if (connection.refused != 0) {
        --connection.refused;
        return XPRT_IDLE;
    }
    connection.request.finish();
    // A look for more is no use of it.
    if (std::exchange(connection.current, nullptr) != nullptr)
        connection.used_ns = shared_.driver->loop().now_ns();
    // RPCSEC_GSS_DESTROY leaves none.
    if (std::exchange(connection.gss_call, false))
        connection.gss = SVC_XP_AUTH(&connection.face.xprt);
    if (!nested_here) return serve_others(hold, connection);
    return let_go(connection);
}

// Its owner has done with it, or libtirpc is to destroy it.
xprt_stat SvcListener::let_go(SvcConnection& connection) noexcept {
    if (connection.destroyed || (connection.transport == nullptr && connection.queue.empty())) {
        connection.died = true;
        return XPRT_DIED;
    }
    connection.owner = {};
    --owned_;
    if (!connection.wants_attention() || connection.in_ready()) return XPRT_IDLE;
    ready_.push_back(connection);
    if (!nested_here || shared_.threads) kick(connection);
    return XPRT_IDLE;
}

// One connection after the other, `own` among them, as long as there are requests. svc_exit ends
// it: there is nothing to poll then.
xprt_stat SvcListener::serve_others(Hold& hold, SvcConnection& own) noexcept {
    bool idle = false, again = false;
    while (!own.destroyed && svc_pollfd != nullptr && !again) {
        again = burst_++ >= kBurst;
        shared_.looking = true;
        if (!retry_.armed()) open_waiting();
        shared_.looking = false;
        if (own.wants_attention() && !own.in_ready()) ready_.push_back(own);
        if (ready_.empty()) {
            const Polled polled = poll_for_requests(hold, own);
            idle = polled == Polled::quiet;
            again = again || polled == Polled::busy;
            if (idle) break;
            continue;
        }
        // Served from here, it would keep `own` from the other threads.
        if (shared_.threads && &ready_.front() != &own) break;
        SvcConnection& next = ready_.pop_front();
        if (shared_.threads) kick_ready();
        if (&next == &own) {
            if (own.queue.empty()) break;  // over
            own.more = true;
            return XPRT_MOREREQS;
        }
        serve(hold, next);
    }
    burst_ = 0;
    if (own.in_ready()) ready_.erase(own);
    const xprt_stat status = let_go(own);
    kick_ready();
    if (status != XPRT_IDLE) return status;
    if (idle) hold->going_idle();
    // libtirpc comes back at once, or nobody would poll for what comes now.
    if (again && own.registered) {
        own.revisit = true;
        kick(own);
    }
    return status;
}

// As long as the device has something to do, be it that data of a call is moved.
SvcListener::Polled SvcListener::poll_for_requests(Hold& hold, SvcConnection& own) noexcept {
    const Loop& loop = shared_.driver->loop();
    if (spin_ns_ == 0) spin_ns_ = kSpinNs;
    const std::uint64_t began = loop.now_ns();
    polling_ = &own;
    shared_.looking = true;
    const bool came =
        hold->poll_for([](void* self) { return static_cast<SvcListener*>(self)->has_attention(); },
                       this, began + kPollNs, spin_ns_);
    shared_.looking = false;
    polling_ = nullptr;
    if (came) {
        ++counts_.polled;
        spins_in_vain_ = 0;
        spin_ns_ = std::min(spin_ns_ * 2, kSpinNs);
        return Polled::came;
    }
    const std::uint64_t now = loop.now_ns();
    if (now - began >= kPollNs) return Polled::busy;
    left_ns_ = now;
    if (++spins_in_vain_ >= kVainSpins) {
        spins_in_vain_ = 0;
        spin_ns_ = std::max(spin_ns_ / 2, kSpinLeastNs);
    }
    return Polled::quiet;
}

// By libtirpc, as if it had polled. The loop is not held meanwhile.
void SvcListener::serve(Hold& hold, SvcConnection& connection) noexcept {
    if (connection.owned()) return;
    ++counts_.nested;
    const int fd = connection.face.xprt.xp_fd;
    hold.reset();
    nested_here = true;
    svc_getreq_common(fd);
    nested_here = false;
    hold.emplace(*shared_.driver);
}

void SvcListener::destroy(SvcConnection& connection) noexcept {
    bool last = false;
    {
        const Driver::Hold hold(*shared_.driver);
        if (!connection.registered) return;
        const bool died = connection.mine() && connection.died;
        if (connection.owned() && !died) {
            connection.destroyed = true;
            return;
        }
        if (connection.owned()) --owned_;
        connection.owner = {};
        // Before what comes next may recycle it.
        close_transport(connection);
        close_libtirpc_half(connection);
        last = destroyed_ && owned_ == 0;
    }
    if (last) destroy(std::unique_ptr<SvcListener>(this));
}

// Now, or when the last of its connections that is being served comes back.
void SvcListener::destroy(std::unique_ptr<SvcListener> self) noexcept {
    bool in_use = false;
    {
        const Driver::Hold hold(*self->shared_.driver);
        self->destroyed_ = true;
        if (std::exchange(self->registered_, false)) xprt_unregister(&self->face_.xprt);
        self->kick_.close();
        self->waiting_.clear();
        for (const auto& connection : self->connections_) {
            if (connection->owned()) {
                connection->destroyed = true;
            } else if (connection->registered) {
                self->close_transport(*connection);
                self->close_libtirpc_half(*connection);
            }
        }
        in_use = self->owned_ != 0;
    }
    if (in_use) static_cast<void>(self.release());
}

}  // namespace nfsrdma::tirpc
