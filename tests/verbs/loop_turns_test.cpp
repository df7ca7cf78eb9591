#include "verbs/loop_turns.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::verbs {
namespace {

constexpr std::uint32_t kLoops = 4;

SockAddr peer(std::uint32_t number, std::uint16_t port = 0) {
    return SockAddr::v4(0x0A000000 + number, port);
}

std::uint32_t take(LoopTurns& turns, const SockAddr& from) {
    const std::uint32_t loop = turns.first(from, kLoops);
    EXPECT_LT(loop, kLoops);
    turns.took(from, loop);
    return loop;
}

TEST(LoopTurns, ConnectionsOfOnePeerGoRound) {
    LoopTurns turns;
    for (std::uint32_t i = 0; i < 3 * kLoops; ++i)
        EXPECT_EQ(take(turns, peer(1, static_cast<std::uint16_t>(1000 + i))), i % kLoops);
}

// By one turn for all of them each would have had every other loop to itself.
TEST(LoopTurns, APeersConnectionsAreSpreadWhoeverElseConnects) {
    LoopTurns turns;
    std::array<std::array<std::uint32_t, kLoops>, 3> taken{};
    for (std::uint32_t i = 0; i < 2 * kLoops; ++i) {
        ++taken[1][take(turns, peer(1))];
        ++taken[2][take(turns, peer(2))];
    }
    for (std::uint32_t loop = 0; loop < kLoops; ++loop) {
        EXPECT_EQ(taken[1][loop], 2u) << loop;
        EXPECT_EQ(taken[2][loop], 2u) << loop;
    }
}

TEST(LoopTurns, PeersWithOneConnectionEachAreSpread) {
    LoopTurns turns;
    std::array<std::uint32_t, kLoops> taken{};
    for (std::uint32_t i = 0; i < 10 * kLoops; ++i)
        ++taken[take(turns, peer(i))];
    for (const std::uint32_t count : taken)
        EXPECT_EQ(count, 10u);
}

TEST(LoopTurns, ALoopThatDoesNotListenIsPassedOver) {
    LoopTurns turns;
    turns.took(peer(1), (turns.first(peer(1), kLoops) + 1) % kLoops);  // 0 did not
    EXPECT_EQ(turns.first(peer(1), kLoops), 2u);
}

}  // namespace
}  // namespace nfsrdma::verbs
