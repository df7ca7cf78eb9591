#include "pools/regions.hpp"

#include <array>
#include <cerrno>
#include <vector>

#include <gtest/gtest.h>

#include "pools/io.hpp"
#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

using test::Done;
using test::Fenced;
using test::HostOptions;
using test::Message;
using test::World;

using Piece = std::span<std::byte>;

// Moves what `a` exposed, with `b`'s pull; true when every access was allowed and the bytes came.
bool peer_reads(World& world, std::span<const RemoteRun> runs,
                std::span<const std::byte> expected) {
    const Piece sink = *world.b.arena->carve(expected.size());
    test::wipe(sink);
    auto pull = world.b.io->pull(runs, {&sink, 1});
    EXPECT_TRUE(pull);
    Done done;
    (*pull)->user = &done;
    (*pull)->done = &Done::on;
    world.b.io->post_pull(**pull);
    EXPECT_TRUE(world.until([&] { return done.calls > 0; }));
    return done.ok && test::same(sink, expected);
}

// SEND_WITH_INV from `b` to `a`.
void peer_invalidates(World& world, std::uint32_t key) {
    Message reply(world.b);
    const std::uint32_t before = world.a.received;
    reply.wr.op = verbs::SendOp::send_with_inv;
    reply.wr.rkey = verbs::Rkey{key};
    reply.add();
    reply.post();
    EXPECT_TRUE(world.until([&] { return reply.completed && world.a.received > before; }));
}

TEST(Regions, FindTakesOnlyWhatLiesInOneOfThem) {
    World world;
    std::vector<std::byte> memory(4000);
    Regions regions;
    const Piece all(memory);
    for (const Piece run : {all.subspan(1000, 500), all.subspan(0, 300), all.subspan(1500, 500)})
        ASSERT_TRUE(regions.add(*world.a.pd, run, verbs::Access::local_write));
    EXPECT_EQ(regions.count(), 3u);
    EXPECT_NE(regions.find(all.subspan(1000, 500)), nullptr);
    EXPECT_NE(regions.find(all.subspan(1000, 500)), regions.find(all.subspan(1500, 1)));
    EXPECT_EQ(regions.find(all.subspan(0, 300)), regions.find(all.subspan(299, 1)));
    EXPECT_EQ(regions.find(all.subspan(299, 2)), nullptr);
    EXPECT_EQ(regions.find(all.subspan(999, 2)), nullptr);
    EXPECT_EQ(regions.find(all.subspan(1499, 2)), nullptr);  // two of them
    EXPECT_EQ(regions.find(all.subspan(2000, 1)), nullptr);
    EXPECT_EQ(regions.exactly(all.subspan(1000, 499)), nullptr);
    EXPECT_NE(regions.exactly(all.subspan(1000, 500)), nullptr);
    regions.remove(*regions.exactly(all.subspan(1000, 500)));
    EXPECT_EQ(regions.find(all.subspan(1000, 1)), nullptr);
    EXPECT_NE(regions.find(all.subspan(1500, 500)), nullptr);
}

TEST(Regions, WhatOverlapsOrIsEmptyIsRefused) {
    World world;
    std::vector<std::byte> memory(4000);
    Regions regions;
    const Piece all(memory);
    ASSERT_TRUE(regions.add(*world.a.pd, all.subspan(1000, 1000), verbs::Access::local_write));
    for (const Piece run : {all, all.subspan(1000, 1000), all.subspan(0, 1001),
                            all.subspan(1999, 1), all.subspan(1100, 10), Piece()}) {
        const auto refused = regions.add(*world.a.pd, run, verbs::Access::local_write);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    }
    EXPECT_TRUE(regions.add(*world.a.pd, all.subspan(0, 1000), verbs::Access::local_write));
    EXPECT_TRUE(regions.add(*world.a.pd, all.subspan(2000), verbs::Access::local_write));
}

TEST(Regions, TheirNumberIsLimitedAndTheDevicesRefusalIsExplained) {
    World world;
    std::vector<std::byte> memory(Regions::kRegionsMax + 1);
    Regions regions;
    world.a.pd->register_errno = ENOMEM;
    const auto no_memory =
        regions.add(*world.a.pd, Piece(memory).first(1), verbs::Access::local_write);
    ASSERT_FALSE(no_memory);
    EXPECT_EQ(no_memory.error().sys, ENOMEM);
    EXPECT_NE(std::string(no_memory.error().what).find("RLIMIT_MEMLOCK"), std::string::npos);
    EXPECT_EQ(regions.count(), 0u);
    world.a.pd->register_errno = 0;
    for (std::size_t i = 0; i < Regions::kRegionsMax; ++i)
        ASSERT_TRUE(regions.add(*world.a.pd, Piece(memory).subspan(i, 1), {}));
    EXPECT_EQ(regions.add(*world.a.pd, Piece(memory).last(1), {}).error().code, Errc::too_big);
}

