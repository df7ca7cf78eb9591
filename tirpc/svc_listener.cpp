#include "tirpc/svc_listener.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/resource.h>
#include <utility>

#include "base/bytes.hpp"

namespace nfsrdma::tirpc {
namespace {

// More connections than may be, while those that are idle are being closed.
constexpr std::uint32_t kSpareConnections = 16;
// Memory of payloads of a listener: as many calls as a connection may have, but no more than this.
constexpr std::uint64_t kPayloadBytes = 64u << 20;
constexpr std::uint32_t kPayloadRunsMin = 4;
constexpr std::uint64_t kKeepaliveNs = 60 * kNsPerSec;
// A connection that was idle for so long may be closed for want of fds, or of room.
constexpr std::uint64_t kIdleNs = kNsPerSec;
// A listener that ends waits so long for its last answers to arrive.
constexpr std::uint64_t kGraceNs = kNsPerSec;
constexpr std::uint64_t kRetryNs = 100 * kNsPerMs;
constexpr std::uint64_t kLingerPollNs = kNsPerMs;
constexpr std::uint64_t kLingerNs = 5 * kNsPerSec;
// How long no other connection is what one was.
constexpr std::uint64_t kQuarantineNs = 2 * kNsPerSec;

svcrdma::ServerOptions listener_options(const Options& options) noexcept {
    svcrdma::ServerOptions out = server_options(options);
    const std::uint64_t each =
        std::uint64_t{out.demand.max_payload} + std::uint64_t{out.demand.max_message};
    const auto runs =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(kPayloadBytes / each, options.credits));
    out.payload_runs = std::max(runs, kPayloadRunsMin);
    out.connections_max = options.connections_max + kSpareConnections;
    out.keepalive_ns = kKeepaliveNs;
    return out;
}

std::uint32_t count_polled(int fd) noexcept {
    std::uint32_t count = 0;
    for (int i = 0; svc_pollfd != nullptr && i < svc_max_pollfd; ++i)
        count += svc_pollfd[i].fd == fd ? 1 : 0;
    return count;
}
bool is_polled(int fd) noexcept {
    return count_polled(fd) != 0;
}
// A slot that nothing is polled in.
constexpr int kFreeSlot = -1;

// libtirpc frees a context that was not used for 300 s, or leaves it for ever; before, it is there.
constexpr std::time_t kGssKeptSeconds = 290;

}  // namespace

SvcListener::SvcListener(const Options& options) noexcept
    : options_(options),
      retry_([](Timer& timer) noexcept { static_cast<LoopTimer&>(timer).listener->wake_poll(); }),
      linger_([](Timer& timer) noexcept {
          static_cast<LoopTimer&>(timer).listener->look_at_lingering();
      }),
      idle_limit_ns_(kIdleNs) {
    retry_.listener = linger_.listener = this;
    shared_.zero_copy = options.has(RPCRDMA_ZERO_COPY);
    shared_.threads = options.has(RPCRDMA_SVC_THREADS);
}

Result<std::unique_ptr<SvcListener>> SvcListener::create(const SockAddr& address,
                                                         const Options& options) {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<SvcListener> self(new SvcListener(options));
    NR_TRY(self->start(address));
    return self;
}

Result<void> SvcListener::start(const SockAddr& address) {
    NR_TRY_ASSIGN(kick_, KickPair::create());
    NR_TRY_ASSIGN(shared_.driver, Driver::create());
    const Driver::Hold hold(*shared_.driver);
    devices::Request request = server_request(options_, address);
    request.server = listener_options(options_);
    NR_TRY_ASSIGN(devices::Opened opened, devices::open(shared_.driver->loop(), request));
    device_ = std::move(opened.device);
    NR_TRY_ASSIGN(rdma_, svcrdma::Listener::create(*device_, address, *this, *request.server));
    return {};
}

Result<SVCXPRT*> SvcListener::hand_over(std::unique_ptr<SvcListener> self) noexcept {
    SVCXPRT& xprt = self->face_.xprt;
    {
        const Driver::Hold hold(*self->shared_.driver);
        self->face_.set(self->rdma_->local(), SockAddr{});
        xprt.xp_fd = self->kick_.fd();
        xprt.xp_port = self->rdma_->local().port();
        xprt.xp_ops = &listener_ops();
        xprt.xp_ops2 = &control_ops();
        xprt.xp_p1 = self.get();
        if (self->shared_.threads) self->make_slots();
        xprt_register(&xprt);
        self->registered_ = true;
        // What connected meanwhile may have called.
        self->wake_poll();
    }
    if (!is_polled(xprt.xp_fd)) {
        const int fd = xprt.xp_fd;
        destroy(std::move(self));
        log::error("the fd of a listener, {}, is beyond libtirpc's table", fd);
        return Error{Errc::system, EMFILE, "the listener's fd is beyond libtirpc's table"};
    }
    return &self.release()->face_.xprt;
}

