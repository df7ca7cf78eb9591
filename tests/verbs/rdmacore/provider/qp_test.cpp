#include "verbs/rdmacore/qp.hpp"

#include <cerrno>
#include <chrono>
#include <thread>

#include "tests/verbs/rdmacore/provider/provider_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

using QpOfAnyDevice = ProviderTest;

TEST_F(QpOfAnyDevice, RefusedFirstRequestIsNotPosted) {
    make_ends();
    provider.send_fault = {.error = ENOMEM};
    const auto full = post("s.");
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, Errc::again);
    EXPECT_FALSE(qp->in_error());
    EXPECT_EQ(qp->outstanding(), 0u);
    EXPECT_EQ(qp->send_room(), 64u);
    provider.send_fault = {.error = EINVAL};
    const auto bad = post("s.");
    ASSERT_FALSE(bad);
    EXPECT_EQ(bad.error().code, Errc::reconnect);
    EXPECT_TRUE(qp->in_error());
    for (const Done& done : sends)
        EXPECT_EQ(done.count, 0u);
}

// Drivers that fail early leave bad_wr alone: some of the chain may be on its way, and must not
// complete behind our back.
TEST_F(QpOfAnyDevice, FailureThatDoesNotSayWhereEndsTheConnection) {
    make_ends();
    ASSERT_TRUE(post("s"));
    provider.send_fault = {.error = ENOMEM, .taken = 2, .says_which = false};
    EXPECT_TRUE(post("..s")) << "it is told by the completions";
    EXPECT_TRUE(qp->in_error());
    EXPECT_EQ(provider.qps_destroyed, 1u);
    EXPECT_EQ(qp->outstanding(), 4u);
    // What the device had said before its queue pair went.
    provider.end_send(fake());
    provider.end_send(fake());
    poll();
    for (std::uint32_t i = 0; i < sends.size(); ++i) {
        EXPECT_TRUE(sends[i].flushed()) << i;
        EXPECT_EQ(sends[i].place, i + 1);
    }
    EXPECT_EQ(qp->outstanding(), 0u);
    EXPECT_EQ(qp->send_room(), 64u);
    run();
    EXPECT_EQ(owner.fatal, 1u);
}

TEST_F(QpOfAnyDevice, ChainThatStopsInTheMiddleIsFlushedWholeAndOnce) {
    make_ends();
    ASSERT_TRUE(post_recvs(2));
    provider.send_fault = {.error = ENOMEM, .taken = 1};
    EXPECT_TRUE(post("s.s"));
    EXPECT_TRUE(qp->in_error());
    poll();
    for (const Done& done : sends)
        EXPECT_TRUE(done.flushed());
    for (const Done& done : recvs)
        EXPECT_TRUE(done.flushed());
    EXPECT_EQ(qp->outstanding(), 0u);
}

TEST_F(QpOfAnyDevice, KeysOfAChainInDoubtAreDead) {
    make_ends();
    std::array<std::byte, 64> memory{};
    key = std::move(*pd->alloc_fast_mr(4));
    std::byte* const page = memory.data() - address_of(memory.data()) % 4096;
    const auto offset = static_cast<std::uint32_t>(memory.data() - page);
    ASSERT_TRUE(
        key->map({&page, 1}, 4096, offset, 1, address_of(memory.data()), Access::remote_read));
    EXPECT_EQ(provider.regions, 1u);
    SendWr bind;
    bind.op = SendOp::reg_mr;
    bind.mr = key.get();
    bind.cqe = &sends.emplace_back();
    bind.signaled = true;
    WrChain chain;
    chain.push_back(bind);
    provider.send_fault = {.error = EIO, .says_which = false};
    EXPECT_TRUE(qp->post_send(chain));
    EXPECT_EQ(provider.regions, 0u) << "the peer may know the key";
    EXPECT_EQ(key->map({&page, 1}, 4096, offset, 1, address_of(memory.data()), Access::remote_read)
                  .error()
                  .code,
              Errc::reconnect);
    poll();
    EXPECT_TRUE(sends[0].flushed());
}

TEST_F(QpOfAnyDevice, ReceivesInDoubtEndTheConnection) {
    make_ends();
    ASSERT_TRUE(post_recvs(1));
    provider.recv_fault = {.error = ENOMEM, .taken = 1, .says_which = false};
    EXPECT_TRUE(post_recvs(3));
    EXPECT_TRUE(qp->in_error());
    poll();
    for (std::uint32_t i = 0; i < recvs.size(); ++i) {
        EXPECT_TRUE(recvs[i].flushed()) << i;
        EXPECT_EQ(recvs[i].place, i + 1);
    }
    EXPECT_EQ(recvs.size(), 4u);
}

TEST_F(QpOfAnyDevice, ReceivesRefusedWholeAreNotPosted) {
    make_ends();
    provider.recv_fault = {.error = ENOMEM};
    const auto full = post_recvs(2);
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, Errc::again);
    EXPECT_FALSE(qp->in_error());
    EXPECT_EQ(qp->outstanding(), 0u);
}

