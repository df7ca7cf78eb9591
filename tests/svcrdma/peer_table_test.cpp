#include "svcrdma/peer_table.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace nfsrdma::svcrdma {
namespace {

SockAddr host(std::uint32_t number, std::uint16_t port = 1000) {
    return SockAddr::v4(0x0A00'0000 + number, port);
}

Peer* let_in(PeerTable& table, const SockAddr& from, std::uint64_t now = 0) {
    Peer* peer = nullptr;
    EXPECT_EQ(table.admit(from, now, peer), Admission::admitted);
    return peer;
}

Admission ask(PeerTable& table, const SockAddr& from, std::uint64_t now = 0) {
    Peer* peer = nullptr;
    const Admission admission = table.admit(from, now, peer);
    if (peer != nullptr) table.leave(*peer);
    return admission;
}

TEST(PeerTable, PortsAreOfOnePeerAndAddressesAreNot) {
    PeerTable table({.connections_max = 2});
    Peer* const a = let_in(table, host(1, 1));
    Peer* const b = let_in(table, host(1, 2));
    EXPECT_EQ(a, b);
    EXPECT_EQ(a->address().port(), 0);
    EXPECT_EQ(ask(table, host(1, 3)), Admission::too_many);
    EXPECT_EQ(ask(table, host(2, 3)), Admission::admitted);
    table.leave(*a);
    EXPECT_EQ(ask(table, host(1, 3)), Admission::admitted);
    table.leave(*b);
}

TEST(PeerTable, WithoutLimitsEverybodyMayDoEverything) {
    PeerTable table({});
    std::vector<Peer*> peers;
    for (int i = 0; i < 1000; ++i)
        peers.push_back(let_in(table, host(1)));
    Peer& peer = *peers[0];
    EXPECT_TRUE(table.take_memory(peer, 1u << 30));
    table.give_back_memory(peer, 1u << 30);
    for (int i = 0; i < 1000; ++i)
        EXPECT_EQ(table.fault(peer, 0), FaultVerdict::tolerated);
    for (Peer* const one : peers)
        table.leave(*one);
}

TEST(PeerTable, RequestsAndMemoryAreCountedExactly) {
    PeerTable table({.memory_max = 100, .requests_max = 2});
    Peer& peer = *let_in(table, host(1));
    EXPECT_TRUE(table.begin_request(peer));
    EXPECT_TRUE(table.begin_request(peer));
    EXPECT_FALSE(table.begin_request(peer));
    table.end_request(peer);
    EXPECT_TRUE(table.begin_request(peer));
    table.end_request(peer);
    table.end_request(peer);
    EXPECT_TRUE(table.take_memory(peer, 60));
    EXPECT_FALSE(table.take_memory(peer, 41));
    EXPECT_TRUE(table.take_memory(peer, 40));
    table.give_back_memory(peer, 100);
    table.leave(peer);
}

TEST(PeerTable, FaultsWithinTheWindowBeginAQuarantineThatExpires) {
    PeerTable table(
        {.faults_max = 3, .faults_window_ns = 10 * kNsPerSec, .quarantine_ns = 60 * kNsPerSec});
    std::uint64_t now = 1000 * kNsPerSec;
    Peer& peer = *let_in(table, host(1), now);
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::tolerated);
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::tolerated);
    now += 11 * kNsPerSec;  // too long ago to count
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::tolerated);
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::tolerated);
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::begins);
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::quarantined);
    EXPECT_EQ(ask(table, host(1), now), Admission::quarantined);
    EXPECT_EQ(ask(table, host(2), now), Admission::admitted);
    EXPECT_EQ(table.counters(now).quarantined, 1u);
    table.leave(peer);
    EXPECT_EQ(ask(table, host(1), now + 59 * kNsPerSec), Admission::quarantined);
    EXPECT_EQ(ask(table, host(1), now + 61 * kNsPerSec), Admission::admitted);
    EXPECT_EQ(table.counters(now + 61 * kNsPerSec).quarantined, 0u);
    EXPECT_EQ(table.counters(now).quarantines, 1u);
}

