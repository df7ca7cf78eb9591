#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "pools/lease.hpp"
#include "pools/page_list.hpp"
#include "pools/regions.hpp"
#include "verbs/device.hpp"

// The posting interface of one connection. It hides lkeys, access flags and the registration
// strategy (scatter/gather, key per call, static registration), and says beforehand how many
// send-queue slots an operation takes. It knows nothing of RPC.
//
// Operation. A user exposes memory to its peer (expose_read, expose_write), or moves bytes itself
// (pull by RDMA READ, push by RDMA WRITE). Each returns a leased object that owns the work
// requests; the user puts them into a Posting in the order it wants and posts that: one doorbell.
//
// Ownership. (1) Memory is lent from the call until the Exposure is dead or the Transfer's last
// work request completed. (2) An Exposure is released only when every key of it is dead: put()
// asserts it. (3) A Posting belongs to Io from post() until its `posted` ran. (4) Memory is arena
// memory, or the user's own that was registered with this Io; the latter stays the user's, mapped
// and in its place, until deregister_memory() succeeded.
//
// Errors. Errc::again: a pool is dry; nothing happened, ask again after something came home
// (on_room tells). Errc::reconnect: the queue pair is in error. Errc::too_big: beyond what the
// pools were made for.
namespace nfsrdma::pools {

class Io;
class ExposurePool;
class TransferPool;
class MrPool;
struct Mr;

// Memory as a list of runs; every boundary between two runs is page-aligned. One run is the common
// case.
using Runs = std::span<const std::span<std::byte>>;

// What a peer must know to reach exposed memory: RFC 8166 s3.4's segment. Exact length.
struct RemoteRun {
    std::uint32_t handle = 0;
    std::uint32_t length = 0;
    std::uint64_t offset = 0;
};

// Something to post by one doorbell. FIFO: no posting overtakes one that waits for send-queue room
// or read depth.
struct Posting : ListHook<Posting> {
    verbs::WrChain chain;
    std::uint32_t reads =
        0;  // RDMA READs in the chain; those of a Transfer, which gives them back when it is done
    // Runs once when it was posted, or could not be; from inside post() when there was room.
    void (*posted)(Posting&, Result<void>) noexcept = nullptr;
};

// Memory exposed to the peer until it is fenced: the keys of one call and direction. One key of any
// length wherever the device takes page lists or the memory is one run.
class Exposure : public ListHook<Exposure> {
  public:
    static constexpr std::uint32_t kRunsMax = 16;
    // What to tell the peer, in order; `length` sums to what was exposed.
    std::span<const RemoteRun> runs() const noexcept { return {runs_.data(), run_count_}; }
    bool dead() const noexcept { return live_keys_ == 0; }
    void* user = nullptr;  // the caller's, found again by Io::on_remote_invalidate
    ExposurePool& pool() const noexcept { return *home_; }

  private:
    friend class Io;
    friend class ExposurePool;
    struct InvPosting : Posting {
        Exposure* exposure = nullptr;
    };
    std::array<RemoteRun, kRunsMax> runs_;
    std::array<Mr*, kRunsMax> mrs_{};
    std::uint32_t run_count_ = 0, key_count_ = 0, live_keys_ = 0;
    bool leased_ = false;
    bool stale_ = false;  // a key of it was flushed
    Io* io_ = nullptr;
    void (*fenced_)(Exposure&, bool ok) noexcept = nullptr;
    InvPosting inv_;
    Mr* inv_last_ = nullptr;  // whose LOCAL_INV is signaled
    RegionUse use_;
    ExposurePool* home_ = nullptr;
};

class ExposurePool {
  public:
    void put(Exposure& exposure) noexcept;  // asserts that every key of it is dead

