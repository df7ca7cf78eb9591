#include "verbs/rdmacore/cq.hpp"

#include <poll.h>

#include "tests/verbs/rdmacore/hw_world.hpp"
#include "verbs/rdmacore/device.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

class RdmaCqHw : public HwTest {
  protected:
    void send_from_client(Done& sent) {
        sge_ = client->sge(0, 16);
        SendWr wr;
        wr.sgl = {&sge_, 1};
        wr.cqe = &sent;
        wr.signaled = true;
        WrChain chain;
        chain.push_back(wr);
        ASSERT_TRUE(client->qp->post_send(chain));
    }
    void post_recv(Done& done) {
        recv_sge_ = server->sge(0, 4096);
        RecvWr wr;
        wr.cqe = &done;
        wr.sgl = {&recv_sge_, 1};
        ASSERT_TRUE(server->qp->post_recv(wr));
    }
    Sge sge_, recv_sge_;
};

TEST_F(RdmaCqHw, SizesOutOfRangeAreRefused) {
    auto& device = static_cast<RdmaDevice&>(*client_device);
    EXPECT_FALSE(device.create_cq(0));
    EXPECT_FALSE(device.create_cq(device.max_cqe() + 1));
}

// A loop that sleeps is woken by the completion channel, once for each time that it asked.
TEST_F(RdmaCqHw, ArmedQueueWakesTheLoop) {
    connect();
    for (int i = 0; i < 5; ++i) {
        Done& received = fresh();
        Done& sent = fresh();
        post_recv(received);
        while (!server->cq->arm())
            server->cq->poll();
        send_from_client(sent);
        pollfd channel{static_cast<RdmaDevice&>(*server_device).comp_channel().fd, POLLIN, 0};
        ASSERT_EQ(::poll(&channel, 1, 30000), 1);
        ASSERT_TRUE(run_until(*loop, [&] { return received.count == 1 && sent.count == 1; }));
    }
}

// What came between the last poll and the request for an event is not slept over: whoever asks is
// told once to look again.
TEST_F(RdmaCqHw, ArmSeesWhatCameMeanwhile) {
    connect();
    auto other = std::move(*client_device->create_cq(4));
    EXPECT_FALSE(other->arm());
    EXPECT_TRUE(other->arm());
    Done& received = fresh();
    Done& sent = fresh();
    post_recv(received);
    send_from_client(sent);
    // The device works while nobody polls.
    run_for(*loop, 0);
    while (!server->cq->arm())
        server->cq->poll();
    EXPECT_TRUE(run_until(*loop, [&] { return received.count == 1 && sent.count == 1; }));
}

// A queue of 4 entries grows with its queue pair.
TEST_F(RdmaCqHw, GrowsWithItsQueuePairs) {
    make_ends();
    loop->remove(*client->cq);
    client->cq = std::move(*client_device->create_cq(4));
    loop->add(*client->cq);
    client->id = std::move(*client_device->create_id(*client));
    client->make_qp({256, 256, 1, 1});
    Done& recv = fresh();
    const Sge sge = client->sge(0, 64);
    for (int i = 0; i < 256; ++i) {
        RecvWr wr;
        wr.cqe = &recv;
        wr.sgl = {&sge, 1};
        ASSERT_TRUE(client->qp->post_recv(wr));
    }
    client->qp->set_error();
    ASSERT_TRUE(run_until(*loop, [&] { return recv.count == 256; }));
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
