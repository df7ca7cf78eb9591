#include "pools/io.hpp"

#include <array>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

using test::Done;
using test::Fenced;
using test::HostOptions;
using test::Message;
using test::World;

using Piece = std::span<std::byte>;

HostOptions granting() {
    HostOptions options;
    options.io.registration = Registration::fixed;
    return options;
}

TEST(Post, RoomToRoomNoProgressThenInOrder) {
    HostOptions options;
    options.qp.send_wrs = 4;
    World world(options);
    std::vector<std::unique_ptr<Message>> messages;
    for (int i = 0; i < 10; ++i) {
        messages.push_back(std::make_unique<Message>(world.a));
        messages.back()->add();
        messages.back()->post();
    }
    EXPECT_TRUE(messages[3]->posted);
    EXPECT_FALSE(messages[4]->posted);
    EXPECT_EQ(world.a.io->counters().waited_for_send_room, 6u);
    world.a.io->on_send_room();  // nothing came back: nothing moves
    EXPECT_FALSE(messages[4]->posted);
    EXPECT_FALSE(world.a.io->full());
    ASSERT_TRUE(world.until([&] { return messages.back()->completed; }));
    EXPECT_EQ(world.b.received, 10u);
    EXPECT_EQ(world.a.io->counters().doorbells, 10u);
    EXPECT_TRUE(world.a.io->full());
}

// A short posting that would fit does not overtake a long one that does not.
TEST(Post, NoPostingOvertakesOneThatWaits) {
    HostOptions options;
    options.qp.send_wrs = 4;
    World world(options);
    Message first(world.a), second(world.a), third(world.a);
    first.add();
    first.post();
    std::array<verbs::SendWr, 3> more;
    for (verbs::SendWr& wr : more) {
        wr.sgl = {&second.sge, 1};
        second.posting.chain.push_back(wr);
    }
    second.add();
    second.post();  // four, where three are free
    third.add();
    third.post();  // one, where three are free
    EXPECT_TRUE(first.posted);
    EXPECT_FALSE(second.posted);
    EXPECT_FALSE(third.posted);
    ASSERT_TRUE(world.until([&] { return third.completed; }));
    EXPECT_TRUE(second.completed);
    EXPECT_EQ(world.b.received, 6u);
}

TEST(Post, AChainLongerThanTheQueueFailsAtOnce) {
    HostOptions options;
    options.qp.send_wrs = 4;
    World world(options);
    Message message(world.a);
    std::array<verbs::SendWr, 4> more;
    for (verbs::SendWr& wr : more)
        message.posting.chain.push_back(wr);
    message.add();
    message.post();
    EXPECT_TRUE(message.posted);
    EXPECT_FALSE(message.accepted);
    EXPECT_EQ(message.post_error, Errc::too_big);
}