  private:
    friend class Io;
    List<Exposure, Exposure> free_;
    std::unique_ptr<Exposure[]> all_;
    std::uint32_t count_ = 0;
};

// The chain of RDMA READs or WRITEs that moves one list of runs, and the key it borrowed, if any.
class Transfer : public ListHook<Transfer> {
  public:
    // Of a pull: runs once, on the loop, when every READ completed and the key, if one was
    // borrowed, is dead.
    using Done = void (*)(Transfer&, bool ok) noexcept;
    Done done = nullptr;
    void* user = nullptr;
    std::uint32_t slots() const noexcept { return chain_.size(); }
    const verbs::WrChain& chain() const noexcept { return chain_; }
    TransferPool& pool() const noexcept { return *home_; }

  private:
    friend class Io;
    friend class TransferPool;
    verbs::WrChain chain_;
    struct Storage;
    Storage* storage_ = nullptr;
    Io* io_ = nullptr;
    TransferPool* home_ = nullptr;
};

class TransferPool {
  public:
    void put(Transfer& transfer) noexcept;  // asserts that it is not posted, or done

  private:
    friend class Io;
    List<Transfer, Transfer> free_;
    std::uint32_t count_ = 0;
};

struct IoCounters {
    std::uint64_t binds = 0, local_invalidations = 0, remote_invalidations = 0,
                  bad_remote_invalidations = 0;
    std::uint64_t exposures = 0, pulls = 0, pushes = 0, keyed_pulls = 0, keyed_pushes = 0;
    std::uint64_t doorbells = 0, waited_for_send_room = 0, waited_for_read_depth = 0,
                  waited_for_keys = 0;
    std::uint64_t bytes_pulled = 0, bytes_pushed = 0, bytes_exposed = 0;
    std::uint64_t keys_renewed = 0;  // after the end of a connection
};

// How pull and push reach local memory: by scatter/gather, by a key, or whichever fits. Tests force
// each.
enum class LocalStrategy : std::uint8_t { automatic, scatter_gather, key };

struct IoOptions {
    Registration registration = Registration::automatic;
    LocalStrategy local = LocalStrategy::automatic;
    std::uint32_t keys = 0;  // MRs of this connection's pool; as many exposures at a time
    std::uint32_t pages_per_key = 0;
    std::uint32_t transfers = 0;           // concurrent pulls and pushes
    std::uint32_t runs_per_transfer = 16;  // work requests of one transfer, at most
    std::uint32_t read_depth = 1;          // RDMA READs in flight: as negotiated by CM
    std::uint32_t send_sges = 4;           // QpOptions::send_sges of the queue pair
};

class Io {
  public:
    // Everything that a connection needs, made once. `qp` may be set later (set_qp) but before the
    // first post.
    static Result<std::unique_ptr<Io>> create(verbs::ProtectionDomain& pd, Arena& arena,
                                              const IoOptions& options);
    ~Io();  // asserts that every exposure, transfer and key is home
    Io(const Io&) = delete;
    Io& operator=(const Io&) = delete;

    void set_qp(verbs::QueuePair* qp) noexcept;
    void set_read_depth(std::uint32_t depth) noexcept;

    // Memory of the user's own, of any size and alignment: from now on it may be exposed, pulled
    // into, pushed from and sent like arena memory. Registering is slow (it pins the pages) and
    // allocates: for memory that is used often. Errc::invalid_argument: empty, or registered
    // already in part; Errc::too_big: Regions::kRegionsMax; Errc::system: what the device said.
    // One exposure or transfer names at most RegionUse::kDistinctMax different runs, however many
    // pieces of each. With Registration::fixed the peer can reach all of it for as long as it is
    // registered.
    Result<void> register_memory(std::span<std::byte> memory);
    // Takes it back: exactly what was registered. On success the device and the peer reach it no
    // more, and it is the user's to free. Errc::again: an exposure or a transfer that is not home
    // yet names it, nothing changed (on_room tells when one came home). What a SEND names by sge()
    // the user knows itself. Errc::invalid_argument: it was not registered.
    Result<void> deregister_memory(std::span<std::byte> memory) noexcept;
    bool is_registered(std::span<const std::byte> memory) const noexcept;  // or arena memory

