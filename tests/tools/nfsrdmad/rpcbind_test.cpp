#include "tools/nfsrdmad/rpcbind.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::nfsrdmad {
namespace {

TEST(Rpcbind, B68_WithoutRpcbindIsAnErrorThatServingSurvives) {
    Rpcbind rpcbind("/nonexistent/rpcbind.sock");
    const SockAddr address = *SockAddr::parse("127.0.0.1:20049", 0);
    const Result<void> added = rpcbind.add(100003, 3, "rdma", address);
    ASSERT_FALSE(static_cast<bool>(added));
    EXPECT_EQ(added.error().code, Errc::system);
    EXPECT_EQ(rpcbind.size(), 0u);
    Rpcbind longer(std::string(300, 'x'));
    EXPECT_EQ(longer.add(100003, 3, "rdma", address).error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace nfsrdma::nfsrdmad
