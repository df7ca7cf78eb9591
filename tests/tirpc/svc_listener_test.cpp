#include "tirpc/svc_listener.hpp"

#include "tests/tirpc/svc_world.hpp"

namespace nfsrdma::tirpc::svc_test {
namespace {

TEST(SvcListener, ACallIsAnswered) {
    Server server;
    Client client(server.address());
    ASSERT_TRUE(client.connected());
    const Message message(T_NULL);
    const Reply reply = client.call(message.sent());
    EXPECT_TRUE(is_success(reply));
    EXPECT_EQ(word(reply, 0), message.xid);
    EXPECT_EQ(reply.head.size(), 24u);
}

TEST(SvcListener, ArgumentsAndResultsAreThoseOfTheService) {
    Server server;
    Client client(server.address());
    const Reply reply = client.call(Message(T_ADD).put(40).put(2).sent());
    ASSERT_TRUE(is_success(reply));
    EXPECT_EQ(word(reply, 6), 42u);
}

}  // namespace
}  // namespace nfsrdma::tirpc::svc_test