// libtirpc's table of what it polls grows by one at a time, and moves. What is free in it is for
// others who did so before. poll(2) takes no more than there may be fds.
void SvcListener::make_slots() noexcept {
    rlimit limit{};
    static_cast<void>(::getrlimit(RLIMIT_NOFILE, &limit));
    const rlim_t slots = static_cast<rlim_t>(svc_max_pollfd);
    const rlim_t more = rlim_t{options_.connections_max} + kSpareConnections + 1;
    const rlim_t room = limit.rlim_cur - std::min(limit.rlim_cur, slots);
    const rlim_t count = count_polled(kFreeSlot) + std::min(more, room);
    for (rlim_t i = 0; i < count; ++i)
        xprt_register(&face_.xprt);
    xprt_unregister(&face_.xprt);
}

SvcListener* SvcListener::of(const SVCXPRT& xprt) noexcept {
    if (xprt.xp_ops == &listener_ops()) return static_cast<SvcListener*>(xprt.xp_p1);
    const SvcConnection* const connection = connection_of(xprt);
    return connection == nullptr ? nullptr : &connection->listener;
}

SvcConnection* SvcListener::connection_of(const SVCXPRT& xprt) noexcept {
    return xprt.xp_ops == &connection_ops() ? static_cast<SvcConnection*>(xprt.xp_p1) : nullptr;
}

// Whatever came before has ended what lives on the loop, unless start() failed.
SvcListener::~SvcListener() {
    if (shared_.driver == nullptr) return;
    {
        Driver::Hold hold(*shared_.driver);
        Loop& loop = shared_.driver->loop();
        loop.disarm(retry_);
        loop.disarm(linger_);
        if (rdma_ != nullptr) {
            destroyed_ = true;
            rdma_->shut_down(kGraceNs);
            for (const auto& connection : connections_) {
                while (!connection->queue.empty())
                    connection->transport->drop(connection->queue.pop_front());
            }
            static_cast<void>(hold.wait_held(
                [](void* self) { return static_cast<SvcListener*>(self)->rdma_->idle(); }, this,
                UINT64_MAX));
            rdma_.reset();
        }
        device_.reset();
        for (auto& connection : connections_) {
            // Its address is never to be that of another.
            if (!connection->tainted) continue;
            connection->kick.close();
            static_cast<void>(connection.release());
        }
        ready_.clear();
        waiting_.clear();
        loop.disarm(retry_);
        loop.disarm(linger_);
    }
    shared_.driver.reset();
}

void SvcListener::get_stats(rpcrdma_stats& out) noexcept {
    rpcrdma_stats stats{};
    {
        const Driver::Hold hold(*shared_.driver);
        const svcrdma::ServerCounters& counters = rdma_->counters();
        const pools::IoCounters io = rdma_->io_counters();
        stats.connections = rdma_->connections();
        stats.calls = counters.calls;
        stats.replies = counters.replies;
        stats.inline_calls = counters.inline_calls;
        stats.read_chunk_calls = counters.read_chunk_calls;
        stats.long_calls = counters.long_calls;
        stats.write_chunk_calls = counters.write_chunk_replies;
        stats.reply_chunk_calls = counters.long_replies;
        stats.keys_bound = io.binds;
        stats.remote_invalidations = counters.sends_with_inv;
        stats.local_invalidations = io.local_invalidations;
        stats.payload_copied_bytes = counters.payload_copied_bytes +
                                     shared_.payload_copied_bytes.load(std::memory_order_relaxed);
    }
    const std::size_t bytes = std::min<std::size_t>(out.size, sizeof stats);
    stats.size = static_cast<std::uint32_t>(bytes);
    std::memcpy(&out, &stats, bytes);
}

SvcListener::Counts SvcListener::counts() noexcept {
    const Driver::Hold hold(*shared_.driver);
    return counts_;
}

void SvcListener::set_idle_limit(std::uint64_t ns) noexcept {
    const Driver::Hold hold(*shared_.driver);
    idle_limit_ns_ = ns;
}

// ---- What the transport tells; the thread that drives, under the Hold.

std::uint32_t SvcListener::scratch_bytes() const noexcept {
    return 64;  // a pointer to its connection
}

