#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "base/bytes.hpp"
#include "svcrdma/listener.hpp"
#include "tests/support/alloc_counter.hpp"
#include "tests/support/loop_world.hpp"
#include "xprtrdma/transport.hpp"

// A client that recovers, against the real server transport, which goes and comes.
namespace nfsrdma::test {
namespace {

constexpr std::uint32_t kChains = 6, kRoom = 64u << 10;

std::byte pattern_of(std::uint32_t xid, std::size_t at) noexcept {
    return static_cast<std::byte>(xid * 31 + at * 7);
}

// Answers with a payload that follows from the XID. Touches no heap.
class PatternService final : public sunrpc::Service {
  public:
    std::uint32_t scratch_bytes() const noexcept override { return 0; }
    void dispatch(sunrpc::SvcRqst& rqst) noexcept override {
        ++calls;
        auto memory = rqst.xprt->get_result_payload(rqst, rqst.result_room);
        if (!memory) return rqst.xprt->drop(rqst);
        for (std::size_t at = 0; at < memory->size(); ++at)
            (*memory)[at] = pattern_of(rqst.xid, at);
        store_be32(rqst.res_room.data(), rqst.xid);
        store_be32(&rqst.res_room[4], 1);
        rqst.res = {rqst.res_room.first(8), *memory, {}};
        rqst.result_is_ddp = true;
        rqst.xprt->reply(rqst);
    }
    void wake(sunrpc::SvcRqst&) noexcept override {}
    std::uint64_t calls = 0;
};

// One call after the other, each sent from the completion of the last, or when there is a slot.
struct Chain {
    xprtrdma::Transport* xprt = nullptr;
    sunrpc::Payload memory;
    std::uint32_t next_xid = 0, done = 0, failed = 0, wrong = 0, resent = 0;
    bool stop = false, waits = false;

    void next() noexcept {
        waits = false;
        if (stop) return;
        auto rqst = xprt->get_rqst(64);
        if (!rqst && rqst.error().code == Errc::again) {
            waits = true;
            return;
        }
        if (!rqst) return static_cast<void>(++failed);
        sunrpc::Rqst& r = **rqst;
        r.xid = next_xid++;
        std::fill_n(r.head_room.begin(), 64, std::byte{0});
        store_be32(r.head_room.data(), r.xid);
        r.call.head = r.head_room.first(40);
        r.result_room = memory.memory();
        std::fill(r.result_room.begin(), r.result_room.end(), std::byte{0});
        r.reply_max = 64;
        r.user = this;
        r.complete = [](sunrpc::Rqst& q, Result<void> how) noexcept {
            static_cast<Chain*>(q.user)->on_complete(q, how);
        };
        if (!xprt->send(r)) ++failed;
    }
    void on_complete(sunrpc::Rqst& q, const Result<void>& how) noexcept {
        ++done;
        resent += q.resends;
        if (!how) ++failed;
        bool right = q.reply.payload.size() == kRoom;
        for (std::size_t at = 0; right && at < kRoom; ++at)
            right = q.reply.payload[at] == pattern_of(q.xid, at);
        if (!right) ++wrong;
        xprt->put_rqst(q);
        next();
    }
};

class Reconnect : public testing::Test {
  protected:
    Reconnect() {
        serve();
        xprtrdma::TransportOptions options;
        options.demand.credits = 8;
        options.recovery.on = true;
        options.recovery.seed = 5;
        auto made = xprtrdma::Transport::create(
            *world_.client, LoopWorld::server_address(), options,
            [](void* arg, Result<void> how) noexcept { *static_cast<int*>(arg) = how ? 1 : -1; },
            &outcome_);
        xprt_ = *std::move(made);
        EXPECT_TRUE(world_.run_until([&] { return outcome_ == 1; }));
    }
    ~Reconnect() override {
        for (Chain& chain : chains_)
            chain.stop = true;
        xprt_->close();
        for (Chain& chain : chains_)
            chain.memory.reset();
        EXPECT_TRUE(world_.run_until([&] { return xprt_->idle(); }));
        xprt_.reset();
        end_server();
    }
    void serve() {
        svcrdma::ServerOptions options;
        options.demand.credits = 8;
        options.demand.max_payload = 1 << 20;
        listener_ = *svcrdma::Listener::create(*world_.server, LoopWorld::server_address(),
                                               service_, options);
    }
    void end_server() {
        if (listener_ == nullptr) return;
        listener_->shut_down(0);
        EXPECT_TRUE(world_.run_until([&] { return listener_->idle(); }));
        listener_.reset();
    }
    void load() {
        xprt_->on_slot(
            [](void* arg) noexcept {
                for (Chain& chain : static_cast<Reconnect*>(arg)->chains_) {
                    if (chain.waits) chain.next();
                }
            },
            this);
        for (std::uint32_t i = 0; i < kChains; ++i) {
            chains_[i].xprt = xprt_.get();
            chains_[i].memory = *xprt_->get_payload(kRoom);
            chains_[i].next_xid = (i + 1) << 20;
            chains_[i].next();
        }
    }
    std::uint32_t done() const {
        std::uint32_t all = 0;
        for (const Chain& chain : chains_)
            all += chain.done;
        return all;
    }
    bool run_calls(std::uint32_t count) {
        const std::uint32_t until = done() + count;
        return world_.run_until([&] { return done() >= until; });
    }
    // Itself without an allocation.
    bool run_calls_quietly(std::uint32_t count) {
        quiet_until_ = done() + count;
        return world_.loop->run_until(
            [](void* arg) {
                const auto& self = *static_cast<Reconnect*>(arg);
                return self.done() >= self.quiet_until_;
            },
            this, 10 * kNsPerSec);
    }
    void expect_all_right() const {
        for (const Chain& chain : chains_) {
            EXPECT_EQ(chain.failed, 0u);
            EXPECT_EQ(chain.wrong, 0u);
        }
    }

