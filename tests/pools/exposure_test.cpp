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

// Moves what `a` exposed with `b`'s pull or push; true when every access was allowed.
class Peer {
  public:
    explicit Peer(World& world) : world_(world), memory_(*world.b.arena->carve(2 << 20)) {}

    bool reads(std::span<const RemoteRun> runs, std::span<const std::byte> expected) {
        const Piece sink = memory_.first(expected.size());
        test::wipe(sink);
        auto pull = world_.b.io->pull(runs, {&sink, 1});
        if (!pull) return false;
        Done done;
        (*pull)->user = &done;
        (*pull)->done = &Done::on;
        world_.b.io->post_pull(**pull);
        EXPECT_TRUE(world_.until([&] { return done.calls > 0; }));
        EXPECT_EQ(done.calls, 1);
        return done.ok && test::same(sink, expected);
    }
    bool writes(std::span<const RemoteRun> runs, std::uint32_t size, std::uint64_t seed) {
        const Piece source = memory_.first(size);
        test::fill(source, seed);
        auto push = world_.b.io->push(runs, {&source, 1});
        if (!push) return false;
        Message message(world_.b);
        Io::append_to(message.posting.chain, **push);
        message.add();
        message.post();
        EXPECT_TRUE(world_.until([&] { return message.completed; }));
        return message.status == verbs::WcStatus::success;
    }
    Piece memory() const { return memory_; }

  private:
    World& world_;
    Piece memory_;
};

// SEND_WITH_INV or a plain SEND from `b` to `a`.
void peer_replies(World& world, std::uint32_t invalidate) {
    Message reply(world.b);
    const std::uint32_t before = world.a.received;
    if (invalidate != 0) {
        reply.wr.op = verbs::SendOp::send_with_inv;
        reply.wr.rkey = verbs::Rkey{invalidate};
    }
    reply.add();
    reply.post();
    EXPECT_TRUE(world.until([&] { return reply.completed && world.a.received > before; }));
}

TEST(Expose, RegMrStandsInFrontAndTheFirstOwnRequestIsFenced) {
    World world;
    const Piece memory = (*world.a.arena->carve(10000)).subspan(511, 5000);
    verbs::SendWr first, second;
    verbs::WrChain chain;
    chain.push_back(first);
    chain.push_back(second);
    EXPECT_EQ(world.a.io->expose_slots({&memory, 1}), 1u);
    auto read = world.a.io->expose_read({&memory, 1}, chain);
    auto write = world.a.io->expose_write({&memory, 1}, chain);
    ASSERT_TRUE(read && write);
    ASSERT_EQ(chain.size(), 4u);
    EXPECT_EQ(chain.first()->op, verbs::SendOp::reg_mr);
    EXPECT_EQ(chain.first()->next->op, verbs::SendOp::reg_mr);
    EXPECT_FALSE(chain.first()->next->fenced);
    EXPECT_EQ(chain.first()->next->next, &first);
    EXPECT_TRUE(first.fenced);
    EXPECT_FALSE(second.fenced);
    ASSERT_EQ((*read)->runs().size(), 1u);
    EXPECT_EQ((*read)->runs()[0].length, 5000u);
    EXPECT_NE((*read)->runs()[0].handle, (*write)->runs()[0].handle);
    world.a.io->unexpose(std::move(*read));
    world.a.io->unexpose(std::move(*write));
    EXPECT_TRUE(world.a.io->full());
}

TEST(B20, EveryOffsetAndPageCountIsReadExactly) {
    World world;
    Peer peer(world);
    const Piece memory = *world.a.arena->carve(6 * kPageSize);
    test::fill(memory, 20);
    for (const std::uint32_t offset : {0u, 1u, 511u, 4095u}) {
        for (std::uint32_t pages = 1; pages <= 5; ++pages) {
            const std::uint32_t longest = pages * kPageSize - offset;
            for (const std::uint32_t length : {longest, std::max(longest, 2u) - 1, 1u}) {
                const Piece run = memory.subspan(offset, length);
                Message call(world.a);
                auto exposure = world.a.io->expose_read({&run, 1}, call.add());
                ASSERT_TRUE(exposure);
                call.post();
                ASSERT_TRUE(world.until([&] { return call.completed; }));
                ASSERT_TRUE(peer.reads((*exposure)->runs(), run)) << offset << " " << length;
                peer_replies(world, (*exposure)->runs()[0].handle);
                ASSERT_TRUE((*exposure)->dead());
            }
        }
    }
    EXPECT_EQ(world.a.io->counters().binds, world.a.io->counters().remote_invalidations);
    EXPECT_EQ(world.a.io->counters().local_invalidations, 0u);
    EXPECT_TRUE(world.a.io->full());
}

