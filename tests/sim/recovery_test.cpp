#include <algorithm>

#include <gtest/gtest.h>

#include "tests/sim/recovery_world.hpp"
#include "tests/sim/sim_seeds.hpp"

// Seeded worlds in which everything breaks: packets, connection management, Receives, queue pairs,
// the server's process. The client hides it all. The oracles: no call fails and each is answered
// once; a change of a name is executed once in each life of the server; what a COMMIT acknowledged
// is there after one more crash; every byte that is read is right; after each fault there is
// progress again in bounded virtual time; all pools are full at the end (the destructors assert
// it).
namespace nfsrdma::test {
namespace {

constexpr std::uint64_t kBound = 600 * kNsPerSec;    // of a whole run
constexpr std::uint64_t kRecovery = 30 * kNsPerSec;  // from the server's start to the next answer

verbs::softroce::FaultSpec faults_of(Prng& prng) {
    verbs::softroce::FaultSpec spec;
    spec.link.delay_ns_min = 2 * kNsPerUs;
    spec.link.delay_ns_max = spec.link.delay_ns_min + prng.below(30 * kNsPerUs);
    if (prng.below(6) == 0) return spec;
    const auto up_to = [&](std::uint64_t most) {
        return static_cast<std::uint32_t>(prng.below(most));
    };
    spec.link.loss_ppm = up_to(10'000);
    spec.link.dup_ppm = up_to(10'000);
    spec.link.reorder_ppm = up_to(10'000);
    spec.link.corrupt_ppm = up_to(5'000);
    spec.cm_drop_ppm = up_to(200'000);
    spec.cm_reject_ppm = up_to(200'000);
    if (prng.below(2) == 0)
        spec.rnr = {300 * kNsPerUs + prng.below(5 * kNsPerMs), 1 + prng.below(300 * kNsPerUs)};
    if (prng.below(2) == 0) spec.qp_kill_ns = kNsPerMs + prng.below(20 * kNsPerMs);
    return spec;
}

RecoveryWorld::Options options_of(Prng& prng, std::uint64_t seed, TraceRing& trace) {
    RecoveryWorld::Options options;
    options.seed = seed;
    options.trace = &trace;
    options.client_faults = faults_of(prng);
    options.server_faults = faults_of(prng);
    options.server.demand.credits = 4 + static_cast<std::uint32_t>(prng.below(12));
    options.server.demand.max_payload = 64 << 10;
    options.server.payload_runs = 4 + static_cast<std::uint32_t>(prng.below(8));
    options.server.connections_max = 16;
    options.server.stall_timeout_ns = 3 * kNsPerSec;
    options.server.keepalive_ns = prng.below(2) == 0 ? 0 : kNsPerSec;
    options.transport.demand.credits = 4 + static_cast<std::uint32_t>(prng.below(12));
    options.transport.demand.max_payload = 64 << 10;
    options.transport.recovery.on = true;
    options.transport.recovery.first_too = true;
    options.transport.recovery.seed = seed;
    // Two or three connections in every third world.
    if (seed % 3 == 0) options.connections = 2 + static_cast<std::uint32_t>(seed / 3 % 2);
    return options;
}

struct Workers {
    Workers(RecoveryWorld& world, Prng& prng) {
        for (std::uint64_t i = 0; i < 2; ++i) {
            files.push_back(std::make_unique<FileWorker>(
                world.client(), world.root(), prng.next() % 100'000 * 10 + i, 5, 96 << 10));
            names.push_back(std::make_unique<NameWorker>(world.client(), world.root(),
                                                         prng.next() % 100'000 * 10 + i, 12));
        }
    }
    template <class F>
    bool all(F what) const {
        return std::all_of(files.begin(), files.end(), what) &&
               std::all_of(names.begin(), names.end(), what);
    }
    void start() {
        for (auto& worker : files)
            worker->start();
        for (auto& worker : names)
            worker->start();
    }
    bool finished() const {
        return all([](const auto& worker) { return worker->finished(); });
    }
    bool idle() const {
        return all([](const auto& worker) { return worker->idle(); });
    }
    std::uint64_t steps() const {
        std::uint64_t sum = 0;
        for (const auto& worker : files)
            sum += worker->steps;
        for (const auto& worker : names)
            sum += worker->steps;
        return sum;
    }
    std::vector<std::unique_ptr<FileWorker>> files;
    std::vector<std::unique_ptr<NameWorker>> names;
};

// Killed, down for a while, and started again; then there is progress in bounded time.
void restart(RecoveryWorld& world, Workers& workers, Prng& prng) {
    world.kill_server();
    world.run_for(prng.below(3) == 0 ? prng.below(5 * kNsPerSec) : prng.below(50 * kNsPerMs));
    world.start_server();
    const std::uint64_t before = workers.steps();
    EXPECT_TRUE(
        world.run_until([&] { return workers.steps() > before || workers.finished(); }, kRecovery))
        << "no progress in " << kRecovery / kNsPerSec << " s of virtual time";
}

void check(RecoveryWorld& world, const Workers& workers) {
    EXPECT_EQ(world.vfs().executed_twice, 0u);
    for (const auto& worker : workers.files) {
        EXPECT_EQ(worker->trouble, "");
        for (const auto& [name, content] : worker->committed)
            EXPECT_EQ(world.vfs().content(name) == content, true) << name << " was committed";
    }
    for (const auto& worker : workers.names) {
        EXPECT_EQ(worker->trouble, "");
        for (const std::string& name : worker->there)
            EXPECT_TRUE(world.vfs().holds(name)) << name;
        for (const std::string& name : worker->gone)
            EXPECT_FALSE(world.vfs().holds(name)) << name;
    }
}

// What happened in all worlds of a block: faults that never hit would prove nothing.
struct Sums {
    std::uint64_t reconnects = 0, resends = 0, resends_of_several = 0, replayed = 0,
                  lost_writes = 0, rewrites = 0, resolved = 0, cm_faults = 0, rnr_refused = 0,
                  qps_killed = 0;
};

void run_recovery(std::uint64_t seed, TraceRing& trace, Sums& sums) {
    Prng prng(seed * 0x9E37 + 11);
    RecoveryWorld world(options_of(prng, seed, trace));
    ASSERT_TRUE(world.connect());
    Workers workers(world, prng);
    workers.start();
    for (std::uint64_t restarts = prng.below(4); restarts > 0; --restarts) {
        world.run_for(prng.below(2 * kNsPerMs));
        restart(world, workers, prng);
    }
    EXPECT_TRUE(world.run_until([&] { return workers.finished() && workers.idle(); }, kBound))
        << workers.steps() << " steps";
    world.close();
    EXPECT_TRUE(workers.idle());
    world.kill_server();
    check(world, workers);
    sums.reconnects += world.counters().reconnects;
    sums.resends += world.counters().resends;
    if (world.connections() > 1) sums.resends_of_several += world.counters().resends;
    sums.replayed += world.replayed();
    sums.lost_writes += world.vfs().lost_writes;
    sums.rewrites += world.client().counters().rewrites;
    sums.resolved += world.client().counters().resolved;
    const verbs::softroce::FaultCounters faults =
        verbs::softroce::fault_counters(world.client_device());
    sums.cm_faults += faults.cm_dropped + faults.cm_rejected;
    sums.rnr_refused += faults.rnr_refused;
    sums.qps_killed += faults.qps_killed;
}

class SimRecovery : public SimSeeds {};

TEST_P(SimRecovery, EverythingBreaksAndNothingIsLost) {
    Sums sums;
    run_block([&](std::uint64_t seed, TraceRing& trace) { run_recovery(seed, trace, sums); },
              "recovery");
    if (number_from("NR_SIM_SEED", 0) != 0 || number_from("NR_SIM_SEEDS", kSimSeeds) < 200) return;
    EXPECT_GT(sums.reconnects, 0u);
    EXPECT_GT(sums.resends, 0u);
    EXPECT_GT(sums.resends_of_several, 0u);
    EXPECT_GT(sums.replayed, 0u) << "no answer was ever lost";
    EXPECT_GT(sums.lost_writes, 0u) << "no crash ever lost a write";
    EXPECT_GT(sums.rewrites, 0u);
    EXPECT_GT(sums.resolved, 0u);
    EXPECT_GT(sums.cm_faults, 0u);
    EXPECT_GT(sums.rnr_refused, 0u);
    EXPECT_GT(sums.qps_killed, 0u);
}

INSTANTIATE_TEST_SUITE_P(Block, SimRecovery, ::testing::Range<std::uint64_t>(1, 9));

}  // namespace
}  // namespace nfsrdma::test
