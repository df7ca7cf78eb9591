#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/loop.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"
#include "verbs/cm.hpp"
#include "verbs/wr.hpp"

// The narrow waist: what pools and transports know of an RDMA device. Two backends: verbs/softroce,
// verbs/rdmacore. Every object belongs to one Loop and is used on its thread only.
namespace nfsrdma::verbs {

struct DeviceCaps {
    std::uint32_t max_send_wr = 0, max_recv_wr = 0, max_send_sge = 0, max_recv_sge = 0;
    std::uint32_t max_read_sge = 0;  // of an RDMA READ; 0: as of a SEND
    std::uint32_t max_fast_reg_pages = 0;
    std::uint32_t max_read_depth = 0;      // RDMA READs in flight as initiator
    std::uint32_t max_read_responses = 0;  // as responder
    bool fast_reg = false;       // keys can be bound by a posted WR (window, UMR or REG_MR)
    bool page_list_reg = false;  // true: the bind takes scattered pages; false: one run of memory
    bool remote_invalidate = false;    // a peer's SEND_WITH_INV frees such a key
    bool read_sink_needs_key = false;  // iWARP: the sink of an RDMA READ must be remotely writable
    bool local_keys = false;  // an SGE may name memory by a bound key (FastMr::lkey); no window can
};

// Exact counters of one device or queue pair; plain integers of its loop.
struct QpCounters {
    std::uint64_t doorbells = 0;  // post_send calls
    std::uint64_t send_wrs = 0, recv_wrs = 0;
    std::uint64_t reg_mrs = 0, local_invs = 0, sends_with_inv = 0, remote_invs = 0;
    // Where the device tells: the peer had no Receive for us, and we had none for it.
    std::uint64_t rnr_naks_received = 0, rnr_naks_sent = 0;
    // Requests of the peer that the device refused, which ended the connection: an access without
    // the right, or one that makes no sense.
    std::uint64_t peer_faults = 0;
};

// A registered region. Dies before its protection domain. Deregisters in its destructor.
class Mr {
  public:
    virtual ~Mr() = default;
    virtual Lkey lkey() const noexcept = 0;
    // Remote key of a region that was registered with remote access (static registration only),
    // else Rkey{0}.
    virtual Rkey rkey() const noexcept = 0;
};

// One preallocated, rebindable remote key. The upper 24 bits of its key stay; each map() steps the
// low byte.
class FastMr {
  public:
    virtual ~FastMr() = default;
    // Describes the memory that the next reg_mr work request will expose: pages (page-aligned,
    // `page_size` bytes each), the first byte's offset in the first page, the length in bytes, the
    // start address that the peer will use. Posts nothing. Pages are copied into the preallocated
    // page list. Errc::too_big when they do not fit, Errc::invalid_argument for length 0 or pages
    // that are not aligned.
    virtual Result<void> map(std::span<std::byte* const> pages, std::uint32_t page_size,
                             std::uint32_t offset, std::uint32_t length, std::uint64_t iova,
                             Access access) noexcept = 0;
    // Takes back a map() whose reg_mr was not posted: it may not be posted any more, and the peer
    // reaches nothing by the key. No effect on a key that is bound, being invalidated, or not
    // mapped.
    virtual void unmap() noexcept = 0;
    virtual Rkey rkey() const noexcept = 0;  // as the last map() made it
    // The same memory for an SGE, where DeviceCaps::local_keys says so; often the same number.
    virtual Lkey lkey() const noexcept { return Lkey{static_cast<std::uint32_t>(rkey())}; }
    virtual std::uint64_t iova() const noexcept = 0;
};

// One queue of completions, polled by the loop once it has been added there (Loop::add) by its
// owner.
class CompletionQueue : public Pollable {
  public:
    // Runs Cqe::done of at most a batch of completions, in order; returns how many.
    std::uint32_t poll() noexcept override = 0;
    // Nothing comes from it any more, and no queue pair can be made with it: another is needed.
    virtual bool failed() const noexcept { return false; }
};

// One reliable connection's queues.
class QueuePair {
  public:
    virtual ~QueuePair() = default;
    // One doorbell. Debits the send queue ledger for every WR, signaled or not, before anything is
    // handed to the device; credits come back with the completion of a signaled WR for it and all
    // before it. Signals by itself often enough that unsignaled WRs can never fill the queue.
    // Errc::again: no room, nothing was posted. Errc::reconnect: the queue pair is in error or not
    // connected, nothing was posted. Errc::invalid_argument: too many SGEs, nothing posted.
    Result<void> post_send(const WrChain& chain) noexcept;
    // Receives may be posted before the connection is made. Errc::again: no room; those before the
    // failing one stay posted.
    Result<void> post_recv(RecvWr& first) noexcept;
    std::uint32_t send_room() const noexcept { return send_wrs_max_ - send_wrs_used_; }
    const QpCounters& counters() const noexcept { return counters_; }
    // To the error state: everything that is posted completes as flushed, in order, from
    // CompletionQueue::poll.
    virtual void set_error() noexcept = 0;
    virtual bool in_error() const noexcept = 0;
    // Work requests posted and not yet flushed or completed. Zero: the QP may be destroyed.
    virtual std::uint32_t outstanding() const noexcept = 0;

  protected:
    QueuePair(std::uint32_t send_wrs_max, std::uint32_t recv_wrs_max) noexcept;
    // Each posts all of the chain or nothing. A send that is `signaled` or `ledger_signal` is to
    // end in credit_send.
    virtual Result<void> do_post_send(SendWr& first) noexcept = 0;
    virtual Result<void> do_post_recv(RecvWr& first) noexcept = 0;
    // The backend calls this for each signaled completion: `retired` is how many send WRs it and
    // its unsignaled predecessors account for.
    void credit_send(std::uint32_t retired) noexcept;
    void credit_recv() noexcept;
    QpCounters counters_;

  private:
    std::uint32_t send_wrs_max_, send_wrs_used_ = 0;
    std::uint32_t recv_wrs_max_, recv_wrs_used_ = 0;
    std::uint32_t unsignaled_run_ = 0;
};

struct QpOptions {
    std::uint32_t send_wrs = 64, recv_wrs = 64, send_sges = 4, recv_sges = 1;
};

class ProtectionDomain {
  public:
    virtual ~ProtectionDomain() = default;
    virtual const DeviceCaps& caps() const noexcept = 0;
    // `access` with a remote right makes a static remote key: --registration static only.
    virtual Result<std::unique_ptr<Mr>> register_memory(std::span<std::byte> memory,
                                                        Access access) = 0;
    virtual Result<std::unique_ptr<FastMr>> alloc_fast_mr(std::uint32_t pages_max) = 0;
};

// An opened device of one loop. Outlives everything made from it.
class Device {
  public:
    virtual ~Device() = default;
    virtual Loop& loop() noexcept = 0;
    virtual const DeviceCaps& caps() const noexcept = 0;
    virtual const char* name() const noexcept = 0;
    virtual Result<std::unique_ptr<ProtectionDomain>> alloc_pd() = 0;
    // The owner adds it to the loop, and removes it before it dies.
    virtual Result<std::unique_ptr<CompletionQueue>> create_cq(std::uint32_t entries) = 0;
    // An active end, to be connected. `handler` outlives it.
    virtual Result<std::unique_ptr<CmId>> create_id(CmHandler& handler) = 0;
    // `handler` is told of each connect request; see cm.hpp. Port 0 takes a free one.
    virtual Result<std::unique_ptr<Listener>> listen(const SockAddr& local,
                                                     ListenHandler& handler) = 0;
};

}  // namespace nfsrdma::verbs
