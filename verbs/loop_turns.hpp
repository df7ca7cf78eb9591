#pragma once
#include <array>
#include <cstdint>

#include "base/sock_addr.hpp"

namespace nfsrdma::verbs {

// Which loop of several takes the next connection: one after the other, for each peer by itself, so
// that the connections of one peer are spread over all loops whoever else connects meanwhile. Peers
// with one connection each take turns as well. Not for several threads at a time.
class LoopTurns {
  public:
    // The loop to be asked first; the ones behind it follow, round `loops`.
    std::uint32_t first(const SockAddr& peer, std::uint32_t loops) const noexcept;
    // That is where it went.
    void took(const SockAddr& peer, std::uint32_t loop) noexcept;

  private:
    static constexpr std::uint32_t kPeers = 256;  // remembered, by a hash: the latest wins
    struct Entry {
        SockAddr peer;
        std::uint32_t next = 0;
    };
    static std::uint32_t place_of(const SockAddr& peer) noexcept;
    std::array<Entry, kPeers> peers_{};
    std::uint32_t turn_ = 0;  // of a peer that is not remembered
};

}  // namespace nfsrdma::verbs
