#include <array>
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

HostOptions with(LocalStrategy local) {
    HostOptions options;
    options.io.local = local;
    return options;
}

// `a` grants static keys over its arena: the peer's memory of these tests, cut into runs at will.
HostOptions granting() {
    HostOptions options;
    options.io.registration = Registration::fixed;
    return options;
}

struct Remote {
    explicit Remote(World& w, std::uint32_t bytes) : world(w), memory(*w.a.arena->carve(bytes)) {}
    RemoteRun run(std::uint32_t offset, std::uint32_t length) const {
        return {static_cast<std::uint32_t>(world.a.arena->static_rkey()), length,
                address_of(memory.data() + offset)};
    }
    World& world;
    Piece memory;
};

struct Pulled : Done {
    Lease<Transfer> transfer;
};

Result<std::unique_ptr<Pulled>> start_pull(World& world, std::span<const RemoteRun> from,
                                           Runs memory) {
    auto pulled = std::make_unique<Pulled>();
    NR_TRY_ASSIGN(pulled->transfer, world.b.io->pull(from, memory));
    pulled->transfer->user = static_cast<Done*>(pulled.get());
    pulled->transfer->done = &Done::on;
    world.b.io->post_pull(*pulled->transfer);
    return pulled;
}

// Random cuts of `total` bytes of `memory` into `count` pieces, in order, each piece whole pages
// apart when `aligned`.
std::vector<Piece> cut(Prng& prng, Piece memory, std::uint32_t count, bool aligned) {
    std::vector<Piece> runs;
    std::size_t at = aligned ? prng.below(kPageSize) : prng.below(100);
    for (std::uint32_t i = 0; i < count; ++i) {
        std::size_t size = 0;
        if (aligned) {
            const std::size_t to_edge = kPageSize - at % kPageSize;
            size = i + 1 == count ? 1 + prng.below(3 * kPageSize)
                                  : to_edge + kPageSize * prng.below(2);
            runs.push_back(memory.subspan(at, size));
            at = align_up<std::size_t>(at + size, kPageSize) + kPageSize;
        } else {
            size = 1 + prng.below(6000);
            runs.push_back(memory.subspan(at, size));
            at += size + prng.below(50);
        }
    }
    return runs;
}

std::vector<RemoteRun> cut_remote(Prng& prng, const Remote& remote, std::uint32_t total,
                                  std::uint32_t count) {
    std::vector<RemoteRun> runs;
    std::uint32_t at = static_cast<std::uint32_t>(prng.below(1000)), left = total;
    for (std::uint32_t i = 0; i < count && left > 0; ++i) {
        const std::uint32_t size =
            i + 1 == count ? left : static_cast<std::uint32_t>(prng.below(left + 1));
        runs.push_back(remote.run(at, size));
        at += size + static_cast<std::uint32_t>(prng.below(100));
        left -= size;
    }
    return runs;
}

std::uint32_t size_of(Runs runs) {
    std::size_t total = 0;
    for (const Piece run : runs)
        total += run.size();
    return static_cast<std::uint32_t>(total);
}

std::vector<std::byte> bytes_of(Runs runs) {
    std::vector<std::byte> out;
    for (const Piece run : runs)
        out.insert(out.end(), run.begin(), run.end());
    return out;
}

std::vector<std::byte> bytes_of(std::span<const RemoteRun> runs) {
    std::vector<std::byte> out;
    for (const RemoteRun& run : runs) {
        const std::byte* const at = bytes_at(run.offset);
        out.insert(out.end(), at, at + run.length);
    }
    return out;
}

class EachStrategy : public testing::TestWithParam<LocalStrategy> {};

