#include "devices/memory.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::devices {
namespace {

verbs::DeviceCaps caps_of(std::uint32_t wrs) {
    verbs::DeviceCaps caps;
    caps.max_send_wr = caps.max_recv_wr = wrs;
    caps.max_send_sge = caps.max_recv_sge = 8;
    caps.max_fast_reg_pages = 1 << 20;
    caps.fast_reg = true;
    return caps;
}

// 32 calls and some to spare, each with a payload of 1 MiB.
TEST(ClientMemory, IsThatOfOneConnectionWithItsCalls) {
    const std::uint64_t bytes = client_bytes({}, caps_of(16000));
    EXPECT_GT(bytes, std::uint64_t{32} << 20);
    EXPECT_LT(bytes, std::uint64_t{64} << 20);
    EXPECT_LT(client_bytes({}, caps_of(60)), bytes) << "short queues carry fewer calls";
    EXPECT_EQ(client_bytes({}, caps_of(0)), 0u);
    pools::Demand more;
    more.credits = 64;
    EXPECT_GT(client_bytes(more, caps_of(16000)), bytes + (std::uint64_t{32} << 20));
}

// Payloads that its connections share, and the Receives of all connections that there may be.
TEST(ServerMemory, IsThatOfALoopWithAllItsConnections) {
    const svcrdma::ServerOptions options = nfsrdmad_options();
    const std::uint64_t bytes = server_bytes(options, caps_of(16000));
    EXPECT_GT(bytes, std::uint64_t{options.connections_max} * options.demand.credits * 4096);
    EXPECT_GT(bytes, std::uint64_t{300} << 20);
    svcrdma::ServerOptions few = options;
    few.connections_max = 16;
    EXPECT_LT(server_bytes(few, caps_of(16000)), bytes / 2);
    EXPECT_EQ(server_bytes(options, caps_of(0)), 0u);
}

TEST(LockedMemory, FitsUnderTheLimitOrNot) {
    EXPECT_TRUE(may_lock({100, 100, false}, 100));
    EXPECT_FALSE(may_lock({99, 1000, false}, 100)) << "the soft limit counts";
    EXPECT_TRUE(may_lock({99, 99, true}, 100)) << "CAP_IPC_LOCK";
    EXPECT_TRUE(may_lock({UINT64_MAX, UINT64_MAX, false}, UINT64_MAX - 1));
}

TEST(LockedMemory, WantIsExplained) {
    const std::string text =
        cannot_lock({64 << 10, 64 << 10, false}, (std::uint64_t{45} << 20) + 1, "this client");
    EXPECT_NE(text.find("RLIMIT_MEMLOCK is 64 KiB"), std::string::npos) << text;
    EXPECT_NE(text.find("46 MiB"), std::string::npos) << text;
    EXPECT_NE(text.find("this client"), std::string::npos) << text;
    EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
}

}  // namespace
}  // namespace nfsrdma::devices
