#include "tools/mount_nfsrdma/address.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::mount {
namespace {

MountOptions of(const char* server, bool v6_only) {
    MountOptions out;
    out.server = server;
    out.port = 1234;
    out.v6_only = v6_only;
    return out;
}

TEST(ServerAddress, NumbersAreTaken) {
    auto v4 = resolve_server(of("127.0.0.1", false)), v6 = resolve_server(of("::1", false));
    ASSERT_TRUE(v4 && v6);
    EXPECT_EQ(v4->to_string(), "127.0.0.1:1234");
    EXPECT_EQ(v6->to_string(), "[::1]:1234");
    auto only = resolve_server(of("::1", true));
    ASSERT_TRUE(only);
    EXPECT_EQ(only->to_string(), "[::1]:1234");
}

TEST(ServerAddress, Rdma6WantsIpv6) {
    const auto none = resolve_server(of("127.0.0.1", true));
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::invalid_argument);
}

TEST(ServerAddress, UnknownHostsAreErrors) {
    EXPECT_FALSE(resolve_server(of("no such host", false)));
    EXPECT_FALSE(resolve_server(of("no such host", true)));
}

}  // namespace
}  // namespace nfsrdma::mount