TEST_P(EachStrategy, PullsJoinRemoteRunsIntoLocalRuns) {
    World world(granting(), with(GetParam()));
    const Remote remote(world, 300000);
    const Piece local = *world.b.arena->carve(300000);
    test::fill(remote.memory, 1);
    Prng prng(11);
    for (int round = 0; round < 40; ++round) {
        test::wipe(local);
        const auto runs = cut(prng, local, static_cast<std::uint32_t>(prng.between(1, 6)), true);
        const auto from =
            cut_remote(prng, remote, size_of(runs), static_cast<std::uint32_t>(prng.between(1, 5)));
        const std::uint32_t slots =
            world.b.io->pull_slots(static_cast<std::uint32_t>(from.size()), runs);
        auto pulled = start_pull(world, from, runs);
        ASSERT_TRUE(pulled) << to_string(pulled.error());
        EXPECT_LE((*pulled)->transfer->slots(), slots);
        ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
        EXPECT_TRUE((*pulled)->ok);
        EXPECT_EQ(bytes_of(Runs(runs)), bytes_of(std::span<const RemoteRun>(from)));
        std::size_t touched = 0;
        for (const std::byte b : local)
            touched += b != std::byte{0xEE};
        EXPECT_LE(touched, size_of(runs));
    }
    EXPECT_TRUE(world.b.io->full());
    EXPECT_EQ(world.b.io->counters().keyed_pulls,
              GetParam() == LocalStrategy::key ? 40u : world.b.io->counters().keyed_pulls);
    if (GetParam() == LocalStrategy::scatter_gather) {
        EXPECT_EQ(world.b.io->counters().binds, 0u);
    }
}

TEST_P(EachStrategy, PushesFillRemoteRunsInOrderWithExactlyTheBytes) {
    World world(granting(), with(GetParam()));
    const Remote remote(world, 300000);
    const Piece local = *world.b.arena->carve(300000);
    test::fill(local, 2);
    Prng prng(12);
    for (int round = 0; round < 40; ++round) {
        test::wipe(remote.memory);
        const auto runs = cut(prng, local, static_cast<std::uint32_t>(prng.between(1, 6)), true);
        const std::uint32_t size = size_of(runs);
        const auto spare = static_cast<std::uint32_t>(prng.below(3000));
        const auto to =
            cut_remote(prng, remote, size + spare, static_cast<std::uint32_t>(prng.between(1, 5)));
        const std::uint32_t slots =
            world.b.io->push_slots(static_cast<std::uint32_t>(to.size()), runs);
        auto push = world.b.io->push(to, runs);
        ASSERT_TRUE(push) << to_string(push.error());
        EXPECT_LE((*push)->slots(), slots);
        Message message(world.b);
        Io::append_to(message.posting.chain, **push);
        message.add();
        EXPECT_EQ(message.posting.chain.size(), (*push)->slots() + 1);
        message.post();
        ASSERT_TRUE(world.until([&] { return message.completed; }));
        EXPECT_EQ(message.status, verbs::WcStatus::success);
        auto landed = bytes_of(std::span<const RemoteRun>(to));
        EXPECT_TRUE(test::wiped(std::span(landed).subspan(size)));
        landed.resize(size);
        EXPECT_EQ(landed, bytes_of(Runs(runs)));
    }
    EXPECT_TRUE(world.b.io->full());
    EXPECT_EQ(world.b.io->counters().binds, world.b.io->counters().local_invalidations);
}

TEST_P(EachStrategy, LossyNetMovesTheSameBytes) {
    World world(granting(), with(GetParam()),
                {.loss_ppm = 20000, .dup_ppm = 20000, .reorder_ppm = 20000});
    const Remote remote(world, 300000);
    const Piece local = *world.b.arena->carve(300000);
    test::fill(remote.memory, 3);
    Prng prng(13);
    for (int round = 0; round < 10; ++round) {
        const auto runs = cut(prng, local, 4, true);
        const auto from = cut_remote(prng, remote, size_of(runs), 3);
        auto pulled = start_pull(world, from, runs);
        ASSERT_TRUE(pulled);
        ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
        ASSERT_TRUE((*pulled)->ok);
        EXPECT_EQ(bytes_of(Runs(runs)), bytes_of(std::span<const RemoteRun>(from)));
        // And back to where it came from.
        const auto want = bytes_of(Runs(runs));
        test::wipe(remote.memory);
        auto push = world.b.io->push(from, runs);
        ASSERT_TRUE(push);
        Message message(world.b);
        Io::append_to(message.posting.chain, **push);
        message.add();
        message.post();
        ASSERT_TRUE(world.until([&] { return message.completed; }));
        ASSERT_EQ(message.status, verbs::WcStatus::success);
        EXPECT_EQ(bytes_of(std::span<const RemoteRun>(from)), want);
        test::fill(remote.memory, 3);
    }
}

