#include "tools/nfsrdma/connections.hpp"

#include <cstring>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "nfs/client/read_file.hpp"
#include "nfs/client/unstable_writes.hpp"
#include "nfs/client/write_file.hpp"
#include "nfs/server/server.hpp"
#include "nfs/vfs_mem.hpp"
#include "svcrdma/listener.hpp"
#include "tests/nfs/client/world.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/loop_world.hpp"

namespace nfsrdma::tool {
namespace {

using nfs::client::Client;
using nfs::client::FileHandle;
using nfs::client::FileReader;
using nfs::client::FileWriter;
using test::LoopWorld;
using testing::file_byte;

constexpr std::uint64_t kLimitNs = 300 * kNsPerSec;  // of simulated time

// The server of nfsrdmad over a tree in memory, and several connections to it, on two soft devices
// in simulated time.
class ConnectionsTest : public ::testing::Test {
  protected:
    ConnectionsTest() {
        EXPECT_TRUE(server.add_export("/export", std::make_unique<nfs::VfsMem>()));
        server.add_to(dispatcher);
    }
    ~ConnectionsTest() override {
        client.reset();
        if (connections != nullptr) {
            connections->close();
            EXPECT_TRUE(world.run_until([this] { return connections->idle(); }, kLimitNs));
            connections.reset();
        }
        stop();
    }
    void listen(std::uint32_t connections_max = 16) {
        svcrdma::ServerOptions options;
        options.demand.credits = 8;
        options.demand.max_payload = 128 << 10;
        options.connections_max = connections_max;
        options.payload_runs = 32;
        auto made = svcrdma::Listener::create(*world.server, LoopWorld::server_address(),
                                              dispatcher, options);
        ASSERT_TRUE(made) << to_string(made.error());
        listener = *std::move(made);
    }
    void stop() {
        if (listener == nullptr) return;
        listener->shut_down(0);
        EXPECT_TRUE(world.run_until([this] { return listener->idle(); }, kLimitNs));
        listener.reset();
    }
    Result<void> connect(std::uint32_t count, bool first_too = false) {
        xprtrdma::TransportOptions options;
        options.demand.credits = 8;
        options.demand.max_payload = 128 << 10;
        options.recovery.on = true;
        options.recovery.first_too = first_too;
        std::optional<Result<void>> outcome;
        auto made = Connections::create(
            faulty != nullptr ? *faulty : *world.client, LoopWorld::server_address(), options,
            count,
            [](void* arg, Result<void> how) noexcept {
                *static_cast<std::optional<Result<void>>*>(arg) = how;
            },
            &outcome);
        EXPECT_TRUE(made);
        connections = *std::move(made);
        EXPECT_TRUE(world.run_until([&] { return outcome.has_value(); }, kLimitNs));
        return *outcome;
    }
    void mount() {
        client = std::make_unique<Client>(connections->xprt(), nullptr);
        client->timeout_ns = kLimitNs;
        nfs::client::MountFlow flow(*client);
        bool finished = false;
        flow.start(
            "/export",
            [](nfs::client::MountFlow& f) noexcept { *static_cast<bool*>(f.user) = true; },
            &finished);
        ASSERT_TRUE(world.run_until([&] { return finished; }, kLimitNs));
        ASSERT_TRUE(flow.outcome.ok()) << to_string(flow.outcome);
        char name[] = "file";
        nfs::client::CreateOp create;
        create.args.where = {flow.root.view(), name};
        finished = false;
        create.user = &finished;
        create.done = [](nfs::client::Op& o) noexcept { *static_cast<bool*>(o.user) = true; };
        client->start(create);
        ASSERT_TRUE(world.run_until([&] { return finished; }, kLimitNs));
        ASSERT_TRUE(create.outcome.ok());
        file = create.object;
    }
    // `after` runs when so many bytes have been given to the writer.
    void write(std::uint64_t size, std::uint64_t when, const std::function<void()>& after) {
        struct State {
            std::uint64_t next = 0, size = 0;
            bool finished = false;
        } state{0, size, false};
        FileWriter writer(*client, 8);
        writer.user = &state;
        writer.on_room = [](FileWriter& w, FileWriter::Slot& slot) noexcept {
            State& s = *static_cast<State*>(w.user);
            const std::uint64_t bytes =
                std::min<std::uint64_t>(slot.memory().size(), s.size - s.next);
            if (bytes == 0) return w.end_of_input(slot);
            for (std::uint64_t i = 0; i < bytes; ++i)
                slot.memory()[i] = static_cast<std::byte>(file_byte(s.next + i));
            const std::uint64_t offset = s.next;
            s.next += bytes;
            w.filled(slot, offset, static_cast<std::uint32_t>(bytes));
        };
        writer.done = [](FileWriter& w) noexcept { static_cast<State*>(w.user)->finished = true; };
        writer.start({.file = file, .block = 0, .stable = false});
        if (after) {
            ASSERT_TRUE(world.run_until([&] { return state.next >= when; }, kLimitNs));
            after();
        }
        ASSERT_TRUE(world.run_until([&] { return state.finished; }, kLimitNs));
        ASSERT_TRUE(writer.outcome.ok()) << to_string(writer.outcome);
        EXPECT_EQ(writer.bytes(), size);
    }
    void expect_file(std::uint64_t size) {
        struct State {
            std::uint64_t bytes = 0, wrong = 0;
            bool finished = false;
        } state;
        FileReader reader(*client, 8);
        reader.user = &state;
        reader.on_data = [](FileReader& r, FileReader::Slot& slot) noexcept {
            State& s = *static_cast<State*>(r.user);
            for (std::size_t i = 0; i < slot.data().size(); ++i)
                s.wrong += slot.data()[i] != static_cast<std::byte>(file_byte(slot.offset() + i))
                               ? 1u
                               : 0u;
            s.bytes += slot.data().size();
            r.consumed(slot);
        };
        reader.done = [](FileReader& r) noexcept { static_cast<State*>(r.user)->finished = true; };
        FileReader::Options options;
        options.file = file;
        options.size_hint = size;
        reader.start(options);
        ASSERT_TRUE(world.run_until([&] { return state.finished; }, kLimitNs));
        ASSERT_TRUE(reader.outcome.ok()) << to_string(reader.outcome);
        EXPECT_EQ(state.bytes, size);
        EXPECT_EQ(state.wrong, 0u);
    }
    LoopWorld world;
    std::unique_ptr<verbs::Device> faulty;  // the client's, instead of world.client
    nfs::Server server;
    sunrpc::SvcDispatcher dispatcher;
    std::unique_ptr<svcrdma::Listener> listener;
    std::unique_ptr<Connections> connections;
    std::unique_ptr<Client> client;
    FileHandle file;
};

TEST_F(ConnectionsTest, FileGoesOverAllOfThemAndIsWhole) {
    listen();
    ASSERT_TRUE(connect(4));
    EXPECT_EQ(connections->connected(), 4u);
    EXPECT_EQ(listener->connections(), 4u);
    mount();
    write(6 << 20, 0, {});
    expect_file(6 << 20);
    std::array<svcrdma::ConnectionStats, 8> stats;
    ASSERT_EQ(listener->connection_stats(stats), 4u);
    for (std::size_t i = 0; i < 4; ++i)
        EXPECT_GE(stats[i].calls, 10u) << i;  // 100 in all
    EXPECT_EQ(connections->counters().payload_copied_bytes, 0u);
    EXPECT_EQ(connections->counters().calls, connections->counters().replies);
    EXPECT_GE(connections->io_counters().binds, 96u);
}

TEST_F(ConnectionsTest, OneIsAsBefore) {
    listen();
    ASSERT_TRUE(connect(1));
    EXPECT_EQ(connections->xprt().connections(), 1u);
    mount();
    write(1 << 20, 0, {});
    expect_file(1 << 20);
}

// UNSTABLE WRITEs over three connections, kept and committed, and their server: once all of it has
// been used.
TEST_F(ConnectionsTest, WritesInSteadyStateAllocateNothing) {
    if (!test::kAllocCounterWorks) GTEST_SKIP() << "needs a build without sanitizers";
    constexpr std::uint32_t kBytes = 64 << 10, kRegions = 32;
    listen();
    ASSERT_TRUE(connect(3));
    mount();
    write(std::uint64_t{kRegions} * kBytes, 0, {});
    nfs::client::UnstableWrites writes(*client, {.pieces = 14, .depth = 8, .commit_after = 6});
    writes.changed = [](nfs::client::UnstableWrites&) noexcept {};
    writes.begin({.file = file});
    const auto run = [&](std::uint32_t count) {
        for (std::uint32_t i = 0; i < count;) {
            const std::uint64_t offset = std::uint64_t{i % kRegions} * kBytes;
            auto piece =
                writes.overlaps(offset, kBytes)
                    ? Result<nfs::client::UnstableWrites::Piece*>(Error{Errc::again, 0, "overlaps"})
                    : writes.take(kBytes);
            if (!piece) {
                writes.commit();
                world.run_for(10 * kNsPerUs);
                continue;
            }
            for (std::uint32_t at = 0; at < kBytes; ++at)
                (*piece)->memory()[at] = static_cast<std::byte>(file_byte(offset + at));
            writes.write(**piece, offset, kBytes);
            ++i;
        }
        for (int i = 0; i < 10'000 && !writes.empty(); ++i) {
            writes.commit();
            world.run_for(100 * kNsPerUs);
        }
    };
    run(200);
    const test::AllocCounter counter;
    run(200);
    EXPECT_EQ(counter.count(), 0u);
    EXPECT_TRUE(writes.empty());
    EXPECT_TRUE(writes.outcome.ok());
    EXPECT_GE(client->counters().commits, 20u);
    expect_file(std::uint64_t{kRegions} * kBytes);
}

// The server ends all connections and comes back: what had not been answered is sent again.
TEST_F(ConnectionsTest, AllRecoverFromARestartOfTheServer) {
    listen();
    ASSERT_TRUE(connect(3));
    EXPECT_EQ(connections->why_down(), nullptr);
    mount();
    write(6 << 20, 1 << 20, [this] {
        stop();
        EXPECT_TRUE(world.run_until([this] { return connections->xprt().recovering(); }, kLimitNs));
        EXPECT_EQ(connections->connected(), 0u);
        listen();
    });
    expect_file(6 << 20);
    EXPECT_TRUE(world.run_until([this] { return connections->connected() == 3; }, kLimitNs));
    EXPECT_GE(connections->counters().reconnects, 3u);
}

// Again and again one of them is killed; its calls are sent again, and the others go on.
TEST_F(ConnectionsTest, OneKilledAfterTheOtherStopsNobody) {
    verbs::softroce::SoftOptions soft;
    soft.seed = 77;
    soft.faults.qp_kill_ns = 200 * kNsPerUs;  // of simulated time, which passes slowly
    auto made = verbs::softroce::create_device(
        *world.loop, world.net->add_host(SockAddr::v4(0x7f000103, verbs::softroce::kRoceV2Port)),
        soft);
    ASSERT_TRUE(made);
    faulty = *std::move(made);
    listen();
    ASSERT_TRUE(connect(4));
    mount();
    for (int round = 0; round < 60 && connections->counters().reconnects < 5; ++round) {
        write(4 << 20, 0, {});
        expect_file(4 << 20);
    }
    EXPECT_GE(connections->counters().reconnects, 5u);
    EXPECT_GE(verbs::softroce::fault_counters(*faulty).qps_killed, 5u);
    EXPECT_GE(client->rpc_counters().resends, 1u);
}

TEST_F(ConnectionsTest, FewerThanAskedForServe) {
    listen(2);
    ASSERT_TRUE(connect(4));
    EXPECT_EQ(connections->connected(), 2u);
    EXPECT_EQ(connections->count(), 4u);
    mount();
    write(1 << 20, 0, {});
    expect_file(1 << 20);
}

// Those that are refused go on trying, and nobody waits for them.
TEST_F(ConnectionsTest, FewerThanAskedForServeWhileTheOthersTry) {
    listen(2);
    ASSERT_TRUE(connect(4, true));
    EXPECT_EQ(connections->connected(), 2u);
    EXPECT_EQ(connections->recovering(), 2u);
    ASSERT_NE(connections->why_down(), nullptr);
    EXPECT_EQ(connections->why_down()->code, Errc::refused);
    mount();
    write(1 << 20, 0, {});
    expect_file(1 << 20);
}

TEST_F(ConnectionsTest, NobodyListens) {
    const Result<void> outcome = connect(3);
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().code, Errc::refused);
    EXPECT_EQ(connections->connected(), 0u);
}

TEST(CreditsEach, AreShared) {
    EXPECT_EQ(credits_each(32, 1), 32u);
    EXPECT_EQ(credits_each(32, 2), 16u);
    EXPECT_EQ(credits_each(33, 2), 17u);
    EXPECT_EQ(credits_each(32, 16), 8u);
}

}  // namespace
}  // namespace nfsrdma::tool
