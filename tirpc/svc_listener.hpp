#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "base/log.hpp"
#include "svcrdma/listener.hpp"
#include "tirpc/options.hpp"
#include "tirpc/svc_connection.hpp"

namespace nfsrdma::tirpc {

// The member named so hides the type.
using XprtOps = struct SVCXPRT::xp_ops;
using XprtOps2 = struct SVCXPRT::xp_ops2;
const XprtOps& listener_ops() noexcept;
const XprtOps& connection_ops() noexcept;
const XprtOps2& control_ops() noexcept;

// A listener of svc_rdma_create and all its connections.
//
// Operation. Who drives the loop (driver.hpp) queues each request at its connection and kicks what
// libtirpc polls for it. A thread of svc_run takes it from there; and once it has served one, it
// polls for the next of any connection by itself, for a while, before it goes back to poll(2): so a
// busy server makes no system call but its device's. Connections of which many have requests take
// turns. After some requests libtirpc polls in any case, for what else it serves.
//
// Registration. libtirpc's tables are touched by threads of svc_run only: the listener's own
// xp_recv registers the connections that have sent their first call. One that never calls costs no
// fd.
//
// The end. A connection that is destroyed while it is owned is destroyed by its owner, in xp_stat;
// a listener that is destroyed while a connection is owned, by the last of them.
//
// Errors. Without a free fd the connection that was idle longest gives up its own; while none is
// idle, new ones wait. So they do, with threads, without a free slot in what svc_run polls. One
// whose fd is beyond libtirpc's table is refused, and a line is logged.
class SvcListener final : public sunrpc::Service {
  public:
    // Errors: those of devices::open and svcrdma::Listener::create; Errc::system.
    static Result<std::unique_ptr<SvcListener>> create(const SockAddr& address,
                                                       const Options& options);
    ~SvcListener() override;
    SvcListener(const SvcListener&) = delete;
    SvcListener& operator=(const SvcListener&) = delete;

    // Registers it with libtirpc, which owns it from then on.
    static Result<SVCXPRT*> hand_over(std::unique_ptr<SvcListener> self) noexcept;
    // nullptr: `xprt` is not of svc_rdma_create.
    static SvcListener* of(const SVCXPRT& xprt) noexcept;
    static SvcConnection* connection_of(const SVCXPRT& xprt) noexcept;
    void wake_poll() noexcept { kick_.kick(); }
    void get_stats(rpcrdma_stats& out) noexcept;
    std::uint32_t max_message() const noexcept { return options_.max_message; }
    // Kicks, and requests that the thread of svc_run found without one; for tests.
    struct Counts {
        std::uint64_t kicks = 0, polled = 0, nested = 0, reaped = 0, refused = 0;
    };
    Counts counts() noexcept;
    Driver& driver() noexcept { return *shared_.driver; }
    // How long a connection was idle that may be ended for want of fds, or of room; for tests.
    void set_idle_limit(std::uint64_t ns) noexcept;

    // libtirpc's operations.
    void accept() noexcept;  // the listener's xp_recv
    bool receive(SvcConnection& connection, rpc_msg& msg) noexcept;
    xprt_stat status(SvcConnection& connection) noexcept;
    void destroy(SvcConnection& connection) noexcept;
    static void destroy(std::unique_ptr<SvcListener> self) noexcept;

    // sunrpc::Service.
    std::uint32_t scratch_bytes() const noexcept override;
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override;
    void wake(sunrpc::SvcRqst& rqst) noexcept override;
    void on_begin(sunrpc::SvcXprt& xprt) noexcept override;
    void on_end(sunrpc::SvcXprt& xprt) noexcept override;

  private:
    using Hold = std::optional<Driver::Hold>;
    struct LoopTimer final : Timer {
        using Timer::Timer;
        SvcListener* listener = nullptr;
    };
    enum class Opened : std::uint8_t { yes, no_fd, refused };
    enum class Polled : std::uint8_t { came, quiet, busy };

    explicit SvcListener(const Options& options) noexcept;
    Result<void> start(const SockAddr& address);
    void make_slots() noexcept;

    // Under the Hold.
    SvcConnection* begin_connection(sunrpc::SvcXprt& xprt) noexcept;
    SvcConnection* find(const sunrpc::SvcRqst& rqst) noexcept;
    SvcConnection* find(const sunrpc::SvcXprt& xprt) noexcept;
    SvcConnection* idle_longest(bool with_fd) noexcept;
    void attend(SvcConnection& connection) noexcept;
    void kick(SvcConnection& connection) noexcept;
    void kick_ready() noexcept;
    void open_waiting() noexcept;
    Opened open(SvcConnection& connection) noexcept;
    void refuse(SvcConnection& connection, const char* why) noexcept;
    bool take(SvcConnection& connection) noexcept;
    xprt_stat serve_others(Hold& hold, SvcConnection& own) noexcept;
    xprt_stat let_go(SvcConnection& connection) noexcept;
    Polled poll_for_requests(Hold& hold, SvcConnection& own) noexcept;
    void serve(Hold& hold, SvcConnection& connection) noexcept;
    void close_libtirpc_half(SvcConnection& connection) noexcept;
    void close_transport(SvcConnection& connection) noexcept;
    void recycle(SvcConnection& connection) noexcept;
    void end_security(SvcConnection& connection) noexcept;
    bool take_spare_pair(SvcConnection& connection) noexcept;
    void look_at_lingering() noexcept;
    bool has_attention() noexcept {
        return !ready_.empty() || (!waiting_.empty() && !retry_.armed()) ||
               polling_->wants_attention();
    }

    const Options options_;
    SvcShared shared_;
    std::unique_ptr<verbs::Device> device_;
    std::unique_ptr<svcrdma::Listener> rdma_;
    SvcFace face_;
    KickPair kick_;
    std::vector<std::unique_ptr<SvcConnection>> connections_;  // of all times
    std::deque<SvcConnection*> free_;                          // longest first
    List<SvcConnection, InReady> ready_;                       // whose turn it is first
    List<SvcConnection, InWaiting> waiting_;                   // called, and have no SVCXPRT yet
    LoopTimer retry_;                                          // those that found no fd
    LoopTimer linger_;
    std::uint32_t living_ = 0;  // connections of the transport
    std::uint32_t owned_ = 0;
    std::uint32_t burst_ = 0;           // requests since libtirpc polled
    SvcConnection* polling_ = nullptr;  // its owner polls
    std::uint64_t spin_ns_ = 0;         // at present
    std::uint32_t spins_in_vain_ = 0;
    std::uint64_t left_ns_ = 0;  // when polling ended in vain
    std::uint64_t idle_limit_ns_;
    bool registered_ = false;
    bool destroyed_ = false;
    Counts counts_;
    log::RateLimit refusals_{kNsPerSec};
};

}  // namespace nfsrdma::tirpc