INSTANTIATE_TEST_SUITE_P(All, EachStrategy,
                         testing::Values(LocalStrategy::automatic, LocalStrategy::scatter_gather,
                                         LocalStrategy::key),
                         [](const auto& strategy) {
                             switch (strategy.param) {
                                 case LocalStrategy::automatic:
                                     return "automatic";
                                 case LocalStrategy::scatter_gather:
                                     return "scatter_gather";
                                 case LocalStrategy::key:
                                     return "key";
                             }
                             return "?";
                         });

// A remote run that meets more local runs than an SGL can name.
TEST(Strategy, BeyondTheSgeLimitAKeyIsBorrowedElseTheRequestIsSplit) {
    for (const LocalStrategy local : {LocalStrategy::automatic, LocalStrategy::scatter_gather}) {
        HostOptions options = with(local);
        options.io.send_sges = 2;
        World world(granting(), options);
        const Remote remote(world, 40000);
        test::fill(remote.memory, 4);
        const Piece memory = *world.b.arena->carve(20 * kPageSize);
        std::vector<Piece> runs;
        for (std::uint32_t i = 0; i < 5; ++i)
            runs.push_back(memory.subspan(std::size_t{i} * 2 * kPageSize, kPageSize));
        const RemoteRun from = remote.run(0, 5 * kPageSize);
        auto pulled = start_pull(world, {&from, 1}, runs);
        ASSERT_TRUE(pulled);
        EXPECT_EQ((*pulled)->transfer->slots(), 3u);
        EXPECT_LE(3u, world.b.io->pull_slots(1, runs));
        EXPECT_EQ(world.b.io->counters().keyed_pulls, local == LocalStrategy::automatic ? 1u : 0u);
        ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
        EXPECT_TRUE((*pulled)->ok);
        EXPECT_EQ(bytes_of(Runs(runs)), bytes_of({&from, 1}));
        EXPECT_EQ(world.b.qp->counters().local_invs, world.b.io->counters().keyed_pulls);
    }
}

void one_read_sge(verbs::DeviceCaps& caps) {
    caps.max_read_sge = 1;
}

// As iWARP devices: a SEND or an RDMA WRITE gathers, an RDMA READ fills one run.
TEST(Strategy, AReadIsSplitWhereTheDeviceTakesFewerSgesForIt) {
    HostOptions options = with(LocalStrategy::scatter_gather);
    options.edit_caps = &one_read_sge;
    World world(granting(), options);
    const Remote remote(world, 40000);
    test::fill(remote.memory, 8);
    const Piece memory = *world.b.arena->carve(6 * kPageSize);
    std::vector<Piece> runs;
    for (std::uint32_t i = 0; i < 3; ++i)
        runs.push_back(memory.subspan(std::size_t{i} * 2 * kPageSize, kPageSize));
    const RemoteRun run = remote.run(0, 3 * kPageSize);
    EXPECT_EQ(world.b.io->pull_slots(1, runs), 3u);
    EXPECT_EQ(world.b.io->push_slots(1, runs), 1u);
    auto pulled = start_pull(world, {&run, 1}, runs);
    ASSERT_TRUE(pulled);
    EXPECT_EQ((*pulled)->transfer->slots(), 3u);
    for (const verbs::SendWr* wr = (*pulled)->transfer->chain().first(); wr != nullptr;
         wr = wr->next)
        EXPECT_EQ(wr->sgl.size(), 1u);
    ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
    EXPECT_TRUE((*pulled)->ok);
    EXPECT_EQ(bytes_of(Runs(runs)), bytes_of({&run, 1}));
    auto push = world.b.io->push({&run, 1}, runs);
    ASSERT_TRUE(push);
    EXPECT_EQ((*push)->slots(), 1u);
}

TEST(Strategy, OneRunEachWayIsOneRequest) {
    World world(granting());
    const Remote remote(world, 1 << 20);
    const Piece local = *world.b.arena->carve(1 << 20);
    const RemoteRun run = remote.run(0, 1 << 20);
    auto pull = world.b.io->pull({&run, 1}, {&local, 1});
    auto push = world.b.io->push({&run, 1}, {&local, 1});
    ASSERT_TRUE(pull && push);
    EXPECT_EQ((*pull)->slots(), 1u);
    EXPECT_EQ((*push)->slots(), 1u);
    EXPECT_EQ(world.b.io->pull_slots(1, {&local, 1}), 1u);
    EXPECT_EQ(world.b.io->push_slots(1, {&local, 1}), 1u);
    // The SGE is the memory itself: nothing is copied.
    EXPECT_EQ((*pull)->chain().first()->sgl[0].addr, address_of(local.data()));
}

