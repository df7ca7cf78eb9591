#include "verbs/rdmacore/cm_id.hpp"

#include "tests/verbs/rdmacore/hw_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

using RdmaCmIdHw = HwTest;

TEST_F(RdmaCmIdHw, ConnectsWithPrivateDataBothWays) {
    make_ends();
    listen();
    acceptor->answer = bytes_of("welcome");
    const auto hello = bytes_of("hello");
    ConnParams params;
    params.private_data = hello;
    params.responder_resources = 9;
    params.initiator_depth = 3;
    ASSERT_TRUE(client->connect(listener->local(), params));
    ASSERT_TRUE(run_until(*loop, [&] { return client->established() && server->established(); }));
    ASSERT_GE(acceptor->private_data.size(), hello.size());
    EXPECT_TRUE(std::equal(hello.begin(), hello.end(), acceptor->private_data.begin()));
    EXPECT_EQ(acceptor->private_data.size(), kConnectPrivateDataMax);
    ASSERT_GE(client->private_data.size(), acceptor->answer.size());
    EXPECT_TRUE(
        std::equal(acceptor->answer.begin(), acceptor->answer.end(), client->private_data.begin()));
    EXPECT_EQ(acceptor->initiator_depth, 9);
    EXPECT_EQ(acceptor->responder_resources, 3);
    EXPECT_EQ(server->initiator_depth, 9);
    EXPECT_EQ(client->responder_resources, 9);
    EXPECT_EQ(client->initiator_depth, 3);
    EXPECT_TRUE(client->id->peer() == listener->local());
    EXPECT_TRUE(server->id->peer().same_address(address));
    EXPECT_TRUE(server->id->local().same_address(address));
}

TEST_F(RdmaCmIdHw, DisconnectIsToldOnceAtBothEnds) {
    connect();
    client->id->disconnect();
    client->id->disconnect();
    EXPECT_TRUE(client->events.size() == 1) << "never from inside the call";
    ASSERT_TRUE(run_until(*loop, [&] { return client->over() && server->over(); }));
    run_for(*loop, 200 * kNsPerMs);
    EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(server->count(CmEventType::disconnected), 1u);
    EXPECT_TRUE(server->qp->in_error());
}

TEST_F(RdmaCmIdHw, RejectCarriesReasonAndPrivateData) {
    make_ends();
    listen();
    acceptor->reject = true;
    acceptor->answer = bytes_of("no room");
    ASSERT_TRUE(client->connect(listener->local()));
    ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
    EXPECT_EQ(client->events.back(), CmEventType::rejected);
    EXPECT_EQ(client->reason, 28);
    ASSERT_GE(client->private_data.size(), acceptor->answer.size());
    EXPECT_TRUE(
        std::equal(acceptor->answer.begin(), acceptor->answer.end(), client->private_data.begin()));
}

TEST_F(RdmaCmIdHw, DroppedRequestIsRejected) {
    make_ends();
    listen();
    acceptor->drop = true;
    ASSERT_TRUE(client->connect(listener->local()));
    ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
    EXPECT_EQ(client->events.back(), CmEventType::rejected);
}

TEST_F(RdmaCmIdHw, NobodyListens) {
    make_ends();
    listen();
    const SockAddr gone = listener->local();
    listener.reset();
    ASSERT_TRUE(client->connect(gone));
    ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
    EXPECT_EQ(client->events.back(), CmEventType::rejected);
    EXPECT_EQ(client->events.size(), 1u);
}

// An address of the network that nobody has.
TEST_F(RdmaCmIdHw, SilentPeerIsUnreachableInTime) {
    make_ends();
    auto peer = SockAddr::parse(address.address_to_string(), 0);
    ASSERT_TRUE(peer);
    const auto gid = peer->gid();
    auto other = gid;
    other[15] = static_cast<std::byte>(99);
    ConnParams params;
    params.timeout_ns = 500 * kNsPerMs;
    const auto asked = client->connect(SockAddr::from_gid(other, 20049), params);
    ASSERT_TRUE(asked) << to_string(asked.error());
    ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
    EXPECT_EQ(client->events.back(), CmEventType::unreachable);
    EXPECT_EQ(client->events.size(), 1u);
}

