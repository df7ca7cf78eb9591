#include "tools/rpcrdma_doctor/peer.hpp"

#include <gtest/gtest.h>

namespace nfsrdma::doctor {
namespace {

PeerQuestion question_to(const char* server) {
    PeerQuestion out;
    out.server = *SockAddr::parse(server, 20049);
    out.device.address = out.server;
    out.timeout_ns = 300 * kNsPerMs;
    return out;
}

// A server that answers is in the end-to-end test.
TEST(DoctorPeer, NobodyIsThere) {
    const Peer peer = look_at_peer(question_to("127.211.3.7"));
    EXPECT_EQ(peer.device, "softroce");
    ASSERT_FALSE(static_cast<bool>(peer.connected));
    EXPECT_FALSE(peer.has_private_data);
    EXPECT_EQ(peer.nulls, 0u);
}

TEST(DoctorPeer, NoSuchDevice) {
    PeerQuestion question = question_to("127.211.3.7");
    question.device.choice = *devices::parse_choice("rdmacore:no_such_device");
    const Peer peer = look_at_peer(question);
    EXPECT_NE(peer.device_error, "");
}

}  // namespace
}  // namespace nfsrdma::doctor
