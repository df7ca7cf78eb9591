#include "verbs/loop_turns.hpp"

#include <cstddef>

namespace nfsrdma::verbs {

std::uint32_t LoopTurns::place_of(const SockAddr& peer) noexcept {
    std::uint32_t hash = 0x811C9DC5;  // FNV-1a
    for (const std::byte byte : peer.gid())
        hash = (hash ^ std::to_integer<std::uint32_t>(byte)) * 0x01000193;
    return hash % kPeers;
}

std::uint32_t LoopTurns::first(const SockAddr& peer, std::uint32_t loops) const noexcept {
    const Entry& entry = peers_[place_of(peer)];
    return (entry.peer.same_address(peer) ? entry.next : turn_) % loops;
}

void LoopTurns::took(const SockAddr& peer, std::uint32_t loop) noexcept {
    Entry& entry = peers_[place_of(peer)];
    if (!entry.peer.same_address(peer)) turn_ = loop + 1;
    entry = {peer, loop + 1};
}

}  // namespace nfsrdma::verbs