TEST(B20, WritesLandWithinTheExposureOnly) {
    World world;
    Peer peer(world);
    const Piece memory = *world.a.arena->carve(6 * kPageSize);
    for (const std::uint32_t offset : {0u, 1u, 511u, 4095u}) {
        for (const std::uint32_t length : {1u, 4096u, 4097u, 12289u}) {
            test::wipe(memory);
            const Piece run = memory.subspan(offset, length);
            Message call(world.a);
            auto exposure = world.a.io->expose_write({&run, 1}, call.add());
            ASSERT_TRUE(exposure);
            call.post();
            ASSERT_TRUE(world.until([&] { return call.completed; }));
            ASSERT_TRUE(peer.writes((*exposure)->runs(), length, offset + length));
            EXPECT_TRUE(test::same(run, peer.memory().first(length)));
            EXPECT_TRUE(test::wiped(memory.first(offset)));
            EXPECT_TRUE(test::wiped(memory.subspan(offset + length)));
            peer_replies(world, (*exposure)->runs()[0].handle);
        }
    }
}

TEST(Expose, OneByteBeyondIsRefusedByTheDevice) {
    World world;
    const Piece memory = *world.a.arena->carve(2 * kPageSize);
    const Piece run = memory.first(5000);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    const RemoteRun known = (*exposure)->runs()[0];
    Peer peer(world);
    const RemoteRun longer{known.handle, known.length + 1, known.offset};
    EXPECT_FALSE(peer.reads({&longer, 1}, memory.first(5001)));
    world.settle();
    world.a.end_connection();
    EXPECT_TRUE((*exposure)->dead());
}

TEST(Expose, AReadKeyCannotBeWrittenThrough) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    test::wipe(run);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    Peer peer(world);
    EXPECT_FALSE(peer.writes((*exposure)->runs(), 100, 1));
    world.settle();
    EXPECT_TRUE(test::wiped(run));
    world.a.end_connection();
}

TEST(Expose, AWriteKeyCannotBeReadThrough) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    Message call(world.a);
    auto exposure = world.a.io->expose_write({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    Peer peer(world);
    EXPECT_FALSE(peer.reads((*exposure)->runs(), run));
    world.settle();
    world.a.end_connection();
}

TEST(Fence, LocalInvWhenThePeerLeftTheKey) {
    World world;
    const Piece run = *world.a.arena->carve(5000);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    const RemoteRun old = (*exposure)->runs()[0];
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    peer_replies(world, 0);
    Fenced fenced;
    (*exposure)->user = &fenced;
    world.a.io->fence(**exposure, &Fenced::on);
    EXPECT_EQ(fenced.calls, 0);
    EXPECT_FALSE((*exposure)->dead());
    ASSERT_TRUE(world.until([&] { return fenced.calls > 0; }));
    EXPECT_TRUE(fenced.ok);
    EXPECT_TRUE((*exposure)->dead());
    exposure->reset();
    EXPECT_EQ(world.a.io->counters().local_invalidations, 1u);
    EXPECT_TRUE(world.a.io->full());
    // The old advertisement opens nothing.
    Peer peer(world);
    EXPECT_FALSE(peer.reads({&old, 1}, run));
    world.settle();
    EXPECT_EQ(fenced.calls, 1);
}

TEST(Fence, NothingToDoRunsAtOnceAndPostsNothing) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    peer_replies(world, (*exposure)->runs()[0].handle);
    ASSERT_EQ(world.a.invalidated.size(), 1u);
    EXPECT_EQ(world.a.invalidated[0], exposure->get());
    const std::uint64_t doorbells = world.a.io->counters().doorbells;
    Fenced fenced;
    (*exposure)->user = &fenced;
    world.a.io->fence(**exposure, &Fenced::on);
    EXPECT_EQ(fenced.calls, 1);
    EXPECT_TRUE(fenced.ok);
    EXPECT_EQ(world.a.io->counters().doorbells, doorbells);
}

