#include "base/sock_addr.hpp"

#include <sys/un.h>

#include <gtest/gtest.h>

#include "base/bytes.hpp"

namespace nfsrdma {
namespace {

std::string round_trip(std::string_view text) {
    auto address = SockAddr::parse(text, 20049);
    return address ? address->to_string() : std::string("error: ") + to_string(address.error());
}

TEST(SockAddr, ParsesWithAndWithoutPort) {
    EXPECT_EQ(round_trip("127.0.0.1"), "127.0.0.1:20049");
    EXPECT_EQ(round_trip("127.0.0.1:7"), "127.0.0.1:7");
    EXPECT_EQ(round_trip("::1"), "[::1]:20049");
    EXPECT_EQ(round_trip("[::1]"), "[::1]:20049");
    EXPECT_EQ(round_trip("[::1]:65535"), "[::1]:65535");
    EXPECT_EQ(round_trip(":111"), "0.0.0.0:111");
    EXPECT_EQ(round_trip("fe80::1%lo"), "[fe80::1%lo]:20049");
    EXPECT_EQ(round_trip("[fe80::1%1]:5"), "[fe80::1%lo]:5");
}

TEST(SockAddr, RefusesWhatIsNotNumeric) {
    for (const std::string_view text :
         {"", "localhost", "127.0.0", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
          "127.0.0.1:1x", "[::1", "[::1]5", "[::1]:", "[127.0.0.1.1]", "::1%", "::1%no-such-if",
          "1.2.3.4:5:6", "[]", "256.0.0.1", ":"}) {
        auto address = SockAddr::parse(text, 1);
        ASSERT_FALSE(address) << text;
        EXPECT_EQ(address.error().code, Errc::invalid_argument) << text;
    }
    EXPECT_FALSE(SockAddr::parse(std::string_view("127.0.0.1\0x", 11), 1));
}

TEST(SockAddr, GidOfV4IsMapped) {
    const SockAddr address = SockAddr::v4(0x7f000002, 4791);
    const auto gid = address.gid();
    EXPECT_EQ(load_be64(gid.data()), 0u);
    EXPECT_EQ(load_be32(&gid[8]), 0xffffu);
    EXPECT_EQ(load_be32(&gid[12]), 0x7f000002u);
    EXPECT_EQ(SockAddr::from_gid(gid, 4791), address);
}

TEST(SockAddr, GidOfV6RoundTrips) {
    auto address = SockAddr::parse("2001:db8::5", 9);
    ASSERT_TRUE(address);
    EXPECT_EQ(SockAddr::from_gid(address->gid(), 9), *address);
    EXPECT_TRUE(address->is_v6());
}

TEST(SockAddr, ComparesFamilyAddressScopeAndPort) {
    const SockAddr a = SockAddr::v4(0x7f000001, 1);
    EXPECT_EQ(a, SockAddr::v4(0x7f000001, 1));
    EXPECT_FALSE(a == SockAddr::v4(0x7f000001, 2));
    EXPECT_TRUE(a.same_address(SockAddr::v4(0x7f000001, 2)));
    EXPECT_FALSE(a.same_address(SockAddr::v4(0x7f000002, 1)));
    EXPECT_FALSE(SockAddr::v6(in6addr_loopback, 1, 1) == SockAddr::v6(in6addr_loopback, 1, 2));
    EXPECT_FALSE(SockAddr::v6(in6addr_any, 1) == SockAddr::v4(0, 1));
    EXPECT_EQ(SockAddr(), SockAddr());
    EXPECT_FALSE(SockAddr() == a);
}

TEST(SockAddr, KnowsLoopbackAndAny) {
    EXPECT_TRUE(SockAddr::v4(0x7fffffff, 0).is_loopback());
    EXPECT_FALSE(SockAddr::v4(0x80000000, 0).is_loopback());
    EXPECT_TRUE(SockAddr::v6(in6addr_loopback, 0).is_loopback());
    EXPECT_TRUE(SockAddr::v4(0, 5).is_any());
    EXPECT_TRUE(SockAddr::v6(in6addr_any, 5).is_any());
    EXPECT_FALSE(SockAddr().is_any());
    EXPECT_FALSE(SockAddr().is_loopback());
}

TEST(SockAddr, FromKernelAddresses) {
    const SockAddr v4 = SockAddr::v4(0x7f000001, 80);
    EXPECT_EQ(SockAddr::from(v4.sa()), v4);
    EXPECT_EQ(v4.sa_len(), sizeof(sockaddr_in));
    const SockAddr v6 = SockAddr::v6(in6addr_loopback, 80, 1);
    EXPECT_EQ(SockAddr::from(v6.sa()), v6);
    EXPECT_EQ(v6.sa_len(), sizeof(sockaddr_in6));
    sockaddr other{};
    other.sa_family = AF_UNIX;
    EXPECT_EQ(SockAddr::from(&other).family(), AF_UNSPEC);
}

TEST(SockAddr, WithPortChangesOnlyThePort) {
    const SockAddr v6 = SockAddr::v6(in6addr_loopback, 80, 1).with_port(81);
    EXPECT_EQ(v6, SockAddr::v6(in6addr_loopback, 81, 1));
    EXPECT_EQ(SockAddr::v4(1, 2).with_port(3).port(), 3);
    EXPECT_EQ(SockAddr().with_port(3).port(), 0);
}

TEST(SockAddr, ResolveTakesNumbersAndLocalhost) {
    auto numeric = SockAddr::resolve("127.0.0.9", 5);
    ASSERT_TRUE(numeric);
    EXPECT_EQ(numeric->to_string(), "127.0.0.9:5");
    auto name = SockAddr::resolve("localhost", 5);
    ASSERT_TRUE(name);
    EXPECT_TRUE(name->is_loopback());
    EXPECT_EQ(name->port(), 5);
    EXPECT_FALSE(SockAddr::resolve("name.invalid.", 5));
}

}  // namespace
}  // namespace nfsrdma
