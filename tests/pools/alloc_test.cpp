#include <array>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "pools/io.hpp"
#include "tests/pools/io_world.hpp"
#include "tests/support/alloc_counter.hpp"

namespace nfsrdma::pools {
namespace {

using test::HostOptions;
using test::Message;
using test::World;

using Piece = std::span<std::byte>;

// Formed, posted and given back many times: after create() nothing is allocated.
TEST(Allocations, NoneAfterCreate) {
    if (!nfsrdma::test::kAllocCounterWorks) GTEST_SKIP() << "needs a build without sanitizers";
    for (const LocalStrategy local : {LocalStrategy::scatter_gather, LocalStrategy::key}) {
        HostOptions options;
        options.io.local = local;
        World world(options);
        Io& io = *world.a.io;
        const Piece memory = (*world.a.arena->carve(1 << 20)).subspan(100, 900000);
        const std::array<RemoteRun, 3> remote{RemoteRun{1, 300000, 0}, RemoteRun{1, 300000, 0},
                                              RemoteRun{1, 300000, 0}};
        auto pages = PageListPool::create(*world.a.arena,
                                          std::array<PageListPool::ClassSpec, 1>{{{8192, 2}}});
        auto buffers = BufferPool::create(*world.a.arena, 2, 1024);
        ASSERT_TRUE(pages && buffers);
        const nfsrdma::test::AllocCounter before;
        for (int i = 0; i < 1000; ++i) {
            verbs::SendWr wr;
            verbs::WrChain chain;
            chain.push_back(wr);
            auto exposure = io.expose_write({&memory, 1}, chain);
            auto pull = io.pull(remote, {&memory, 1});
            auto push = io.push(remote, {&memory, 1});
            auto list = (*pages)->get(4096);
            auto buffer = (*buffers)->get();
            ASSERT_TRUE(exposure && pull && push && list && buffer);
            Io::append_to(chain, **push);
            io.unexpose(std::move(*exposure));
        }
        EXPECT_EQ(before.count(), 0u);
        EXPECT_GT(io.counters().binds, 999u);
    }
}

// The same with the device in the loop: bind, expose, invalidate by the peer, all posted; every
// second time memory of the user's own.
TEST(Allocations, NoneInSteadyStateWithTheDevice) {
    World world;
    const Piece memory = *world.a.arena->carve(1 << 18);
    std::vector<std::byte> registered(1 << 18);
    ASSERT_TRUE(world.a.io->register_memory(registered));
    const Piece own(registered);
    const Piece sink = *world.b.arena->carve(1 << 18);
    Message call(world.a), reply(world.b);
    reply.wr.op = verbs::SendOp::send_with_inv;
    struct Pull {
        bool done = false;
    } state;
    world.a.invalidated.reserve(1000);
    world.a.invalidated_keys.reserve(1000);
    std::optional<nfsrdma::test::AllocCounter> before;
    for (int i = 0; i < 60; ++i) {
        if (i == 30) before.emplace();
        call.completed = reply.completed = state.done = false;
        call.posting.chain = reply.posting.chain = {};
        auto exposure = world.a.io->expose_read({i % 2 == 0 ? &memory : &own, 1}, call.add());
        ASSERT_TRUE(exposure);
        call.post();
        ASSERT_TRUE(world.until([&] { return call.completed; }));
        auto pull = world.b.io->pull((*exposure)->runs(), {&sink, 1});
        ASSERT_TRUE(pull);
        (*pull)->user = &state;
        (*pull)->done = [](Transfer& transfer, bool) noexcept {
            static_cast<Pull*>(transfer.user)->done = true;
        };
        world.b.io->post_pull(**pull);
        ASSERT_TRUE(world.until([&] { return state.done; }));
        reply.wr.rkey = verbs::Rkey{(*exposure)->runs()[0].handle};
        reply.add();
        reply.post();
        const std::uint32_t received = world.a.received;
        ASSERT_TRUE(world.until([&] { return reply.completed && world.a.received > received; }));
        ASSERT_TRUE((*exposure)->dead());
    }
    EXPECT_EQ(before->count(), 0u);
}

}  // namespace
}  // namespace nfsrdma::pools