TEST(Fence, EndOfConnectionMakesKeysStaleAndTellsOnce) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    Fenced fenced;
    (*exposure)->user = &fenced;
    world.a.io->fence(**exposure, &Fenced::on);
    world.a.end_connection();
    EXPECT_EQ(fenced.calls, 1);
    EXPECT_FALSE(fenced.ok);
    EXPECT_TRUE((*exposure)->dead());
    exposure->reset();
    EXPECT_TRUE(world.a.io->full());
}

TEST(Fence, AfterTheEndOfTheConnectionSaysNotOk) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    world.a.end_connection();
    Fenced fenced;
    (*exposure)->user = &fenced;
    world.a.io->fence(**exposure, &Fenced::on);
    EXPECT_EQ(fenced.calls, 1);
    EXPECT_FALSE(fenced.ok);
}

TEST(Reconnect, StaleKeysAreReplacedAndAllIsAsBefore) {
    HostOptions options;
    options.io.keys = 2;
    World world(options);
    const Piece run = *world.a.arena->carve(5000);
    test::fill(run, 3);
    RemoteRun old;
    {
        Message first(world.a), second(world.a);
        auto one = world.a.io->expose_read({&run, 1}, first.add());
        auto two = world.a.io->expose_read({&run, 1}, second.add());
        ASSERT_TRUE(one && two);
        old = (*one)->runs()[0];
        first.post();
        second.post();
        ASSERT_TRUE(world.until([&] { return second.completed; }));
        world.a.end_connection();
        auto early = world.a.io->renew();  // the exposures are still held
        ASSERT_FALSE(early);
        EXPECT_EQ(early.error().code, Errc::again);
    }
    world.b.end_connection();
    ASSERT_TRUE(world.a.io->renew());
    world.a.make_qp();
    world.b.make_qp();
    world.connect();
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    Peer peer(world);
    EXPECT_TRUE(peer.reads((*exposure)->runs(), run));
    peer_replies(world, (*exposure)->runs()[0].handle);
    EXPECT_TRUE((*exposure)->dead());
    EXPECT_FALSE(peer.reads({&old, 1}, run));
    world.settle();
}

TEST(RemoteInvalidate, UnknownAndFreeKeysAreCountedAndChangeNothing) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    const verbs::Rkey key{(*exposure)->runs()[0].handle};
    EXPECT_EQ(world.a.io->on_remote_invalidate(verbs::Rkey{0x12345678}), nullptr);
    EXPECT_EQ(world.a.io->on_remote_invalidate(verbs::Rkey{static_cast<std::uint32_t>(key) ^ 1}),
              nullptr);
    EXPECT_FALSE((*exposure)->dead());
    EXPECT_EQ(world.a.io->on_remote_invalidate(key), exposure->get());
    EXPECT_TRUE((*exposure)->dead());
    EXPECT_EQ(world.a.io->on_remote_invalidate(key), nullptr);
    EXPECT_EQ(world.a.io->counters().bad_remote_invalidations, 3u);
    EXPECT_EQ(world.a.io->counters().remote_invalidations, 1u);
}

TEST(B55, OneKeyOfAnyLengthUpToTheProvision) {
    HostOptions options;
    options.io.pages_per_key = 257;
    World world(options);
    Peer peer(world);
    const Piece memory = *world.a.arena->carve(258 * kPageSize);
    test::fill(memory, 55);
    for (const std::uint32_t length : {1u << 20, (1u << 20) - 3, (1u << 20) + 1}) {
        const Piece run = memory.subspan(4095, length);
        Message call(world.a);
        auto exposure = world.a.io->expose_read({&run, 1}, call.add());
        ASSERT_TRUE(exposure) << length;
        ASSERT_EQ((*exposure)->runs().size(), 1u);
        call.post();
        ASSERT_TRUE(world.until([&] { return call.completed; }));
        EXPECT_TRUE(peer.reads((*exposure)->runs(), run));
        peer_replies(world, (*exposure)->runs()[0].handle);
    }
    verbs::WrChain chain;
    const Piece beyond = memory.subspan(4095, (1u << 20) + 2);  // 258 pages
    auto refused = world.a.io->expose_read({&beyond, 1}, chain);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Errc::too_big);
    EXPECT_TRUE(chain.empty());
    EXPECT_TRUE(world.a.io->full());
}

