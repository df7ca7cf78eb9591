#include <algorithm>

#include <gtest/gtest.h>

#include "svcrdma/listener.hpp"
#include "tests/sim/hostile_client.hpp"
#include "tests/sim/hostile_server.hpp"
#include "tests/sim/sim_client.hpp"
#include "tests/sim/sim_seeds.hpp"
#include "tests/sim/sim_service.hpp"
#include "tests/support/loop_world.hpp"

// Seeded worlds of client and server over LoopWire, in virtual time. One seed makes the world:
// sizes, credits, faults, work, kills. The oracles: each call is answered once; bytes equal; no
// access through an unbound key; Receives posted for every credit (no RNR); all pools full at the
// end (the destructors assert it); virtual time is bounded.
namespace nfsrdma::test {
namespace {

constexpr std::uint64_t kBound = 120 * kNsPerSec;  // of virtual time

verbs::softroce::LoopFaults faults_of(Prng& prng) {
    verbs::softroce::LoopFaults faults;
    if (prng.below(4) == 0) return faults;
    const auto up_to = [&](std::uint64_t most) {
        return static_cast<std::uint32_t>(prng.below(most));
    };
    faults.loss_ppm = up_to(20'000);
    faults.dup_ppm = up_to(20'000);
    faults.reorder_ppm = up_to(20'000);
    faults.corrupt_ppm = up_to(5'000);
    faults.delay_ns_min = 1'000;
    faults.delay_ns_max = faults.delay_ns_min + prng.below(30'000);
    return faults;
}

pools::Demand demand_of(Prng& prng, const SimClient::Options& client) {
    constexpr std::uint32_t kInline[] = {1024, 4096, 4096, 8192};
    pools::Demand demand;
    demand.credits = 1 + static_cast<std::uint32_t>(prng.below(24));
    demand.max_payload = client.payload_max;
    demand.max_message = client.message_max;
    demand.inline_size = kInline[prng.below(4)];
    return demand;
}

SimClient::Options client_of(Prng& prng, std::uint64_t seed) {
    SimClient::Options options;
    options.seed = seed;
    options.calls = 60;
    options.window = 1 + static_cast<std::uint32_t>(prng.below(30));
    options.payload_max = prng.below(4) == 0 ? 256 << 10 : 32 << 10;
    options.message_max = prng.below(2) == 0 ? 16 << 10 : 32 << 10;
    options.abandon_ppm = prng.below(3) == 0 ? 20'000 : 0;
    options.transport.demand = demand_of(prng, options);
    options.transport.min_chunk_bytes = prng.below(3) == 0 ? 1 : 2048;
    return options;
}

// Kills, from time to time: ours, or the network's.
struct Fate {
    bool close = false, blackout = false;
    std::uint64_t at_ns = 0;
};

void expect_honest(const SimClient::Books& books) {
    EXPECT_EQ(books.twice, 0u);
    EXPECT_EQ(books.wrong, 0u);
    EXPECT_EQ(books.bad_message, 0u);
}

void run_honest(std::uint64_t seed, TraceRing& trace) {
    Prng prng(seed);
    LoopWorld::Options options;
    options.seed = seed;
    options.faults = faults_of(prng);
    LoopWorld world(options);
    SimClient::Options client_options = client_of(prng, seed);
    client_options.transport.reply_timeout_ns = 5 * kNsPerSec;
    SimService service(*world.loop, trace,
                       {.seed = seed,
                        .work_ns_max = prng.below(2) == 0 ? 0 : prng.below(500 * kNsPerUs),
                        .message_max = client_options.message_max});
    svcrdma::ServerOptions server_options;
    server_options.demand = demand_of(prng, client_options);
    server_options.payload_runs = 2 + static_cast<std::uint32_t>(prng.below(20));
    server_options.first_credits = static_cast<std::uint32_t>(prng.below(6));  // 0: all at once
    server_options.local = static_cast<pools::LocalStrategy>(prng.below(3));
    auto listener = *svcrdma::Listener::create(*world.server, LoopWorld::server_address(), service,
                                               server_options);
    SimClient client(*world.client, LoopWorld::server_address(), trace, client_options);
    const bool with_hostile = prng.below(3) == 0;
    HostileClient hostile(*world.client, LoopWorld::server_address(), seed, 100 * kNsPerUs);
    const Fate fate{.close = prng.below(4) == 0,
                    .blackout = prng.below(8) == 0,
                    .at_ns = prng.below(3 * kNsPerMs)};
    client.start();
    if (with_hostile) hostile.start();
    if (fate.close || fate.blackout) {
        world.run_for(fate.at_ns);
        if (fate.close) client.kill();
        if (fate.blackout) {
            world.net->set_faults({.loss_ppm = 1'000'000});
            world.run_for(20 * kNsPerSec);
            world.net->set_faults(options.faults);
        }
    }
    EXPECT_TRUE(world.run_until(
        [&] { return client.done() && (!with_hostile || hostile.sent > 20); }, kBound));
    expect_honest(client.books());
    EXPECT_GE(client.books().right + client.books().abandoned, client_options.calls);
    if (with_hostile) {
        EXPECT_GT(hostile.sent, 20u);
    } else {
        EXPECT_EQ(service.corrupt, 0u);
        EXPECT_EQ(service.nonsense, 0u);
        EXPECT_EQ(verbs::softroce::counters(*world.server).rnr_naks_sent, 0u);
        EXPECT_EQ(verbs::softroce::counters(*world.client).rnr_naks_sent, 0u);
        EXPECT_EQ(listener->counters().err_chunk, 0u);
    }
    EXPECT_EQ(verbs::softroce::counters(*world.client).rnr_naks_sent,
              with_hostile ? verbs::softroce::counters(*world.client).rnr_naks_sent : 0u);
    hostile.stop();
    client.finish();
    EXPECT_TRUE(world.run_until([&] { return client.transport() == nullptr; }, kBound));
    listener->shut_down(kNsPerSec);
    EXPECT_TRUE(world.run_until([&] { return listener->idle() && !service.busy(); }, kBound));
    if (with_hostile || fate.blackout || fate.close) return;
    EXPECT_EQ(client.books().connections, 1u);  // no access was refused that mattered
    // A READ request that comes twice may come after its key's end; it is refused without a word.
    const bool exactly_once =
        options.faults.loss_ppm + options.faults.dup_ppm + options.faults.reorder_ppm == 0;
    EXPECT_EQ(verbs::softroce::counters(*world.server).access_refused, 0u);
    if (exactly_once) {
        EXPECT_EQ(verbs::softroce::counters(*world.client).access_refused, 0u);
    }
}

void run_hostile_server(std::uint64_t seed, TraceRing& trace) {
    Prng prng(seed);
    LoopWorld::Options options;
    options.seed = seed;
    options.faults = faults_of(prng);
    LoopWorld world(options);
    SimClient::Options client_options = client_of(prng, seed);
    client_options.patience_ns = 300 * kNsPerMs;
    client_options.honest_server = false;
    client_options.transport.reply_timeout_ns = kNsPerSec;
    HostileServer server(*world.server, LoopWorld::server_address(),
                         {.seed = seed,
                          .evil_ppm = static_cast<std::uint32_t>(prng.below(300'000)),
                          .silence_ppm = static_cast<std::uint32_t>(prng.below(100'000)),
                          .receives = 4 + static_cast<std::uint32_t>(prng.below(60)),
                          .repost_ns_max = prng.below(3) == 0 ? 300 * kNsPerUs : 0});
    SimClient client(*world.client, LoopWorld::server_address(), trace, client_options);
    client.start();
    EXPECT_TRUE(world.run_until([&] { return client.done(); }, kBound));
    EXPECT_EQ(client.books().twice, 0u);
    EXPECT_EQ(server.corrupt, 0u);
    client.finish();
    EXPECT_TRUE(world.run_until([&] { return client.transport() == nullptr; }, kBound));
}

class Sim : public SimSeeds {};

TEST_P(Sim, HonestWorlds) {
    run_block(run_honest, "honest");
}

TEST_P(Sim, HostileServers) {
    run_block(run_hostile_server, "hostile server");
}

INSTANTIATE_TEST_SUITE_P(Block, Sim, testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace nfsrdma::test
