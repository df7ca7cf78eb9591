#include "tirpc/svc_connection.hpp"

#include <netconfig.h>
#include <string>

#include <gtest/gtest.h>

namespace nfsrdma::tirpc {
namespace {

// What programs and libtirpc read (facts/libtirpc s2).
TEST(SvcConnection, AFaceHasWhatProgramsAskFor) {
    SvcFace face;
    face.set(*SockAddr::parse("127.0.0.1:20049", 0), *SockAddr::parse("127.0.0.9:1023", 0));
    EXPECT_STREQ(face.xprt.xp_netid, "rdma");
    EXPECT_EQ(face.xprt.xp_type, NC_TPI_COTS_ORD);
    EXPECT_NE(face.xprt.xp_tp, nullptr);
    ASSERT_NE(face.xprt.xp_p3, nullptr);  // libtirpc writes there before anything else
    const netbuf* const caller = svc_getrpccaller(&face.xprt);
    EXPECT_EQ(SockAddr::from(static_cast<const sockaddr*>(caller->buf)).to_string(),
              "127.0.0.9:1023");
    EXPECT_EQ(caller->len, sizeof(sockaddr_in));
    EXPECT_EQ(SockAddr::from(static_cast<const sockaddr*>(face.xprt.xp_ltaddr.buf)).port(), 20049);
    EXPECT_EQ(face.xprt.xp_addrlen, static_cast<int>(sizeof(sockaddr_in)));
    EXPECT_EQ(face.xprt.xp_raddr.sin6_family, AF_INET);
}

TEST(SvcConnection, AnIpv6FaceSaysSo) {
    SvcFace face;
    face.set(*SockAddr::parse("[::1]:20049", 0), *SockAddr::parse("[::1]:700", 0));
    EXPECT_STREQ(face.xprt.xp_netid, "rdma6");
    EXPECT_EQ(svc_getrpccaller(&face.xprt)->len, sizeof(sockaddr_in6));
    EXPECT_EQ(face.xprt.xp_raddr.sin6_family, AF_INET6);
}

// An object of a connection that is over serves another: nothing of the first stays.
TEST(SvcConnection, AFaceThatIsSetAgainIsNew) {
    SvcFace face;
    face.set(*SockAddr::parse("[::1]:20049", 0), *SockAddr::parse("[::1]:700", 0));
    face.ext.flags = 1;
    face.xprt.xp_p2 = &face;
    face.set(*SockAddr::parse("127.0.0.1:20049", 0), *SockAddr::parse("127.0.0.9:1023", 0));
    EXPECT_EQ(face.ext.flags, 0);
    EXPECT_EQ(face.xprt.xp_p2, nullptr);
    EXPECT_STREQ(face.xprt.xp_netid, "rdma");
}

}  // namespace
}  // namespace nfsrdma::tirpc
