#pragma once
#include <array>
#include <cstdint>
#include <ctime>
#include <sys/socket.h>
#include <thread>

#include <rpc/rpc.h>
#include <rpc/svc_auth.h>
#include <rpc/svc_mt.h>

#include "base/list.hpp"
#include "base/sock_addr.hpp"
#include "sunrpc/xprt.hpp"
#include "tirpc/svc_kick.hpp"
#include "tirpc/svc_request.hpp"

namespace nfsrdma::tirpc {

class SvcListener;

// The parts of a SVCXPRT that libtirpc and programs read, over memory of its own.
struct SvcFace {
    SVCXPRT xprt{};
    SVCXPRT_EXT ext{};
    sockaddr_storage local{}, remote{};
    std::array<char, 8> netid{};
    std::array<char, 2> tp{"-"};
    void set(const SockAddr& local_address, const SockAddr& remote_address) noexcept;
};

struct InReady;
struct InWaiting;

// One connection, in two halves: that of the transport, from its beginning to its end, and that of
// libtirpc, a SVCXPRT, from its first call to its destruction. Whichever ends first waits for the
// other; then the object is kept for another connection, for a while unused: a thread of svc_run
// may have looked it up right before, and finds it closed. But never for another one if a context
// of RPCSEC_GSS may belong to its address still.
//
// Threads. Everything is touched under the Hold, but for `request` and what libtirpc uses of
// `face`, which are the owner's: the thread that took a request by xp_recv, until its xp_stat.
struct SvcConnection : ListHook<InReady>, ListHook<InWaiting> {
    SvcConnection(SvcListener& l, SvcShared& shared) noexcept : listener(l), request(shared) {}
    SvcConnection(const SvcConnection&) = delete;
    SvcConnection& operator=(const SvcConnection&) = delete;
    ~SvcConnection() = default;

    bool in_ready() const noexcept { return ListHook<InReady>::linked(); }
    bool is_waiting() const noexcept { return ListHook<InWaiting>::linked(); }
    bool owned() const noexcept { return owner != std::thread::id{}; }
    bool mine() const noexcept { return owner == std::this_thread::get_id(); }
    // libtirpc is to look at it.
    bool wants_attention() noexcept {
        return !queue.empty() || (registered && transport == nullptr);
    }

    SvcListener& listener;
    SvcFace face;
    SvcRequest request;
    sunrpc::SvcXprt* transport = nullptr;          // nullptr: over
    List<sunrpc::SvcRqst, sunrpc::SvcRqst> queue;  // received, not yet taken
    sunrpc::SvcRqst* current = nullptr;            // taken, for wake()
    KickPair kick;
    bool kicked = false;
    bool registered = false;
    bool destroyed = false;  // by the program, while it is owned
    bool lingering = false;  // to be closed when its answers have arrived
    bool more = false;       // libtirpc was told MOREREQS
    bool revisit = false;    // kicked, so that libtirpc comes back
    bool died = false;       // libtirpc was told DIED, and destroys it next
    // The RPCSEC_GSS context that libtirpc keeps for the address of face.xprt, and when it was last
    // used; svc_ah_private is null without one.
    SVCAUTH gss{};
    std::time_t gss_used = 0;
    bool gss_call = false;  // of the request that its owner has
    bool tainted = false;   // libtirpc may keep a context for its address for ever
    std::thread::id owner;
    std::uint32_t refused = 0;  // xp_recv of its owner's own, from inside a dispatch
    std::uint64_t used_ns = 0;  // last
    std::uint64_t linger_until_ns = 0;
    std::uint64_t free_since_ns = 0;
};

}  // namespace nfsrdma::tirpc