void iwarp(verbs::DeviceCaps& caps) {
    caps.read_sink_needs_key = true;
}

TEST(Strategy, AReadSinkThatNeedsAKeyGetsOneThatIsDeadWhenThePullIsDone) {
    HostOptions options;
    options.edit_caps = &iwarp;
    World world(granting(), options);
    const Remote remote(world, 5000);
    test::fill(remote.memory, 6);
    const Piece local = *world.b.arena->carve(5000);
    const RemoteRun from = remote.run(0, 5000);
    EXPECT_EQ(world.b.io->pull_slots(1, {&local, 1}), 3u);
    auto pulled = start_pull(world, {&from, 1}, {&local, 1});
    ASSERT_TRUE(pulled);
    ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
    EXPECT_TRUE(test::same(local, remote.memory.first(5000)));
    EXPECT_EQ(world.b.qp->counters().reg_mrs, 1u);
    EXPECT_EQ(world.b.qp->counters().local_invs, 1u);
    auto push = world.b.io->push({&from, 1}, {&local, 1});
    ASSERT_TRUE(push);
    EXPECT_EQ((*push)->slots(), 1u);
}

void windows_only(verbs::DeviceCaps& caps) {
    caps.page_list_reg = caps.local_keys = false;
}

TEST(Strategy, AForcedKeyIsUnsupportedWhereKeysHaveNoLocalSide) {
    HostOptions options = with(LocalStrategy::key);
    options.edit_caps = &windows_only;
    World world(granting(), options);
    const Remote remote(world, 100);
    const Piece local = *world.b.arena->carve(100);
    const RemoteRun from = remote.run(0, 100);
    auto pull = world.b.io->pull({&from, 1}, {&local, 1});
    ASSERT_FALSE(pull);
    EXPECT_EQ(pull.error().code, Errc::unsupported);
    EXPECT_TRUE(world.b.io->full());
}

// iWARP without windows: each key is a region of its own.
void iwarp_of_runs(verbs::DeviceCaps& caps) {
    caps.page_list_reg = false;
    caps.read_sink_needs_key = true;
}

TEST(Strategy, AReadSinkThatNeedsAKeyGetsOneWhereAKeyCoversOneRun) {
    HostOptions options = with(LocalStrategy::automatic);
    options.edit_caps = &iwarp_of_runs;
    World world(granting(), options);
    const Remote remote(world, 5000);
    const Piece local = *world.b.arena->carve(5000);
    const RemoteRun from = remote.run(0, 5000);
    auto pull = world.b.io->pull({&from, 1}, {&local, 1});
    ASSERT_TRUE(pull) << to_string(pull.error());
    EXPECT_EQ((*pull)->slots(), 3u) << "REG_MR, READ, LOCAL_INV";
    EXPECT_LE((*pull)->slots(), world.b.io->pull_slots(1, {&local, 1}));
    EXPECT_EQ(world.b.io->counters().keyed_pulls, 1u);
    pull->reset();
    const std::array<Piece, 2> two{local.first(2500), local.subspan(2500)};
    EXPECT_EQ(world.b.io->pull({&from, 1}, two).error().code, Errc::unsupported);
    auto push = world.b.io->push({&from, 1}, {&local, 1});
    ASSERT_TRUE(push);
    EXPECT_EQ((*push)->slots(), 1u) << "a WRITE's source needs none";
    push->reset();
    EXPECT_TRUE(world.b.io->full());
}

TEST(Transfer, SumsThatDoNotFitAreRefused) {
    World world(granting());
    const Remote remote(world, 1000);
    const Piece local = *world.b.arena->carve(1000);
    const RemoteRun shorter = remote.run(0, 999);
    auto pull = world.b.io->pull({&shorter, 1}, {&local, 1});
    ASSERT_FALSE(pull);
    EXPECT_EQ(pull.error().code, Errc::invalid_argument);
    auto push = world.b.io->push({&shorter, 1}, {&local, 1});
    ASSERT_FALSE(push);
    EXPECT_EQ(push.error().code, Errc::too_big);
    std::vector<RemoteRun> many(17, remote.run(0, 10));
    const Piece small = local.first(170);
    auto long_pull = world.b.io->pull(many, {&small, 1});
    ASSERT_FALSE(long_pull);
    EXPECT_EQ(long_pull.error().code, Errc::too_big);
    EXPECT_TRUE(world.b.io->full());
}

