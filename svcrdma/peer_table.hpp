#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/clock.hpp"
#include "base/list.hpp"
#include "base/sock_addr.hpp"

namespace nfsrdma::svcrdma {

// What one peer, an address without its port, may have of a server. 0 is no limit, everywhere.
struct PeerLimits {
    std::uint32_t connections_max = 0;
    std::uint32_t handshakes_max = 0;  // connections of it that are being made
    std::uint64_t memory_max = 0;      // bytes that belong to its connections alone
    std::uint32_t requests_max = 0;    // calls in progress; others wait in their Receives
    std::uint32_t connects_per_sec = 0;
    std::uint32_t connects_per_sec_all = 0;  // of all peers together
    // So many faults within the window, and new connections are rejected for a while.
    std::uint32_t faults_max = 0;
    std::uint64_t faults_window_ns = 10 * kNsPerSec;
    std::uint64_t quarantine_ns = 60 * kNsPerSec;
    // That are remembered; more than there can be connections.
    std::uint32_t peers_max = 4096;
};

enum class Admission : std::uint8_t {
    admitted,
    quarantined,
    too_many,  // connections of this peer
    too_fast,  // connects of this peer, or of all
    unknown,   // every place of the table is taken by peers with connections
};
const char* to_string(Admission admission) noexcept;

enum class FaultVerdict : std::uint8_t {
    tolerated,
    begins,       // the peer is in quarantine from now on
    quarantined,  // it has been before
};

// Tokens that come at a rate, up to a second's worth or kBurstMin of them.
class TokenBucket {
  public:
    static constexpr std::uint64_t kBurstMin = 64;
    bool take(std::uint32_t per_sec, std::uint64_t now_ns) noexcept;

  private:
    std::uint64_t last_ns_ = 0, saved_ns_ = 0;  // time that was not spent on tokens
    bool begun_ = false;
};

class PeerTable;

// One address, while it has connections or is remembered.
class Peer : public ListHook<Peer> {
  public:
    const SockAddr& address() const noexcept { return address_; }  // port 0

  private:
    friend class PeerTable;
    SockAddr address_;
    Peer* next_ = nullptr;  // in its bucket
    std::uint32_t connections_ = 0;
    std::uint32_t faults_ = 0;  // since the window began
    std::uint64_t window_ns_ = 0, quarantined_until_ns_ = 0;
    TokenBucket connects_;
    std::atomic<std::uint32_t> requests_{0};
    std::atomic<std::uint64_t> memory_{0};
    std::atomic<std::uint32_t> handshakes_{0};
    std::atomic<const void*> wanted_by_{nullptr};  // a loop whose calls wait; never followed
};

struct PeerTableCounters {
    std::uint32_t known = 0, quarantined = 0;  // at present
    std::uint64_t faults = 0, quarantines = 0, evicted = 0;
};

// Who is connected, and how those behaved that were; shared by the listeners of all loops. Any
// thread. All memory is taken when it is made.
//
// Operation. admit() counts a connection, leave() takes it off. What happens per call (requests,
// memory) is atomic in the Peer; the rest takes a lock, when connections come and go and when a
// peer misbehaves.
//
// Ownership. A Peer that has connections stays. The others are remembered until their place is
// needed: the one that was used longest ago goes first, and one in quarantine last, so that a flood
// of new addresses does not free anybody.
//
// Who counts as misbehaving: what came by a connection that was established, so that its address
// is real. A connect request alone proves nothing and only meets the rates.
class PeerTable {
  public:
    explicit PeerTable(const PeerLimits& limits);
    ~PeerTable();
    PeerTable(const PeerTable&) = delete;
    PeerTable& operator=(const PeerTable&) = delete;

    // `out` is set when admitted, and lives until leave().
    Admission admit(const SockAddr& address, std::uint64_t now_ns, Peer*& out) noexcept;
    void leave(Peer& peer) noexcept;
    FaultVerdict fault(Peer& peer, std::uint64_t now_ns) noexcept;

    bool begin_request(Peer& peer) noexcept;  // false: it has as many as it may
    void end_request(Peer& peer) noexcept {
        peer.requests_.fetch_sub(1, std::memory_order_relaxed);
    }
    // A loop that hands the places of its own calls on would keep them for ever: it asks whether
    // calls of `peer` wait on another loop, which said so, and then ends a request instead.
    void want_request(Peer& peer, const void* loop) noexcept {
        peer.wanted_by_.store(loop, std::memory_order_relaxed);
    }
    bool is_wanted_elsewhere(Peer& peer, const void* loop) noexcept;  // once each time
    bool begin_handshake(Peer& peer) noexcept;  // false: it has as many as it may
    void end_handshake(Peer& peer) noexcept {
        peer.handshakes_.fetch_sub(1, std::memory_order_relaxed);
    }
    bool take_memory(Peer& peer, std::uint64_t bytes) noexcept;  // false: nothing was taken
    void give_back_memory(Peer& peer, std::uint64_t bytes) noexcept {
        peer.memory_.fetch_sub(bytes, std::memory_order_relaxed);
    }
    const PeerLimits& limits() const noexcept { return limits_; }
    PeerTableCounters counters(std::uint64_t now_ns) const noexcept;

  private:
    Peer*& bucket_of(const SockAddr& address) noexcept;
    Peer* find(const SockAddr& address) noexcept;
    Peer* find_or_make(const SockAddr& address, std::uint64_t now_ns) noexcept;
    Peer* evict(std::uint64_t now_ns) noexcept;
    void rest(Peer& peer) noexcept;  // onto the list of those without connections
    void wake(Peer& peer) noexcept;  // and off it

    const PeerLimits limits_;
    mutable std::mutex mutex_;
    std::unique_ptr<Peer[]> all_;
    std::uint32_t bucket_count_ = 0;
    std::unique_ptr<Peer*[]> buckets_;
    // Without connections, longest ago first; those in quarantine apart.
    List<Peer, Peer> idle_, bad_;
    std::uint32_t used_ = 0;  // of all_
    TokenBucket connects_;
    PeerTableCounters counters_;
};

}  // namespace nfsrdma::svcrdma