// Runs that lie apart, seen by the peer as one.
TEST(Expose, SeveralRunsUnderOneKeyWhereTheDeviceTakesPageLists) {
    World world;
    Peer peer(world);
    const Piece memory = *world.a.arena->carve(8 * kPageSize);
    test::fill(memory, 9);
    const std::array<Piece, 3> runs{memory.subspan(100, kPageSize - 100),
                                    memory.subspan(5 * kPageSize, kPageSize),
                                    memory.subspan(3 * kPageSize, 1000)};
    std::vector<std::byte> joined;
    for (const Piece run : runs)
        joined.insert(joined.end(), run.begin(), run.end());
    Message call(world.a);
    auto exposure = world.a.io->expose_read(runs, call.add());
    ASSERT_TRUE(exposure);
    ASSERT_EQ((*exposure)->runs().size(), 1u);
    EXPECT_EQ((*exposure)->runs()[0].length, joined.size());
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    EXPECT_TRUE(peer.reads((*exposure)->runs(), joined));
    peer_replies(world, (*exposure)->runs()[0].handle);
}

void windows_only(verbs::DeviceCaps& caps) {
    caps.page_list_reg = false;
}

TEST(Expose, UnexposedKeysAreTakenBackFromTheDevice) {
    World world;
    const Piece memory = *world.a.arena->carve(kPageSize);
    Message call(world.a);
    auto exposure = world.a.io->expose_read({&memory, 1}, call.add());
    ASSERT_TRUE(exposure);
    world.a.io->unexpose(std::move(*exposure));
    call.posting.chain.first()->cqe = &call;  // its REG_MR, which belongs to the key
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    EXPECT_NE(call.status, verbs::WcStatus::success);
}

TEST(Expose, AKeyARunWhereTheDeviceBindsRunsOnly) {
    HostOptions options;
    options.edit_caps = &windows_only;
    World world(options);
    Peer peer(world);
    const Piece memory = *world.a.arena->carve(8 * kPageSize);
    test::fill(memory, 9);
    const std::array<Piece, 3> runs{memory.subspan(100, kPageSize - 100),
                                    memory.subspan(5 * kPageSize, kPageSize),
                                    memory.subspan(3 * kPageSize, 1000)};
    std::vector<std::byte> joined;
    for (const Piece run : runs)
        joined.insert(joined.end(), run.begin(), run.end());
    EXPECT_EQ(world.a.io->expose_slots(runs), 3u);
    Message call(world.a);
    auto exposure = world.a.io->expose_read(runs, call.add());
    ASSERT_TRUE(exposure);
    ASSERT_EQ((*exposure)->runs().size(), 3u);
    EXPECT_EQ(call.posting.chain.size(), 4u);
    call.post();
    ASSERT_TRUE(world.until([&] { return call.completed; }));
    EXPECT_TRUE(peer.reads((*exposure)->runs(), joined));
    // The peer can invalidate one of them; the other two are fenced in one chain.
    peer_replies(world, (*exposure)->runs()[1].handle);
    EXPECT_FALSE((*exposure)->dead());
    Fenced fenced;
    (*exposure)->user = &fenced;
    const std::uint64_t doorbells = world.a.io->counters().doorbells;
    world.a.io->fence(**exposure, &Fenced::on);
    ASSERT_TRUE(world.until([&] { return fenced.calls > 0; }));
    EXPECT_TRUE(fenced.ok);
    EXPECT_EQ(world.a.io->counters().local_invalidations, 2u);
    EXPECT_EQ(world.a.io->counters().doorbells, doorbells + 1);
}

TEST(Expose, WhatCannotBeExposedIsRefusedAndNothingIsTaken) {
    World world;
    const Piece memory = *world.a.arena->carve(4 * kPageSize);
    verbs::WrChain chain;
    const std::array<Piece, 2> inside{memory.first(100), memory.subspan(kPageSize, 100)};
    const std::array<Piece, 2> unaligned{memory.first(kPageSize),
                                         memory.subspan(kPageSize + 4, 100)};
    const Piece empty = memory.first(0);
    for (const Runs runs : {Runs(inside), Runs(unaligned), Runs(&empty, 1), Runs()}) {
        auto refused = world.a.io->expose_read(runs, chain);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    }
    EXPECT_TRUE(chain.empty());
    EXPECT_TRUE(world.a.io->full());
}

