#include "xprtrdma/probe.hpp"

#include <gtest/gtest.h>

#include "tests/support/loop_world.hpp"
#include "tests/support/raw_peer.hpp"

namespace nfsrdma::test {
namespace {

using xprtrdma::Probe;

struct ProbeTest : testing::Test {
    ProbeTest() : pd(*world.client->alloc_pd()), cq(*world.client->create_cq(16)) {
        world.loop->add(*cq);
    }
    ~ProbeTest() override {
        probe.reset();
        world.loop->remove(*cq);
    }
    void ask() {
        auto made = Probe::create(
            *world.client, *pd, *cq, LoopWorld::server_address(),
            {.answered = [](void* arg) noexcept { ++*static_cast<int*>(arg); }, .arg = &answers});
        ASSERT_TRUE(static_cast<bool>(made));
        probe = *std::move(made);
        EXPECT_EQ(answers, 0);
    }
    LoopWorld world;
    std::unique_ptr<verbs::ProtectionDomain> pd;
    std::unique_ptr<verbs::CompletionQueue> cq;
    std::unique_ptr<Probe> probe;
    int answers = 0;
};

// Neither a listener nor a connection of the host is needed, nor touched.
TEST_F(ProbeTest, HostWithoutAListenerAnswers) {
    ask();
    ASSERT_TRUE(world.run_until([&] { return answers == 1; }, 100 * kNsPerMs));
    EXPECT_TRUE(probe->over());
    world.run_for(10 * kNsPerSec);
    EXPECT_EQ(answers, 1);
}

TEST_F(ProbeTest, ServersListenerIsLeftAlone) {
    RawListener listener(*world.server, LoopWorld::server_address(), {});
    ask();
    ASSERT_TRUE(world.run_until([&] { return answers == 1; }, 100 * kNsPerMs));
    EXPECT_TRUE(listener.conns.empty());
}

TEST_F(ProbeTest, AcceptedIsAnAnswerToo) {
    RawListener listener(*world.server, LoopWorld::server_address(9), {});
    ask();
    ASSERT_TRUE(world.run_until([&] { return answers == 1; }, 100 * kNsPerMs));
    probe.reset();
    ASSERT_TRUE(world.run_until([&] { return listener.last().ended; }));
}

TEST_F(ProbeTest, SilenceIsNoAnswer) {
    struct Cut final : verbs::softroce::LoopTap {
        bool on_frame(verbs::softroce::LoopFrame&) noexcept override { return false; }
    } cut;
    world.net->set_tap(&cut);
    ask();
    ASSERT_TRUE(world.run_until([&] { return probe->over(); }, 5 * kNsPerSec));
    EXPECT_EQ(answers, 0);
    world.net->set_tap(nullptr);
}

}  // namespace
}  // namespace nfsrdma::test