    // Send-queue slots that the operation will take, before it is asked for.
    std::uint32_t expose_slots(
        Runs memory) const noexcept;  // binding; a later fence() may take as many again
    std::uint32_t pull_slots(std::uint32_t remote_runs, Runs memory) const noexcept;
    std::uint32_t push_slots(std::uint32_t remote_runs, Runs memory) const noexcept;

    // The peer may read (write) exactly `memory`. The binding work requests are put in front of
    // `then`, whose first own request gets the fence flag; nothing is posted. expose_write with
    // several runs: each boundary page-aligned. Errc::invalid_argument: memory that is neither
    // the arena's nor registered; Errc::too_big: pieces of more than RegionUse::kDistinctMax
    // registered runs.
    Result<Lease<Exposure>> expose_read(Runs memory, verbs::WrChain& then) noexcept;
    Result<Lease<Exposure>> expose_write(Runs memory, verbs::WrChain& then) noexcept;
    // Not posted after all: the keys go home unbound.
    void unexpose(Lease<Exposure> exposure) noexcept;

    // A Receive said that the peer invalidated `key`. The exposure it belonged to, its key now
    // dead; nullptr when the key is unknown or was not bound (counted): the peer broke the
    // protocol, close the connection.
    Exposure* on_remote_invalidate(verbs::Rkey key) noexcept;
    // Makes every key of `exposure` dead: LOCAL_INV for those that the peer left, in one posting.
    // `then` runs once, from inside when none is left; ok is false when the connection died first
    // (the keys are stale then, and unreachable). Only after the peer's reply has come:
    // facts/fastreg trap 3.
    void fence(Exposure& exposure, void (*then)(Exposure&, bool ok) noexcept) noexcept;

    // RDMA READ `from` into `memory` / RDMA WRITE `memory` to `to`; lengths must be equal in sum
    // (shorter memory is a bug). Errc::too_big as for expose_read. A pull is posted by post_pull. A
    // push is a chain that the caller splices in front of its SEND (append_to), released after that
    // SEND's completion.
    Result<Lease<Transfer>> pull(std::span<const RemoteRun> from, Runs memory) noexcept;
    void post_pull(Transfer& transfer) noexcept;  // Transfer::done tells; waits FIFO for read depth
                                                  // and send room
    Result<Lease<Transfer>> push(std::span<const RemoteRun> to, Runs memory) noexcept;
    static void append_to(verbs::WrChain& chain, Transfer& transfer) noexcept;

    void post(Posting& posting) noexcept;
    // Send-queue room may have come back: called by the connection after each of its own signaled
    // completions. Posts what waited, in order.
    void on_send_room() noexcept;

    // The SGE for arena memory, or for registered memory of the user: what a SEND or a Receive
    // names.
    verbs::Sge sge(std::span<const std::byte> memory) const noexcept;

    // The connection ended and all its flushed completions were polled: bound keys are stale,
    // waiting postings fail with Errc::reconnect. After renew() the Io serves the next connection;
    // Errc::again while exposures or transfers of the last one are still held.
    void on_disconnect() noexcept;
    Result<void> renew() noexcept;

    // `wake` runs on the loop when something came home after an Errc::again.
    void on_room(void (*wake)(void*) noexcept, void* arg) noexcept;

    // `count` more than IoOptions::transfers said: for connections that begin small. Allocates.
    void add_transfers(std::uint32_t count);
    std::uint32_t transfers() const noexcept;  // that there are

    bool full() const noexcept;
    bool remote_invalidate() const noexcept;  // whether to offer it to the peer (RFC 8797 R flag)
    const IoCounters& counters() const noexcept;

  private:
    friend class ExposurePool;
    friend class TransferPool;
    Io() = default;
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace nfsrdma::pools
