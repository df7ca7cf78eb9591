#include "tirpc/svc_kick.hpp"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <gtest/gtest.h>

namespace nfsrdma::tirpc {
namespace {

bool readable(const KickPair& pair) {
    pollfd fd{pair.fd(), POLLIN, 0};
    return ::poll(&fd, 1, 0) == 1;
}

TEST(SvcKick, IsReadableFromAKickToAnAck) {
    auto pair = KickPair::create();
    ASSERT_TRUE(static_cast<bool>(pair));
    EXPECT_FALSE(readable(*pair));
    pair->kick();
    EXPECT_TRUE(readable(*pair));
    pair->ack();
    EXPECT_FALSE(readable(*pair));
    pair->ack();  // of none: does not block
}

TEST(SvcKick, AnyNumberOfKicksNeverBlocksAndIsTakenBackAtOnce) {
    auto pair = KickPair::create();
    ASSERT_TRUE(static_cast<bool>(pair));
    for (int i = 0; i < 100000; ++i)
        pair->kick();
    EXPECT_TRUE(readable(*pair));
    pair->ack();
    EXPECT_FALSE(readable(*pair));
}

// unfs3 and others ask the type of xp_fd (facts/libtirpc s2).
TEST(SvcKick, IsAStreamSocketToWhoAsks) {
    auto pair = KickPair::create();
    ASSERT_TRUE(static_cast<bool>(pair));
    int type = 0;
    socklen_t size = sizeof type;
    ASSERT_EQ(::getsockopt(pair->fd(), SOL_SOCKET, SO_TYPE, &type, &size), 0);
    EXPECT_EQ(type, SOCK_STREAM);
}

TEST(SvcKick, WithoutFdsTellsSo) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit none = before;
    none.rlim_cur = 0;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    auto pair = KickPair::create();
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    ASSERT_FALSE(static_cast<bool>(pair));
    EXPECT_EQ(pair.error().sys, EMFILE);
}

TEST(SvcKick, AClosedPairTakesKicks) {
    auto pair = KickPair::create();
    ASSERT_TRUE(static_cast<bool>(pair));
    EXPECT_TRUE(pair->open());
    pair->close();
    EXPECT_FALSE(pair->open());
    pair->kick();
    pair->ack();
}

}  // namespace
}  // namespace nfsrdma::tirpc
