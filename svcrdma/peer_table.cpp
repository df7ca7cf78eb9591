#include "svcrdma/peer_table.hpp"

#include <algorithm>
#include <bit>

#include "base/assert.hpp"
#include "base/bytes.hpp"

namespace nfsrdma::svcrdma {

const char* to_string(Admission admission) noexcept {
    switch (admission) {
        case Admission::admitted:
            return "admitted";
        case Admission::quarantined:
            return "it is in quarantine";
        case Admission::too_many:
            return "it has as many connections as a peer may have";
        case Admission::too_fast:
            return "connections are asked for too fast";
        case Admission::unknown:
            return "too many peers are connected";
    }
    return "?";
}

bool TokenBucket::take(std::uint32_t per_sec, std::uint64_t now_ns) noexcept {
    if (per_sec == 0) return true;
    const std::uint64_t cost = std::max<std::uint64_t>(kNsPerSec / per_sec, 1);
    const std::uint64_t full = cost * std::max<std::uint64_t>(per_sec, kBurstMin);
    // Loops look at the clock one after the other.
    const std::uint64_t passed = now_ns > last_ns_ ? now_ns - last_ns_ : 0;
    saved_ns_ = begun_ ? std::min(full, saved_ns_ + passed) : full;
    begun_ = true;
    last_ns_ = std::max(last_ns_, now_ns);
    if (saved_ns_ < cost) return false;
    saved_ns_ -= cost;
    return true;
}

PeerTable::PeerTable(const PeerLimits& limits)
    : limits_(limits),
      all_(std::make_unique<Peer[]>(limits.peers_max)),
      bucket_count_(std::bit_ceil(std::max(limits.peers_max, 1u))),
      buckets_(std::make_unique<Peer*[]>(bucket_count_)) {}

PeerTable::~PeerTable() {
    idle_.clear();
    bad_.clear();
    for (std::uint32_t i = 0; i < used_; ++i)
        NR_ASSERT(all_[i].connections_ == 0);
}

Peer*& PeerTable::bucket_of(const SockAddr& address) noexcept {
    std::uint64_t mixed = 0;
    for (const std::byte b : address.gid())
        mixed = (mixed ^ static_cast<std::uint64_t>(b)) * 0x9E37'79B9'7F4A'7C15u;
    return buckets_[(mixed >> 32) & (bucket_count_ - 1)];
}

Peer* PeerTable::find(const SockAddr& address) noexcept {
    for (Peer* peer = bucket_of(address); peer != nullptr; peer = peer->next_) {
        if (peer->address_.same_address(address)) return peer;
    }
    return nullptr;
}

void PeerTable::rest(Peer& peer) noexcept {
    (peer.quarantined_until_ns_ != 0 ? bad_ : idle_).push_back(peer);
}

void PeerTable::wake(Peer& peer) noexcept {
    (peer.quarantined_until_ns_ != 0 ? bad_ : idle_).erase(peer);
}

Peer* PeerTable::evict(std::uint64_t now_ns) noexcept {
    const bool served = !bad_.empty() && bad_.front().quarantined_until_ns_ <= now_ns;
    List<Peer, Peer>& from = served || idle_.empty() ? bad_ : idle_;
    if (from.empty()) return nullptr;
    Peer& peer = from.pop_front();
    Peer** at = &bucket_of(peer.address_);
    while (*at != &peer)
        at = &(*at)->next_;
    *at = peer.next_;
    ++counters_.evicted;
    return &peer;
}

Peer* PeerTable::find_or_make(const SockAddr& address, std::uint64_t now_ns) noexcept {
    if (Peer* const known = find(address)) {
        if (known->connections_ == 0) wake(*known);
        if (known->quarantined_until_ns_ <= now_ns) known->quarantined_until_ns_ = 0;
        return known;
    }
    Peer* const peer = used_ < limits_.peers_max ? &all_[used_++] : evict(now_ns);
    if (peer == nullptr) return nullptr;
    peer->address_ = address.with_port(0);
    peer->faults_ = 0;
    peer->window_ns_ = peer->quarantined_until_ns_ = 0;
    peer->connects_ = {};
    peer->wanted_by_.store(nullptr, std::memory_order_relaxed);
    Peer*& first = bucket_of(address);
    peer->next_ = first;
    first = peer;
    return peer;
}

Admission PeerTable::admit(const SockAddr& address, std::uint64_t now_ns, Peer*& out) noexcept {
    const std::lock_guard lock(mutex_);
    out = nullptr;
    Peer* const peer = find_or_make(address, now_ns);
    if (peer == nullptr) return Admission::unknown;
    const auto verdict = [&] {
        if (peer->quarantined_until_ns_ != 0) return Admission::quarantined;
        if (limits_.connections_max != 0 && peer->connections_ >= limits_.connections_max)
            return Admission::too_many;
        if (!peer->connects_.take(limits_.connects_per_sec, now_ns) ||
            !connects_.take(limits_.connects_per_sec_all, now_ns))
            return Admission::too_fast;
        return Admission::admitted;
    }();
    if (verdict != Admission::admitted) {
        if (peer->connections_ == 0) rest(*peer);
        return verdict;
    }
    ++peer->connections_;
    out = peer;
    return verdict;
}

void PeerTable::leave(Peer& peer) noexcept {
    const std::lock_guard lock(mutex_);
    NR_ASSERT(peer.connections_ > 0);
    if (--peer.connections_ > 0) return;
    NR_ASSERT(peer.requests_.load() == 0 && peer.memory_.load() == 0);
    NR_ASSERT(peer.handshakes_.load() == 0);
    rest(peer);
}

FaultVerdict PeerTable::fault(Peer& peer, std::uint64_t now_ns) noexcept {
    const std::lock_guard lock(mutex_);
    NR_ASSERT(peer.connections_ > 0);
    ++counters_.faults;
    if (limits_.faults_max == 0) return FaultVerdict::tolerated;
    if (peer.quarantined_until_ns_ > now_ns) return FaultVerdict::quarantined;
    // Loops look at the clock one after the other: the window may begin after `now_ns`.
    if (now_ns > peer.window_ns_ + limits_.faults_window_ns) {
        peer.window_ns_ = now_ns;
        peer.faults_ = 0;
    }
    if (++peer.faults_ < limits_.faults_max) return FaultVerdict::tolerated;
    peer.faults_ = 0;
    peer.quarantined_until_ns_ = now_ns + limits_.quarantine_ns;
    ++counters_.quarantines;
    return FaultVerdict::begins;
}

bool PeerTable::begin_request(Peer& peer) noexcept {
    const std::uint32_t before = peer.requests_.fetch_add(1, std::memory_order_relaxed);
    if (limits_.requests_max == 0 || before < limits_.requests_max) return true;
    end_request(peer);
    return false;
}

bool PeerTable::is_wanted_elsewhere(Peer& peer, const void* loop) noexcept {
    const void* const by = peer.wanted_by_.load(std::memory_order_relaxed);
    if (by == nullptr || by == loop) return false;
    peer.wanted_by_.store(nullptr, std::memory_order_relaxed);
    return true;
}

bool PeerTable::begin_handshake(Peer& peer) noexcept {
    const std::uint32_t before = peer.handshakes_.fetch_add(1, std::memory_order_relaxed);
    if (limits_.handshakes_max == 0 || before < limits_.handshakes_max) return true;
    end_handshake(peer);
    return false;
}

bool PeerTable::take_memory(Peer& peer, std::uint64_t bytes) noexcept {
    const std::uint64_t before = peer.memory_.fetch_add(bytes, std::memory_order_relaxed);
    if (limits_.memory_max == 0 || before + bytes <= limits_.memory_max) return true;
    give_back_memory(peer, bytes);
    return false;
}

PeerTableCounters PeerTable::counters(std::uint64_t now_ns) const noexcept {
    const std::lock_guard lock(mutex_);
    PeerTableCounters out = counters_;
    out.known = used_;
    for (std::uint32_t i = 0; i < used_; ++i)
        out.quarantined += all_[i].quarantined_until_ns_ > now_ns ? 1u : 0u;
    return out;
}

}  // namespace nfsrdma::svcrdma