TEST(Transfer, EmptyOnesCostNothing) {
    World world(granting());
    auto pulled = start_pull(world, {}, {});
    ASSERT_TRUE(pulled);
    EXPECT_EQ((*pulled)->calls, 1);
    EXPECT_TRUE((*pulled)->ok);
    auto push = world.b.io->push({}, {});
    ASSERT_TRUE(push);
    EXPECT_EQ((*push)->slots(), 0u);
}

TEST(Transfer, EmptyRemoteRunsAreSkipped) {
    World world(granting());
    const Remote remote(world, 1000);
    test::fill(remote.memory, 8);
    const Piece local = *world.b.arena->carve(100);
    const std::array<RemoteRun, 3> from{remote.run(0, 0), remote.run(50, 100), remote.run(0, 0)};
    auto pulled = start_pull(world, from, {&local, 1});
    ASSERT_TRUE(pulled);
    EXPECT_EQ((*pulled)->transfer->slots(), 1u);
    ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
    EXPECT_TRUE(test::same(local, remote.memory.subspan(50, 100)));
}

TEST(Transfer, TransfersToTransfersNoProgress) {
    HostOptions options;
    options.io.transfers = 1;
    World world(granting(), options);
    int woken = 0;
    world.b.io->on_room([](void* arg) noexcept { ++*static_cast<int*>(arg); }, &woken);
    auto one = world.b.io->pull({}, {});
    ASSERT_TRUE(one);
    auto none = world.b.io->pull({}, {});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::again);
    EXPECT_EQ(woken, 0);
    one->reset();
    EXPECT_EQ(woken, 1);
    EXPECT_TRUE(world.b.io->pull({}, {}));
    world.b.io->on_room(nullptr, nullptr);
}

TEST(Transfer, ARefusedReadEndsThePullOnceAndNotOk) {
    for (const LocalStrategy local : {LocalStrategy::scatter_gather, LocalStrategy::key}) {
        World world(granting(), with(local));
        const Piece memory = *world.b.arena->carve(3000);
        const std::array<RemoteRun, 3> from{RemoteRun{0x99, 1000, 0}, RemoteRun{0x99, 1000, 0},
                                            RemoteRun{0x99, 1000, 0}};
        auto pulled = start_pull(world, from, {&memory, 1});
        ASSERT_TRUE(pulled);
        ASSERT_TRUE(world.until([&] { return (*pulled)->calls > 0; }));
        world.settle();
        EXPECT_EQ((*pulled)->calls, 1);
        EXPECT_FALSE((*pulled)->ok);
        EXPECT_TRUE(world.b.qp->in_error());
        (*pulled)->transfer.reset();
        world.b.end_connection();
        EXPECT_TRUE(world.b.io->full());
        EXPECT_TRUE(world.b.io->renew());
    }
}

TEST(B126, APushedBufferIsLentUntilItsSendCompleted) {
    World world(granting(), {}, {.loss_ppm = 50000});
    const Remote remote(world, 64 * 4096);
    const Piece local = *world.b.arena->carve(4096);
    for (std::uint32_t i = 0; i < 64; ++i) {
        test::fill(local, i);
        const RemoteRun to = remote.run(i * 4096, 4096);
        auto push = world.b.io->push({&to, 1}, {&local, 1});
        ASSERT_TRUE(push);
        Message message(world.b);
        Io::append_to(message.posting.chain, **push);
        message.add();
        message.post();
        ASSERT_TRUE(world.until([&] { return message.completed; }));
        test::wipe(local);  // at once: it is ours again
    }
    world.settle();
    for (std::uint32_t i = 0; i < 64; ++i) {
        std::vector<std::byte> expected(4096);
        test::fill(expected, i);
        EXPECT_TRUE(test::same(remote.memory.subspan(i * 4096u, 4096), expected)) << i;
    }
}

}  // namespace
}  // namespace nfsrdma::pools