SvcConnection* SvcListener::begin_connection(sunrpc::SvcXprt& xprt) noexcept {
    const std::uint64_t now = shared_.driver->loop().now_ns();
    SvcConnection* connection = nullptr;
    if (!free_.empty() && now - free_.front()->free_since_ns >= kQuarantineNs) {
        connection = free_.front();
        free_.pop_front();
    } else {
        connections_.push_back(std::make_unique<SvcConnection>(*this, shared_));
        connection = connections_.back().get();
    }
    connection->transport = &xprt;
    connection->used_ns = now;
    ++living_;
    return connection;
}

void SvcListener::on_begin(sunrpc::SvcXprt& xprt) noexcept {
    static_cast<void>(begin_connection(xprt));
    if (living_ <= options_.connections_max) return;
    SvcConnection* const idle = idle_longest(false);
    if (idle == nullptr) {
        ++counts_.refused;
        xprt.close();
        return;
    }
    ++counts_.reaped;
    idle->transport->close();
}

SvcConnection* SvcListener::find(const sunrpc::SvcXprt& xprt) noexcept {
    for (const auto& connection : connections_) {
        if (connection->transport == &xprt) return connection.get();
    }
    return nullptr;
}

// Each context of a connection is asked once.
SvcConnection* SvcListener::find(const sunrpc::SvcRqst& rqst) noexcept {
    struct Known {
        SvcConnection* connection = nullptr;
    } known;
    std::memcpy(&known, rqst.scratch.data(), sizeof known);
    if (known.connection != nullptr) return known.connection;
    known.connection = find(*rqst.xprt);
    std::memcpy(rqst.scratch.data(), &known, sizeof known);
    return known.connection;
}

void SvcListener::dispatch(sunrpc::SvcRqst& rqst) noexcept {
    SvcConnection* const connection = find(rqst);
    NR_ASSERT(connection != nullptr);  // on_begin came before
    if (destroyed_ || connection->lingering) return rqst.xprt->drop(rqst);
    connection->queue.push_back(rqst);
    attend(*connection);
}

void SvcListener::wake(sunrpc::SvcRqst& rqst) noexcept {
    find(rqst)->request.wake();
}

void SvcListener::on_end(sunrpc::SvcXprt& xprt) noexcept {
    SvcConnection* const connection = find(xprt);
    if (connection == nullptr) return;  // it ended before it began
    NR_ASSERT(connection->queue.empty());
    connection->transport = nullptr;
    --living_;
    connection->lingering = false;
    if (connection->is_waiting()) waiting_.erase(*connection);
    if (connection->registered) {
        attend(*connection);
    } else {
        recycle(*connection);
    }
}

// Has libtirpc look at it.
void SvcListener::attend(SvcConnection& connection) noexcept {
    if (connection.owned() || destroyed_) return;
    if (!connection.registered) {
        if (connection.is_waiting()) return;
        waiting_.push_back(connection);
        if (!shared_.looking) wake_poll();
        return;
    }
    if (connection.in_ready()) return;
    ready_.push_back(connection);
    if (!shared_.looking) kick(connection);
}

void SvcListener::kick(SvcConnection& connection) noexcept {
    if (std::exchange(connection.kicked, true)) return;
    ++counts_.kicks;
    connection.kick.kick();
}

void SvcListener::kick_ready() noexcept {
    for (SvcConnection& connection : ready_)
        kick(connection);
    if (!waiting_.empty() && !retry_.armed()) wake_poll();
}

// ---- Both halves.

SvcConnection* SvcListener::idle_longest(bool with_fd) noexcept {
    const std::uint64_t now = shared_.driver->loop().now_ns();
    SvcConnection* longest = nullptr;
    for (const auto& each : connections_) {
        if (each->transport == nullptr || each->owned() || !each->queue.empty() ||
            (with_fd && !each->registered) || each->lingering || each->transport->closing() ||
            each->transport->calls_in_progress() != 0 || now - each->used_ns < idle_limit_ns_)
            continue;
        if (longest == nullptr || each->used_ns < longest->used_ns) longest = each.get();
    }
    return longest;
}

// On a thread of svc_run.
void SvcListener::open_waiting() noexcept {
    while (!waiting_.empty()) {
        SvcConnection& connection = waiting_.front();
        const Opened opened = open(connection);
        if (opened == Opened::no_fd) {
            SvcConnection* const idle = idle_longest(true);
            if (idle == nullptr) {
                Loop& loop = shared_.driver->loop();
                loop.arm(retry_, loop.now_ns() + kRetryNs);
                return;
            }
            ++counts_.reaped;
            close_libtirpc_half(*idle);
            // With threads it is open still. Who is about to poll it finds another connection's.
            if (!connection.kick.open()) connection.kick = std::move(idle->kick);
            close_transport(*idle);
            continue;
        }
        waiting_.erase(connection);
        if (opened == Opened::refused) {
            refuse(connection, "its fd is beyond libtirpc's table");
        } else {
            attend(connection);
        }
    }
    shared_.driver->loop().disarm(retry_);
}

