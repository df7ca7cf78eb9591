#include "svcrdma/server.hpp"

#include <gtest/gtest.h>

#include "tests/svcrdma/svc_world.hpp"

namespace nfsrdma::svcrdma::testing {
namespace {

TEST(Server, ReceivesCoverTheCreditsWhileABatchIsIdle) {
    test::LoopWorld world;
    TestService service;
    for (std::uint32_t credits = 1; credits < 300; ++credits) {
        Server server(*world.server, service, defaults());
        server.provision.credits = credits;
        EXPECT_GE(server.receives() - (server.receive_batch() - 1), credits + 1);
        EXPECT_GT(server.contexts(), credits);
    }
}

TEST(Server, SlabsAreReused) {
    SvcWorld w;
    // Four connections at a time are all that the arena was made for.
    for (int round = 0; round < 5; ++round) {
        std::vector<std::unique_ptr<RawConn>> conns;
        for (int i = 0; i < 4; ++i)
            conns.push_back(w.connect());
        for (auto& conn : conns)
            w.expect_alive(*conn);
        conns.clear();
        EXPECT_TRUE(w.world.run_until([&] { return w.listener->connections() == 0; }));
    }
}

}  // namespace
}  // namespace nfsrdma::svcrdma::testing