TEST(Expose, KeysToKeysNoProgress) {
    HostOptions options;
    options.io.keys = 2;
    World world(options);
    const Piece run = *world.a.arena->carve(100);
    int woken = 0;
    world.a.io->on_room([](void* arg) noexcept { ++*static_cast<int*>(arg); }, &woken);
    verbs::SendWr wr;
    verbs::WrChain chain;
    chain.push_back(wr);
    auto one = world.a.io->expose_read({&run, 1}, chain);
    auto two = world.a.io->expose_read({&run, 1}, chain);
    ASSERT_TRUE(one && two);
    for (int i = 0; i < 3; ++i) {
        auto none = world.a.io->expose_read({&run, 1}, chain);
        ASSERT_FALSE(none);
        EXPECT_EQ(none.error().code, Errc::again);
    }
    EXPECT_EQ(chain.size(), 3u);
    EXPECT_EQ(world.a.io->counters().waited_for_keys, 3u);
    EXPECT_EQ(woken, 0);
    world.a.io->unexpose(std::move(*one));
    EXPECT_EQ(woken, 1);
    world.a.io->unexpose(std::move(*two));
    EXPECT_EQ(woken, 1);  // nobody was refused since
    world.a.io->on_room(nullptr, nullptr);
}

TEST(Static, KeysAreTheArenasAndCostNothing) {
    HostOptions options;
    options.io.registration = Registration::fixed;
    World world(options);
    EXPECT_FALSE(world.a.io->remote_invalidate());
    Peer peer(world);
    const Piece run = (*world.a.arena->carve(10000)).subspan(7, 9000);
    test::fill(run, 5);
    Message call(world.a);
    EXPECT_EQ(world.a.io->expose_slots({&run, 1}), 0u);
    auto exposure = world.a.io->expose_read({&run, 1}, call.add());
    ASSERT_TRUE(exposure);
    EXPECT_EQ(call.posting.chain.size(), 1u);
    EXPECT_FALSE(call.wr.fenced);
    EXPECT_TRUE((*exposure)->dead());
    call.post();
    EXPECT_TRUE(peer.reads((*exposure)->runs(), run));
    Fenced fenced;
    (*exposure)->user = &fenced;
    world.a.io->fence(**exposure, &Fenced::on);
    EXPECT_EQ(fenced.calls, 1);
    EXPECT_TRUE(fenced.ok);
    EXPECT_EQ(world.a.io->counters().binds, 0u);
}

void no_fast_reg(verbs::DeviceCaps& caps) {
    caps.fast_reg = caps.page_list_reg = caps.remote_invalidate = false;
}

TEST(B127, ADeviceWithoutFastRegistrationSaysSo) {
    HostOptions options;
    options.edit_caps = &no_fast_reg;
    World world(options);  // registration automatic: usable for what needs no key
    EXPECT_FALSE(world.a.io->remote_invalidate());
    const Piece run = *world.a.arena->carve(100);
    verbs::WrChain chain;
    auto exposure = world.a.io->expose_read({&run, 1}, chain);
    ASSERT_FALSE(exposure);
    EXPECT_EQ(exposure.error().code, Errc::unsupported);
    IoOptions bind = options.io;
    bind.registration = Registration::bind;
    auto io = Io::create(*world.a.pd, *world.a.arena, bind);
    ASSERT_FALSE(io);
    EXPECT_EQ(io.error().code, Errc::unsupported);
    EXPECT_NE(std::string(io.error().what).find("--registration"), std::string::npos);
    bind.registration = Registration::fixed;  // on an arena that was registered for binding
    EXPECT_FALSE(Io::create(*world.a.pd, *world.a.arena, bind));
}

TEST(ExposureDeathTest, HomeWithALiveKeyAsserts) {
    World world;
    const Piece run = *world.a.arena->carve(100);
    verbs::WrChain chain;
    auto exposure = world.a.io->expose_read({&run, 1}, chain);
    ASSERT_TRUE(exposure);
    EXPECT_DEATH(exposure->reset(), "dead");
    EXPECT_DEATH(world.a.io.reset(), "full");
    world.a.io->unexpose(std::move(*exposure));
}

}  // namespace
}  // namespace nfsrdma::pools