// With threads those of connections that are over stay open.
bool SvcListener::take_spare_pair(SvcConnection& connection) noexcept {
    for (const auto& each : connections_) {
        if (each->transport != nullptr || each->registered || !each->kick.open()) continue;
        connection.kick = std::move(each->kick);
        return true;
    }
    return false;
}

SvcListener::Opened SvcListener::open(SvcConnection& connection) noexcept {
    if (!connection.kick.open()) {
        auto pair = KickPair::create();
        if (pair) {
            connection.kick = *std::move(pair);
        } else if (!take_spare_pair(connection)) {
            return Opened::no_fd;
        }
    }
    // The table must not move.
    if (shared_.threads && count_polled(kFreeSlot) == 0) return Opened::no_fd;
    SVCXPRT& xprt = connection.face.xprt;
    connection.face.set(rdma_->local(), connection.transport->peer());
    xprt.xp_fd = connection.kick.fd();
    xprt.xp_verf.oa_base = connection.request.verifier_room();
    xprt.xp_ops = &connection_ops();
    xprt.xp_ops2 = &control_ops();
    xprt.xp_p1 = &connection;
    xprt_register(&xprt);
    connection.registered = true;
    // libtirpc says nothing when its table has no place for it.
    if (is_polled(xprt.xp_fd)) return Opened::yes;
    close_libtirpc_half(connection);
    connection.kick.close();  // nobody polls it
    return Opened::refused;
}

void SvcListener::refuse(SvcConnection& connection, const char* why) noexcept {
    ++counts_.refused;
    if (refusals_.pass(shared_.driver->loop().now_ns())) {
        log::error("refused a connection from {}: {} ({} more refused)",
                   connection.transport->peer().to_string(), why, refusals_.held_back());
    }
    close_transport(connection);
}

void SvcListener::close_libtirpc_half(SvcConnection& connection) noexcept {
    NR_ASSERT(connection.registered);
    xprt_unregister(&connection.face.xprt);
    connection.registered = false;
    end_security(connection);
    // A thread may be about to poll it.
    if (shared_.threads) {
        connection.kick.ack();
    } else {
        connection.kick.close();
    }
    connection.kicked = false;
    if (connection.in_ready()) ready_.erase(connection);
    while (!connection.queue.empty())
        connection.transport->drop(connection.queue.pop_front());
    if (connection.transport == nullptr) recycle(connection);
}

// libtirpc never does it by itself, and finds contexts by the address of the SVCXPRT.
void SvcListener::end_security(SvcConnection& connection) noexcept {
    SVCAUTH gss = std::exchange(connection.gss, {});
    if (gss.svc_ah_private == nullptr) return;
    const std::time_t unused = std::time(nullptr) - connection.gss_used;
    if (unused >= 0 && unused < kGssKeptSeconds) {
        SVCAUTH_DESTROY(&gss);
    } else {
        connection.tainted = true;
    }
}

// When its answers have arrived, or could have.
void SvcListener::close_transport(SvcConnection& connection) noexcept {
    if (connection.transport == nullptr || connection.lingering) return;
    while (!connection.queue.empty())
        connection.transport->drop(connection.queue.pop_front());
    Loop& loop = shared_.driver->loop();
    connection.lingering = true;
    connection.linger_until_ns = loop.now_ns() + kLingerNs;
    if (connection.transport->calls_in_progress() == 0) connection.transport->close();
    if (!linger_.armed()) loop.arm(linger_, loop.now_ns() + kLingerPollNs);
}

void SvcListener::look_at_lingering() noexcept {
    Loop& loop = shared_.driver->loop();
    bool more = false;
    for (const auto& each : connections_) {
        if (!each->lingering || each->transport->closing()) continue;
        if (each->transport->calls_in_progress() == 0 || loop.now_ns() >= each->linger_until_ns) {
            each->transport->close();
        } else {
            more = true;
        }
    }
    if (more) loop.arm(linger_, loop.now_ns() + kLingerPollNs);
}

void SvcListener::recycle(SvcConnection& connection) noexcept {
    NR_ASSERT(connection.transport == nullptr && !connection.registered);
    connection.destroyed = connection.more = connection.died = connection.revisit = false;
    connection.refused = 0;
    connection.free_since_ns = shared_.driver->loop().now_ns();
    if (!connection.tainted) free_.push_back(&connection);
}

}  // namespace nfsrdma::tirpc