    LoopWorld world_;
    PatternService service_;
    std::unique_ptr<svcrdma::Listener> listener_;
    std::unique_ptr<xprtrdma::Transport> xprt_;
    std::array<Chain, kChains> chains_;
    int outcome_ = 0;
    std::uint32_t quiet_until_ = 0;
};

TEST_F(Reconnect, ServerGoesAndComesUnderLoadAndEveryByteIsRight) {
    load();
    Prng prng(3);
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(run_calls(30 + static_cast<std::uint32_t>(prng.below(20))));
        end_server();
        world_.run_for(prng.below(2 * kNsPerSec));
        serve();
    }
    ASSERT_TRUE(run_calls(50));
    expect_all_right();
    EXPECT_GE(xprt_->counters().reconnects, 20u);
    EXPECT_EQ(xprt_->io_counters().bad_remote_invalidations, 0u);
    EXPECT_LT(xprt_->counters().recover_ns_max, 5 * kNsPerSec);
}

// It says nothing for half a minute, and is there again: no call ends in an error.
TEST_F(Reconnect, B23_ServerStopsAndGoesOn) {
    struct Cut final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame&) noexcept override { return !on; }
        bool on = false;
    } cut;
    world_.net->set_tap(&cut);
    load();
    ASSERT_TRUE(run_calls(100));
    cut.on = true;
    const std::uint64_t begin = world_.loop->now_ns();
    ASSERT_TRUE(world_.run_until([&] { return xprt_->recovering(); }, 4 * kNsPerSec));
    EXPECT_LT(world_.loop->now_ns() - begin, 4 * kNsPerSec);
    world_.run_for(30 * kNsPerSec);
    cut.on = false;
    ASSERT_TRUE(run_calls(100));
    EXPECT_EQ(xprt_->counters().reconnects, 1u);
    expect_all_right();
    world_.net->set_tap(nullptr);
}

TEST_F(Reconnect, NothingIsAllocatedAfterIt) {
    if (!kAllocCounterWorks) GTEST_SKIP() << "a sanitizer has a malloc of its own";
    load();
    ASSERT_TRUE(run_calls(100));
    end_server();
    serve();
    ASSERT_TRUE(run_calls(100));
    ASSERT_EQ(xprt_->counters().reconnects, 1u);
    AllocCounter heap;
    EXPECT_TRUE(run_calls_quietly(300));
    EXPECT_EQ(heap.count(), 0u);
    expect_all_right();
}

}  // namespace
}  // namespace nfsrdma::test