TEST(RegisteredMemory, IsExposedExactlyAndNoByteMore) {
    World world;
    std::vector<std::byte> memory(50000);
    const Piece run = Piece(memory).subspan(1003, 40001);
    test::fill(memory, 3);
    verbs::WrChain unused;
    EXPECT_EQ(world.a.io->expose_read({&run, 1}, unused).error().code, Errc::invalid_argument);
    ASSERT_TRUE(world.a.io->register_memory(memory));
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    ASSERT_EQ((*exposure)->runs().size(), 1u);
    EXPECT_EQ((*exposure)->runs()[0].length, 40001u);
    call.post();
    EXPECT_TRUE(peer_reads(world, (*exposure)->runs(), run));
    // One byte beyond: the memory is registered, the exposure ends.
    RemoteRun beyond = (*exposure)->runs()[0];
    beyond.length += 1;
    const std::span<const std::byte> more(run.data(), run.size() + 1);
    EXPECT_FALSE(peer_reads(world, {&beyond, 1}, more));
    world.a.end_connection();
    exposure->reset();
    EXPECT_TRUE(world.a.io->deregister_memory(memory));
}

TEST(RegisteredMemory, IsNotGivenBackWhileAnExposureNamesIt) {
    World world;
    std::vector<std::byte> memory(8192);
    const Piece run(memory);
    ASSERT_TRUE(world.a.io->register_memory(memory));
    int woken = 0;
    world.a.io->on_room([](void* count) noexcept { ++*static_cast<int*>(count); }, &woken);
    Message call(world.a);
    auto exposure = world.a.io->expose_write({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    EXPECT_EQ(world.a.io->deregister_memory(run.first(100)).error().code, Errc::invalid_argument);
    EXPECT_EQ(world.a.io->deregister_memory(memory).error().code, Errc::again);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    peer_invalidates(world, (*exposure)->runs()[0].handle);
    EXPECT_TRUE((*exposure)->dead());
    EXPECT_EQ(world.a.io->deregister_memory(memory).error().code, Errc::again);  // still held
    EXPECT_EQ(woken, 0);
    exposure->reset();
    EXPECT_EQ(woken, 1);
    EXPECT_TRUE(world.a.io->deregister_memory(memory));
    EXPECT_FALSE(world.a.io->is_registered(memory));
    EXPECT_EQ(world.a.io->deregister_memory(memory).error().code, Errc::invalid_argument);
    world.a.io->on_room(nullptr, nullptr);
}

// The keys of a flushed queue pair are dropped before the memory goes, and made anew later.
TEST(RegisteredMemory, GoesBackBetweenTwoConnections) {
    World world;
    std::vector<std::byte> memory(8192), other(8192);
    test::fill(other, 8);
    Piece run(memory);
    ASSERT_TRUE(world.a.io->register_memory(memory));
    ASSERT_TRUE(world.a.io->register_memory(other));
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    world.a.end_connection();
    world.b.end_connection();
    EXPECT_EQ(world.a.io->deregister_memory(memory).error().code, Errc::again);
    exposure->reset();
    EXPECT_TRUE(world.a.io->deregister_memory(memory));
    EXPECT_EQ(world.a.io->on_remote_invalidate(verbs::Rkey{12345}), nullptr);
    ASSERT_TRUE(world.a.io->renew());
    ASSERT_TRUE(world.b.io->renew());
    EXPECT_EQ(world.a.io->counters().keys_renewed, 1u);
    world.a.make_qp();
    world.b.make_qp();
    world.connect();
    // The other one was kept, and every key works.
    run = other;
    std::vector<Lease<Exposure>> all;
    std::vector<std::unique_ptr<Message>> calls;
    for (int i = 0; i < 8; ++i) {
        calls.push_back(std::make_unique<Message>(world.a));
        auto again = world.a.io->expose_read({&run, 1}, calls.back()->add());
        ASSERT_TRUE(again);
        calls.back()->post();
        EXPECT_TRUE(peer_reads(world, (*again)->runs(), run));
        all.push_back(*std::move(again));
    }
    for (auto& each : all) {
        peer_invalidates(world, each->runs()[0].handle);
        EXPECT_TRUE(each->dead());
        each.reset();
    }
    EXPECT_TRUE(world.a.io->deregister_memory(other));
    EXPECT_TRUE(world.a.io->full());
}

TEST(RegisteredMemory, IsPulledIntoPushedFromAndSent) {
    for (const LocalStrategy local : {LocalStrategy::automatic, LocalStrategy::key}) {
        HostOptions options;
        options.io.local = local;
        World world(options);
        std::vector<std::byte> memory(30000);
        const Piece run = Piece(memory).subspan(5, 20000);
        ASSERT_TRUE(world.a.io->register_memory(memory));
        const Piece theirs = *world.b.arena->carve(20000);
        test::fill(theirs, 4);
        Message advert(world.b);
        auto exposure = world.b.io->expose_read({&theirs, 1}, advert.add());
        advert.post();
        ASSERT_TRUE(world.until([&] { return advert.completed; }));
        auto pull = world.a.io->pull((*exposure)->runs(), {&run, 1});
        ASSERT_TRUE(pull);
        Done done;
        (*pull)->user = &done;
        (*pull)->done = &Done::on;
        world.a.io->post_pull(**pull);
        EXPECT_EQ(world.a.io->deregister_memory(memory).error().code, Errc::again);
        ASSERT_TRUE(world.until([&] { return done.calls > 0; }));
        EXPECT_TRUE(done.ok);
        EXPECT_TRUE(test::same(run, theirs));
        pull->reset();
        Message bye(world.a);
        bye.sge = world.a.io->sge(run.first(16));
        bye.add();
        bye.post();
        ASSERT_TRUE(world.until([&] { return bye.completed; }));
        EXPECT_EQ(bye.status, verbs::WcStatus::success);
        EXPECT_TRUE(world.a.io->deregister_memory(memory));
        world.b.end_connection();
        exposure->reset();
    }
}

TEST(RegisteredMemory, StaticKeysAreItsOwnAndEndWithIt) {
    HostOptions options;
    options.io.registration = Registration::fixed;
    World world(options);
    std::vector<std::byte> memory(9000);
    const Piece run = Piece(memory).subspan(7, 8000);
    test::fill(run, 5);
    ASSERT_TRUE(world.a.io->register_memory(memory));
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    const RemoteRun advertised = (*exposure)->runs()[0];
    EXPECT_NE(advertised.handle, static_cast<std::uint32_t>(world.a.arena->static_rkey()));
    call.post();
    EXPECT_TRUE(peer_reads(world, {&advertised, 1}, run));
    EXPECT_EQ(world.a.io->deregister_memory(memory).error().code, Errc::again);
    exposure->reset();
    EXPECT_TRUE(world.a.io->deregister_memory(memory));
    EXPECT_FALSE(peer_reads(world, {&advertised, 1}, run));
}

// A key a run where the device binds runs only, one over both where it takes page lists.
TEST(RegisteredMemory, SharesAKeyWithTheArenaWhereTheDeviceCan) {
    for (const bool lists : {true, false}) {
        HostOptions options;
        if (!lists) options.edit_caps = [](verbs::DeviceCaps& caps) { caps.page_list_reg = false; };
        World world(options);
        std::vector<std::byte> memory(3 * kPageSize);
        const std::size_t inset = kPageSize - address_of(memory.data()) % kPageSize;
        const std::array<Piece, 2> runs{*world.a.arena->carve(kPageSize),
                                        Piece(memory).subspan(inset, 5000)};
        ASSERT_TRUE(world.a.io->register_memory(memory));
        verbs::SendWr send;
        verbs::WrChain chain;
        chain.push_back(send);
        auto exposure = world.a.io->expose_write(runs, chain);
        ASSERT_TRUE(exposure);
        EXPECT_EQ((*exposure)->runs().size(), lists ? 1u : 2u);
        world.a.io->unexpose(std::move(*exposure));
        EXPECT_TRUE(world.a.io->deregister_memory(memory));
    }
}

TEST(RegisteredMemory, OfTooManyRunsAtOnceIsRefusedAndNothingIsHeld) {
    World world;
    constexpr std::size_t kRuns = RegionUse::kDistinctMax + 1;
    std::vector<std::byte> memory((kRuns + 1) * kPageSize);
    const std::size_t inset = kPageSize - address_of(memory.data()) % kPageSize;
    std::vector<Piece> runs;
    for (std::size_t i = 0; i < kRuns; ++i) {
        runs.push_back(Piece(memory).subspan(inset + i * kPageSize, kPageSize));
        ASSERT_TRUE(world.a.io->register_memory(runs.back()));
    }
    verbs::WrChain chain;
    EXPECT_EQ(world.a.io->expose_read(runs, chain).error().code, Errc::too_big);
    EXPECT_TRUE(world.a.io->full());
    for (const Piece run : runs)
        EXPECT_TRUE(world.a.io->deregister_memory(run));
}

TEST(RegionsDeathTest, RemovingWhatIsUsedAsserts) {
    World world;
    std::vector<std::byte> memory(100);
    Regions regions;
    ASSERT_TRUE(regions.add(*world.a.pd, memory, verbs::Access::local_write));
    RegionUse use;
    EXPECT_TRUE(use.add(*regions.exactly(memory)));
    EXPECT_DEATH(regions.remove(*regions.exactly(memory)), "users");
}

}  // namespace
}  // namespace nfsrdma::pools
