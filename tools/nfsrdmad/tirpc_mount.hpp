#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include <rpc/rpc.h>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "base/unique_fd.hpp"
#include "nfs/server/server.hpp"
#include "sunrpc/svc.hpp"
#include "tools/nfsrdmad/stats.hpp"

namespace nfsrdma::nfsrdmad {

// MOUNT v3 over TCP and UDP, for clients and tools that ask for it there: libtirpc's server side in
// front of the same program that RDMA connections reach, on a thread of its own. NFS itself is not
// served here, and every other program is unavailable.
//
// Operation. libtirpc reads a record and calls on_call(); that makes an RPC message of it again and
// gives it to a SvcDispatcher, running this thread's loop until it is answered.
//
// What a peer can do is bounded: records of kRecordMax bytes, kConnectionsMax connections of which
// the one that is idle for the longest time makes room, kIdleNs for one that says nothing.
//
// libtirpc keeps its transports in global variables: one object a process at a time (asserted).
class TirpcMount {
  public:
    static constexpr std::uint32_t kRecordMax = 8192;
    static constexpr std::uint32_t kConnectionsMax = 64;
    static constexpr std::uint64_t kIdleNs = 60 * kNsPerSec;

    // Binds both sockets to `local` (port 0: a free one, the same for both). Errc::system. `server`
    // outlives it.
    static Result<std::unique_ptr<TirpcMount>> create(nfs::Server& server, const SockAddr& local);
    ~TirpcMount();  // ends the thread
    TirpcMount(const TirpcMount&) = delete;
    TirpcMount& operator=(const TirpcMount&) = delete;
    void start();
    SockAddr local() const noexcept { return local_; }
    // As of the call that was answered last. Any thread.
    SocketStats stats() const;

  private:
    class Xprt;
    struct Seen {
        int fd = -1;
        std::uint64_t last_ns = 0;
        bool there = false;
    };
    TirpcMount(nfs::Server& server, std::unique_ptr<Loop> loop);
    Result<void> bind_sockets(const SockAddr& local);
    Result<void> make_transports();
    void run() noexcept;
    void note_activity(std::span<const pollfd> fds) noexcept;
    void make_room() noexcept;
    void close_connections() noexcept;
    bool is_listener(int fd) const noexcept { return fd == tcp_fd_ || fd == udp_fd_; }
    static void on_call(svc_req* request, SVCXPRT* transport) noexcept;
    void serve(svc_req& request, SVCXPRT& transport) noexcept;
    bool make_message(svc_req& request, SVCXPRT& transport, sunrpc::SvcRqst& rqst) noexcept;
    void answer(SVCXPRT& transport, std::span<std::byte> message) noexcept;
    void take_stats();

    struct alignas(64) CacheLine {
        std::byte bytes[64];
    };
    static TirpcMount* the_one;
    std::unique_ptr<Loop> loop_;
    sunrpc::SvcDispatcher dispatcher_;
    std::unique_ptr<Xprt> xprt_;
    SockAddr local_;
    int tcp_fd_ = -1, udp_fd_ = -1;  // libtirpc's, once the transports are made
    SVCXPRT* tcp_ = nullptr;
    SVCXPRT* udp_ = nullptr;
    UniqueFd wake_;
    std::uint32_t datagram_bytes_ = 0;  // of the one that libtirpc reads next
    std::atomic<bool> ending_{false};
    std::vector<Seen> seen_;
    std::vector<CacheLine> scratch_;
    std::vector<std::byte> call_room_, reply_room_;
    mutable std::mutex stats_mutex_;
    SocketStats stats_;
    std::thread thread_;
};

}  // namespace nfsrdma::nfsrdmad
