#include "tests/xprtrdma/client_fixture.hpp"

namespace nfsrdma::test {
namespace {

class Blocking : public ClientFixture {};

TEST_F(Blocking, ConnectsAndFinishes) {
    RawListener listener(*world_.server, LoopWorld::server_address(), {});
    auto made = xprtrdma::Transport::connect(*world_.client, LoopWorld::server_address(), options_);
    ASSERT_TRUE(static_cast<bool>(made));
    EXPECT_TRUE((*made)->connected());
    EXPECT_EQ(listener.conns.size(), 1u);
    {
        TestCall call(**made);
        ASSERT_TRUE(static_cast<bool>(call.prepare(1, 40)));
        ASSERT_TRUE(static_cast<bool>(call.send()));
    }
    (*made)->finish();
    EXPECT_TRUE((*made)->idle());
    EXPECT_FALSE((*made)->connected());
}

TEST_F(Blocking, FailedAttemptIsItsErrorAndNothingIsLeft) {
    RawListener listener(*world_.server, LoopWorld::server_address(), {});
    listener.refuse = true;
    auto made = xprtrdma::Transport::connect(*world_.client, LoopWorld::server_address(), options_);
    ASSERT_FALSE(static_cast<bool>(made));
    EXPECT_EQ(made.error().code, Errc::refused);
}

}  // namespace
}  // namespace nfsrdma::test
