#include "tools/device/memory.hpp"

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
TEST(ConnectionMemory, IsThatOfOneClientConnection) {
    const std::uint64_t bytes = connection_bytes(caps_of(16000));
    EXPECT_GT(bytes, std::uint64_t{32} << 20);
    EXPECT_LT(bytes, std::uint64_t{64} << 20);
    EXPECT_LT(connection_bytes(caps_of(60)), bytes) << "short queues carry fewer calls";
    EXPECT_EQ(connection_bytes(caps_of(0)), 0u);
}

TEST(ConnectionMemory, FitsUnderTheLimitOrNot) {
    EXPECT_TRUE(may_lock({100, 100, false}, 100));
    EXPECT_FALSE(may_lock({99, 1000, false}, 100)) << "the soft limit counts";
    EXPECT_TRUE(may_lock({99, 99, true}, 100)) << "CAP_IPC_LOCK";
    EXPECT_TRUE(may_lock({UINT64_MAX, UINT64_MAX, false}, UINT64_MAX - 1));
}

TEST(ConnectionMemory, WantIsExplained) {
    const std::string text =
        cannot_lock({64 << 10, 64 << 10, false}, (std::uint64_t{45} << 20) + 1);
    EXPECT_NE(text.find("RLIMIT_MEMLOCK is 64 KiB"), std::string::npos) << text;
    EXPECT_NE(text.find("46 MiB"), std::string::npos) << text;
    EXPECT_NE(text.find("ulimit -l"), std::string::npos) << text;
}

}  // namespace
}  // namespace nfsrdma::devices