TEST_F(RdmaCmIdHw, AttemptThatIsGivenUpFlushesItsReceives) {
    make_ends();
    listen();
    client->id = std::move(*client_device->create_id(*client));
    client->make_qp();
    Done& recv = fresh();
    const Sge sge = client->sge(0, 4096);
    RecvWr wr;
    wr.cqe = &recv;
    wr.sgl = {&sge, 1};
    ASSERT_TRUE(client->qp->post_recv(wr));
    ASSERT_TRUE(client->id->connect(listener->local(), {}));
    client->id->disconnect();
    ASSERT_TRUE(run_until(*loop, [&] { return client->over() && recv.count == 1; }));
    EXPECT_EQ(client->events.back(), CmEventType::unreachable);
    EXPECT_EQ(recv.last.status, WcStatus::flushed);
    EXPECT_EQ(client->qp->outstanding(), 0u);
}

// What no path leads to is refused at once or told as unreachable; the queue pair is clean again.
TEST_F(RdmaCmIdHw, AddressWithoutARoute) {
    make_ends();
    client->id = std::move(*client_device->create_id(*client));
    client->make_qp();
    Done& recv = fresh();
    const Sge sge = client->sge(0, 4096);
    RecvWr wr;
    wr.cqe = &recv;
    wr.sgl = {&sge, 1};
    ASSERT_TRUE(client->qp->post_recv(wr));
    const auto asked = client->id->connect(*SockAddr::parse("203.0.113.1:20049", 0), {});
    if (!asked) {
        EXPECT_EQ(asked.error().code, Errc::system);
        client->qp->set_error();
        for (int i = 0; i < 100 && client->qp->outstanding() > 0; ++i)
            client->cq->poll();
    } else {
        ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
        ASSERT_TRUE(run_until(*loop, [&] { return client->qp->outstanding() == 0; }));
    }
    EXPECT_EQ(client->qp->outstanding(), 0u);
}

TEST_F(RdmaCmIdHw, EndThatDiesSilentlyIsNoticed) {
    connect();
    client->close();
    ASSERT_TRUE(run_until(*loop, [&] { return server->over(); }));
    EXPECT_EQ(server->count(CmEventType::disconnected), 1u);
}

// What the kernel says, without waiting for the day on which it does.
void say(End& end, rdma_cm_event_type type) {
    RawEvent event;
    event.type = type;
    static_cast<RdmaCmId&>(*end.id).on_event(event);
}

// The active end believes in the connection at its own word: the peer's refusal may come later.
TEST_F(RdmaCmIdHw, RefusalAfterTheFactEndsTheConnection) {
    for (const auto type :
         {RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_CONNECT_ERROR}) {
        SCOPED_TRACE(rdma_event_str(type));
        connect();
        if (HasFatalFailure()) return;
        say(*client, type);
        say(*client, type);
        ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
        EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
        EXPECT_TRUE(client->qp->in_error());
        client->close();
        server->close();
        listener.reset();
        client.reset();
        server.reset();
    }
}

TEST_F(RdmaCmIdHw, ChangeOfTheAddressEndsTheConnectionAtBothEnds) {
    connect();
    say(*client, RDMA_CM_EVENT_ADDR_CHANGE);
    ASSERT_TRUE(run_until(*loop, [&] { return client->over() && server->over(); }));
    EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(server->count(CmEventType::disconnected), 1u);
}

TEST_F(RdmaCmIdHw, ChangeOfTheAddressEndsAnAttempt) {
    make_ends();
    listen();
    ASSERT_TRUE(client->connect(listener->local()));
    say(*client, RDMA_CM_EVENT_ADDR_CHANGE);
    ASSERT_TRUE(run_until(*loop, [&] { return client->over(); }));
    EXPECT_EQ(client->events.back(), CmEventType::unreachable);
}

TEST_F(RdmaCmIdHw, ConnectsAgainAndAgain) {
    for (int i = 0; i < 10; ++i) {
        SCOPED_TRACE(i);
        connect();
        if (HasFatalFailure()) return;
        client->id->disconnect();
        ASSERT_TRUE(run_until(*loop, [&] { return client->over() && server->over(); }));
        client->close();
        server->close();
        listener.reset();
        client.reset();
        server.reset();
    }
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