TEST(Post, WaitingOnesFailOnceWhenTheConnectionEnds) {
    HostOptions options;
    options.qp.send_wrs = 1;
    World world(options);
    Message first(world.a), second(world.a), third(world.a);
    for (Message* message : {&first, &second, &third}) {
        message->add();
        message->post();
    }
    EXPECT_FALSE(second.posted);
    world.a.qp->set_error();
    world.a.drain();  // the flushed completion of the first pumps the queue
    world.a.io->on_disconnect();
    EXPECT_EQ(first.status, verbs::WcStatus::flushed);
    EXPECT_FALSE(second.accepted);
    EXPECT_EQ(second.post_error, Errc::reconnect);
    EXPECT_EQ(third.post_error, Errc::reconnect);
    Message late(world.a);
    late.add();
    late.post();
    EXPECT_EQ(late.post_error, Errc::reconnect);
    EXPECT_TRUE(world.a.io->full());
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

TEST(ReadDepth, DepthToDepthNoProgressThenInOrder) {
    HostOptions options;
    options.io.read_depth = 2;
    options.io.transfers = 8;
    World world(granting(), options);
    const Remote remote(world, 8 * 4096);
    test::fill(remote.memory, 1);
    const Piece local = *world.b.arena->carve(8 * 4096);
    std::array<Pulled, 8> pulls;
    for (std::uint32_t i = 0; i < 8; ++i) {
        const RemoteRun from = remote.run(i * 4096, 4096);
        const Piece into = local.subspan(i * 4096u, 4096);
        auto pull = world.b.io->pull({&from, 1}, {&into, 1});
        ASSERT_TRUE(pull);
        pulls[i].transfer = std::move(*pull);
        pulls[i].transfer->user = static_cast<Done*>(&pulls[i]);
        pulls[i].transfer->done = &Done::on;
        world.b.io->post_pull(*pulls[i].transfer);
    }
    EXPECT_EQ(world.b.io->counters().doorbells, 2u);
    EXPECT_EQ(world.b.io->counters().waited_for_read_depth, 6u);
    // A SEND behind them waits its turn.
    Message message(world.b);
    message.add();
    message.post();
    EXPECT_FALSE(message.posted);
    for (std::uint32_t i = 0; i < 8; ++i) {
        ASSERT_TRUE(world.until([&] { return pulls[i].calls > 0; }));
        EXPECT_TRUE(pulls[i].ok);
        for (std::uint32_t k = i + 3; k < 8; ++k)
            EXPECT_EQ(pulls[k].calls, 0);
    }
    ASSERT_TRUE(world.until([&] { return message.completed; }));
    EXPECT_TRUE(test::same(local, remote.memory));
    for (Pulled& pulled : pulls)
        pulled.transfer.reset();
    EXPECT_TRUE(world.b.io->full());
}

TEST(ReadDepth, APullOfMoreReadsThanTheDepthGoesAlone) {
    HostOptions options;
    options.io.read_depth = 1;
    World world(granting(), options);
    const Remote remote(world, 8 * 4096);
    test::fill(remote.memory, 2);
    const Piece local = *world.b.arena->carve(8 * 4096);
    std::vector<RemoteRun> from;
    for (std::uint32_t i = 0; i < 8; ++i)
        from.push_back(remote.run(i * 4096, 4096));
    Pulled pulled;
    auto pull = world.b.io->pull(from, {&local, 1});
    ASSERT_TRUE(pull);
    pulled.transfer = std::move(*pull);
    pulled.transfer->user = static_cast<Done*>(&pulled);
    pulled.transfer->done = &Done::on;
    world.b.io->post_pull(*pulled.transfer);
    ASSERT_TRUE(world.until([&] { return pulled.calls > 0; }));
    EXPECT_TRUE(pulled.ok);
    EXPECT_TRUE(test::same(local, remote.memory));
}

TEST(ReadDepth, WaitingPullsFailOnceWhenTheConnectionEnds) {
    for (const LocalStrategy strategy : {LocalStrategy::scatter_gather, LocalStrategy::key}) {
        HostOptions options;
        options.io.read_depth = 1;
        options.io.local = strategy;
        World world(granting(), options);
        const Remote remote(world, 3 * 4096);
        const Piece local = *world.b.arena->carve(3 * 4096);
        std::array<Pulled, 3> pulls;
        for (std::uint32_t i = 0; i < 3; ++i) {
            const RemoteRun from = remote.run(i * 4096, 4096);
            const Piece into = local.subspan(i * 4096u, 4096);
            auto pull = world.b.io->pull({&from, 1}, {&into, 1});
            ASSERT_TRUE(pull);
            pulls[i].transfer = std::move(*pull);
            pulls[i].transfer->user = static_cast<Done*>(&pulls[i]);
            pulls[i].transfer->done = &Done::on;
            world.b.io->post_pull(*pulls[i].transfer);
        }
        world.b.end_connection();
        for (Pulled& pulled : pulls) {
            EXPECT_EQ(pulled.calls, 1);
            EXPECT_FALSE(pulled.ok);
            pulled.transfer.reset();
        }
        EXPECT_TRUE(world.b.io->full());
        world.a.end_connection();
        ASSERT_TRUE(world.b.io->renew());
    }
}

// Several calls at once, each exposed, pulled by the peer, answered (every second by SEND_WITH_INV)
// and fenced.
class ManyCalls {
  public:
    static constexpr std::uint32_t kCalls = 6;
    static constexpr std::uint32_t kSize = 20000, kStride = 6 * kPageSize;

    explicit ManyCalls(World& world)
        : world_(world),
          memory_(*world.a.arena->carve(std::size_t{kCalls} * kStride)),
          sink_(*world.b.arena->carve(std::size_t{kCalls} * kStride)) {}

    void expose(Prng& prng) {
        for (std::uint32_t i = 0; i < kCalls; ++i) {
            Call& call = calls_[i];
            call = {};
            call.run = memory_.subspan(std::size_t{i} * kStride + prng.below(kPageSize), kSize);
            test::fill(call.run, prng.next());
            call.message = std::make_unique<Message>(world_.a);
            auto exposure = world_.a.io->expose_read({&call.run, 1}, call.message->add());
            ASSERT_TRUE(exposure);
            call.exposure = std::move(*exposure);
            call.message->post();
        }
    }
    void pull() {
        for (std::uint32_t i = 0; i < kCalls; ++i) {
            Call& call = calls_[i];
            ASSERT_TRUE(world_.until([&] { return call.message->completed; }));
            call.sink = sink_.subspan(std::size_t{i} * kStride, kSize);
            auto pull = world_.b.io->pull(call.exposure->runs(), {&call.sink, 1});
            ASSERT_TRUE(pull);
            call.transfer = std::move(*pull);
            call.transfer->user = &call.pulled;
            call.transfer->done = &Done::on;
            world_.b.io->post_pull(*call.transfer);
        }
        for (Call& call : calls_) {
            ASSERT_TRUE(world_.until([&] { return call.pulled.calls > 0; }));
            ASSERT_TRUE(call.pulled.ok);
            EXPECT_TRUE(test::same(call.run, call.sink));
            call.transfer.reset();
        }
    }
    void reply() {
        const std::uint32_t before = world_.a.received;
        std::vector<std::unique_ptr<Message>> replies;
        for (std::uint32_t i = 0; i < kCalls; ++i) {
            replies.push_back(std::make_unique<Message>(world_.b));
            if (i % 2 == 0) {
                replies.back()->wr.op = verbs::SendOp::send_with_inv;
                replies.back()->wr.rkey = verbs::Rkey{calls_[i].exposure->runs()[0].handle};
            }
            replies.back()->add();
            replies.back()->post();
        }
        ASSERT_TRUE(world_.until([&] { return world_.a.received == before + kCalls; }));
        ASSERT_TRUE(world_.until([&] { return replies.back()->completed; }));
    }
    void fence() {
        for (Call& call : calls_) {
            call.exposure->user = &call.fenced;
            world_.a.io->fence(*call.exposure, &Fenced::on);
        }
        for (Call& call : calls_) {
            ASSERT_TRUE(world_.until([&] { return call.fenced.calls > 0; }));
            EXPECT_TRUE(call.fenced.ok);
            call.exposure.reset();
        }
    }

  private:
    struct Call {
        Lease<Exposure> exposure;
        Lease<Transfer> transfer;
        std::unique_ptr<Message> message;
        Piece run, sink;
        Fenced fenced;
        Done pulled;
    };
    World& world_;
    Piece memory_, sink_;
    std::array<Call, kCalls> calls_;
};

// Over a bad net every key dies, everything comes home, the bytes are right.
TEST(Io, ManyCallsInFlightComeHome) {
    HostOptions client, server;
    client.io.keys = 12;
    client.qp.send_wrs = 20;
    server.io.transfers = 6;
    server.io.read_depth = 3;
    server.qp.send_wrs = 12;
    World world(client, server, {.loss_ppm = 10000, .dup_ppm = 10000, .reorder_ppm = 10000});
    ManyCalls calls(world);
    Prng prng(5);
    for (int round = 0; round < 20; ++round) {
        calls.expose(prng);
        calls.pull();
        calls.reply();
        calls.fence();
        ASSERT_FALSE(testing::Test::HasFailure());
        EXPECT_TRUE(world.a.io->full());
        EXPECT_TRUE(world.b.io->full());
    }
    EXPECT_EQ(world.a.io->counters().binds, 120u);
    EXPECT_EQ(world.a.io->counters().remote_invalidations, 60u);
    EXPECT_EQ(world.a.io->counters().local_invalidations, 60u);
    EXPECT_GT(world.net.counters().lost, 0u);
}

TEST(B26, EndAtAnyMomentBringsEverythingHome) {
    for (std::uint64_t steps = 0; steps < 60; ++steps) {
        HostOptions options;
        options.io.local = steps % 2 == 0 ? LocalStrategy::key : LocalStrategy::automatic;
        World world(options, options);
        const Piece run = *world.a.arena->carve(30000);
        const Piece sink = *world.b.arena->carve(30000);
        Message call(world.a);
        auto exposure = world.a.io->expose_read({&run, 1}, call.add());
        ASSERT_TRUE(exposure);
        call.post();
        Pulled pulled;
        auto pull = world.b.io->pull((*exposure)->runs(), {&sink, 1});
        ASSERT_TRUE(pull);
        pulled.transfer = std::move(*pull);
        pulled.transfer->user = static_cast<Done*>(&pulled);
        pulled.transfer->done = &Done::on;
        for (std::uint64_t i = 0; i < steps; ++i) {
            (void)world.loop->run_once(kNsPerUs);
            if (i == 3) world.b.io->post_pull(*pulled.transfer);
        }
        Fenced fenced;
        (*exposure)->user = &fenced;
        if (steps % 3 == 0) world.a.io->fence(**exposure, &Fenced::on);
        world.a.end_connection();
        world.b.end_connection();
        EXPECT_EQ(fenced.calls, steps % 3 == 0 ? 1 : 0);
        EXPECT_EQ(pulled.calls, steps > 3 ? 1 : 0);
        exposure->reset();
        pulled.transfer.reset();
        EXPECT_TRUE(world.a.io->full());
        EXPECT_TRUE(world.b.io->full());
        EXPECT_TRUE(world.a.io->renew());
        EXPECT_TRUE(world.b.io->renew());
    }
}

}  // namespace
}  // namespace nfsrdma::pools