// Some devices end the last work request of a failed queue pair before those in front of it.
TEST_F(QpOfAnyDevice, LastWorkRequestDoesNotSwallowASignaledCompletion) {
    make_ends();
    ASSERT_TRUE(post("."));
    ASSERT_TRUE(post("s"));
    ASSERT_TRUE(post("."));
    qp->set_error();
    ASSERT_EQ(fake().sends.size(), 4u);
    provider.end_last_send(fake(), IBV_WC_WR_FLUSH_ERR);
    poll();
    EXPECT_EQ(qp->outstanding(), 2u) << "the first was silent, the second is owed";
    EXPECT_EQ(sends[1].count, 0u);
    fake().sends.erase(fake().sends.begin());
    provider.end_send(fake());
    poll();
    EXPECT_EQ(sends[0].count, 0u);
    EXPECT_EQ(sends[1].count, 1u);
    EXPECT_EQ(sends[1].status, WcStatus::success);
    EXPECT_EQ(sends[2].count, 0u);
    EXPECT_EQ(qp->outstanding(), 0u);
    EXPECT_EQ(qp->send_room(), 64u);
}

TEST_F(QpOfAnyDevice, CompletionThatIsOwedAndNeverComesIsFlushedInTime) {
    make_ends();
    loop->add(*cq);
    ASSERT_TRUE(post(".s"));
    ASSERT_TRUE(post_recvs(1));
    qp->set_error();
    provider.end_last_send(fake(), IBV_WC_WR_FLUSH_ERR);
    run();
    EXPECT_EQ(sends[1].count, 0u);
    EXPECT_EQ(provider.qps_destroyed, 0u);
    auto flushed = [&] { return qp->outstanding() == 0; };
    const auto asked = +[](void* f) { return (*static_cast<decltype(flushed)*>(f))(); };
    EXPECT_TRUE(loop->run_until(asked, &flushed, 60 * kNsPerSec));
    EXPECT_TRUE(sends[1].flushed());
    EXPECT_TRUE(recvs[0].flushed());
    EXPECT_EQ(qp->outstanding(), 0u);
    EXPECT_EQ(provider.qps_destroyed, 1u);
    loop->remove(*cq);
}

// A device like siw tells nothing of what is posted after an error. What it knew is told, however
// late the loop looks.
class QpThatDoesNotDrain : public ProviderTest {
  protected:
    void SetUp() override {
        ProviderTest::SetUp();
        provider.attr.vendor_id = 0x626D74;
        open();
        ASSERT_FALSE(device->quirks().drains);
        make_ends();
    }
    // The loop was elsewhere for longer than the wait for last words.
    void be_late() {
        std::this_thread::sleep_for(std::chrono::milliseconds(60));
        loop->run_once(0);  // runs the timer, and polls nothing: the queue is not on the loop
    }
};

TEST_F(QpThatDoesNotDrain, CompletionsThatWaitForALateLoopAreTold) {
    ASSERT_TRUE(post("ss"));
    ASSERT_TRUE(post_recvs(1));
    qp->set_error();
    be_late();
    EXPECT_EQ(provider.qps_destroyed, 0u);
    provider.end_send(fake());
    poll();
    EXPECT_EQ(sends[0].count, 1u);
    EXPECT_EQ(sends[0].status, WcStatus::success);
    be_late();
    EXPECT_EQ(provider.qps_destroyed, 0u) << "it has just told something";
    provider.end_send(fake());
    poll();
    EXPECT_EQ(sends[1].status, WcStatus::success);
    be_late();
    be_late();
    EXPECT_EQ(provider.qps_destroyed, 1u);
    poll();
    EXPECT_TRUE(recvs[0].flushed());
    EXPECT_EQ(qp->outstanding(), 0u);
}

TEST_F(QpThatDoesNotDrain, SilenceEndsAfterTwoLooks) {
    ASSERT_TRUE(post("s."));
    qp->set_error();
    be_late();
    EXPECT_EQ(provider.qps_destroyed, 0u);
    be_late();
    EXPECT_EQ(provider.qps_destroyed, 1u);
    poll();
    EXPECT_TRUE(sends[0].flushed());
    EXPECT_TRUE(sends[1].flushed());
}

TEST_F(QpOfAnyDevice, ReadOfMoreSgesThanTheDeviceTakesIsRefused) {
    make_ends();
    ASSERT_EQ(device->caps().max_read_sge, 2u);
    const std::array<Sge, 3> sges{};
    const auto code = [&](SendOp op, std::size_t count) {
        SendWr& wr = wrs.emplace_back();
        wr.op = op;
        wr.cqe = &sends.emplace_back();
        wr.sgl = std::span(sges).first(count);
        WrChain chain;
        chain.push_back(wr);
        const auto posted = qp->post_send(chain);
        return posted ? Errc::closed : posted.error().code;  // closed: it was posted
    };
    EXPECT_EQ(code(SendOp::rdma_read, 3), Errc::invalid_argument);
    EXPECT_EQ(fake().sends.size(), 0u);
    EXPECT_EQ(code(SendOp::rdma_read, 2), Errc::closed);
    EXPECT_EQ(code(SendOp::rdma_write, 3), Errc::closed);
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