TEST(PeerTable, FaultOfALoopWhoseClockIsBehindCountsInTheSameWindow) {
    PeerTable table({.faults_max = 3});
    const std::uint64_t now = 1000 * kNsPerSec;
    Peer& peer = *let_in(table, host(1), now);
    EXPECT_EQ(table.fault(peer, now), FaultVerdict::tolerated);
    EXPECT_EQ(table.fault(peer, now - 1), FaultVerdict::tolerated);
    EXPECT_EQ(table.fault(peer, now - 2), FaultVerdict::begins);
    table.leave(peer);
}

TEST(PeerTable, FloodOfAddressesFreesNobodyFromQuarantine) {
    PeerTable table({.faults_max = 1, .peers_max = 8});
    Peer* const bad = let_in(table, host(1), 1);
    EXPECT_EQ(table.fault(*bad, 1), FaultVerdict::begins);
    table.leave(*bad);
    for (std::uint32_t i = 0; i < 1000; ++i)
        EXPECT_EQ(ask(table, host(100 + i), 2), Admission::admitted);
    EXPECT_EQ(ask(table, host(1), 3), Admission::quarantined);
    EXPECT_EQ(table.counters(3).known, 8u);
    EXPECT_GE(table.counters(3).evicted, 990u);
}

TEST(PeerTable, PeersWithConnectionsAreNeverForgotten) {
    PeerTable table({.connections_max = 1, .peers_max = 4});
    std::vector<Peer*> peers;
    for (std::uint32_t i = 0; i < 4; ++i)
        peers.push_back(let_in(table, host(i)));
    EXPECT_EQ(ask(table, host(9)), Admission::unknown);
    for (std::uint32_t i = 0; i < 4; ++i)
        EXPECT_EQ(ask(table, host(i)), Admission::too_many);
    table.leave(*peers.back());
    peers.pop_back();
    EXPECT_EQ(ask(table, host(9)), Admission::admitted);
    for (Peer* const peer : peers)
        table.leave(*peer);
}

TEST(PeerTable, ConnectsHaveARateEachAndTogether) {
    PeerTable table({.connects_per_sec = 100, .connects_per_sec_all = 150});
    std::uint64_t now = 5 * kNsPerSec;
    int first = 0, second = 0;
    for (int i = 0; i < 300; ++i) {
        first += ask(table, host(1), now) == Admission::admitted ? 1 : 0;
        second += ask(table, host(2), now) == Admission::admitted ? 1 : 0;
    }
    EXPECT_LE(first, 100);
    EXPECT_LE(second, 100);
    EXPECT_EQ(first + second, 150);
    now += kNsPerSec / 10;
    first = 0;
    for (int i = 0; i < 300; ++i)
        first += ask(table, host(1), now) == Admission::admitted ? 1 : 0;
    EXPECT_GE(first, 9);
    EXPECT_LE(first, 16);
}

TEST(PeerTable, LoopsShareIt) {
    // No fault is ever outside of the window: each third one of a peer begins a quarantine, or is
    // of a peer that is in one.
    PeerTable table({.connections_max = 50,
                     .requests_max = 7,
                     .faults_max = 3,
                     .quarantine_ns = 10,
                     .peers_max = 4096});
    std::atomic<std::uint64_t> begun{0}, in_quarantine{0}, all{0};
    std::vector<std::thread> threads;
    for (std::uint32_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (std::uint32_t i = 0; i < 2000; ++i) {
                Peer* peer = nullptr;
                if (table.admit(host(i % 17), i, peer) != Admission::admitted) continue;
                if (table.begin_request(*peer)) table.end_request(*peer);
                const FaultVerdict verdict = table.fault(*peer, i + t);
                ++all;
                begun += verdict == FaultVerdict::begins ? 1u : 0u;
                in_quarantine += verdict == FaultVerdict::quarantined ? 1u : 0u;
                table.leave(*peer);
            }
        });
    }
    for (std::thread& thread : threads)
        thread.join();
    const PeerTableCounters counters = table.counters(0);
    EXPECT_EQ(counters.known, 17u);
    EXPECT_EQ(counters.faults, all);
    EXPECT_EQ(counters.quarantines, begun);
    const std::uint64_t counted = all - in_quarantine;
    EXPECT_GE(begun, counted / 3 - 17);
    EXPECT_LE(begun, counted / 3);
}

}  // namespace
}  // namespace nfsrdma::svcrdma
