#include "verbs/rdmacore/qp.hpp"

#include <cstring>

#include "tests/verbs/rdmacore/hw_world.hpp"

namespace nfsrdma::verbs::rdmacore::test {
namespace {

constexpr std::uint32_t kMiB = 1u << 20;

class RdmaQpHw : public HwTest {
  protected:
    // The client binds `bytes` of its memory for the server and tells it by a SEND; what the server
    // gets to know is in `advert`.
    struct Advert {
        std::uint64_t addr = 0;
        Rkey rkey{};
        std::uint32_t length = 0;
    };
    void SetUp() override {
        HwTest::SetUp();
        if (IsSkipped() || HasFatalFailure()) return;
        connect();
    }
    void post_recv(End& end, Done& done, std::size_t offset) {
        recv_sge_[offset / kPage] = end.sge(offset, kPage);
        RecvWr wr;
        wr.cqe = &done;
        wr.sgl = {&recv_sge_[offset / kPage], 1};
        const auto posted = end.qp->post_recv(wr);
        ASSERT_TRUE(posted) << to_string(posted.error());
    }
    void alloc_key(std::uint32_t pages = 1024) {
        auto made = client->pd->alloc_fast_mr(pages);
        ASSERT_TRUE(made) << to_string(made.error());
        key = std::move(*made);
    }
    void map(std::size_t offset, std::uint32_t length, Access access) {
        const auto pages = client->memory.list(offset, length);
        const auto mapped = key->map(pages, kPage, static_cast<std::uint32_t>(offset % kPage),
                                     length, address_of(client->memory.at(offset)), access);
        ASSERT_TRUE(mapped) << to_string(mapped.error());
    }
    // {REG_MR, SEND with fence} in one post, as an RPC does.
    void advertise(Done& sent) {
        SendWr bind, send;
        bind.op = SendOp::reg_mr;
        bind.mr = key.get();
        bind.rkey = key->rkey();
        bind.cqe = &bound;
        const Sge sge = client->sge(0, 64);
        send.op = SendOp::send;
        send.sgl = {&sge, 1};
        send.fenced = true;
        send.signaled = true;
        send.cqe = &sent;
        WrChain chain;
        chain.push_back(bind);
        chain.push_back(send);
        const auto posted = client->qp->post_send(chain);
        ASSERT_TRUE(posted) << to_string(posted.error());
    }
    WcStatus post_one(End& end, SendWr& wr) {
        Done& done = fresh();
        wr.cqe = &done;
        wr.signaled = true;
        WrChain chain;
        chain.push_back(wr);
        const auto posted = end.qp->post_send(chain);
        EXPECT_TRUE(posted) << to_string(posted.error());
        if (!posted) return WcStatus::local_error;
        EXPECT_TRUE(run_until(*loop, [&] { return done.count > 0; })) << to_string(wr.op);
        return done.last.status;
    }
    WcStatus rdma(SendOp op, std::size_t offset, std::uint32_t length, Rkey rkey,
                  std::uint64_t remote) {
        const Sge sge = server->sge(offset, length);
        SendWr wr;
        wr.op = op;
        wr.sgl = {&sge, 1};
        wr.remote_addr = remote;
        wr.rkey = rkey;
        return post_one(*server, wr);
    }
    void fill(End& end, std::size_t offset, std::size_t length, unsigned seed) {
        for (std::size_t i = 0; i < length; ++i)
            *end.memory.at(offset + i) = static_cast<std::byte>((i * 131 + seed) >> (i & 7));
    }
    bool same(std::size_t client_at, std::size_t server_at, std::size_t length) {
        return std::memcmp(client->memory.at(client_at), server->memory.at(server_at), length) == 0;
    }
    void invalidate() {
        SendWr wr;
        wr.op = SendOp::local_inv;
        wr.mr = key.get();
        wr.rkey = key->rkey();
        ASSERT_EQ(post_one(*client, wr), WcStatus::success);
    }
    // The server answers by a SEND that frees the client's key.
    void answer_with_invalidate(Done& received) {
        const Sge sge = server->sge(0, 32);
        SendWr wr;
        wr.op = SendOp::send_with_inv;
        wr.sgl = {&sge, 1};
        wr.rkey = key->rkey();
        ASSERT_EQ(post_one(*server, wr), WcStatus::success);
        ASSERT_TRUE(run_until(*loop, [&] { return received.count == 1; }));
        EXPECT_TRUE(received.last.with_invalidate);
        EXPECT_EQ(received.last.invalidated, key->rkey());
    }

    std::array<Sge, 2048> recv_sge_{};
    std::unique_ptr<FastMr> key;
    Done bound;
};

TEST_F(RdmaQpHw, SendArrivesWithItsLength) {
    Done& received = fresh();
    post_recv(*server, received, 0);
    fill(*client, 8192, 1000, 1);
    const Sge sge = client->sge(8192, 1000);
    SendWr wr;
    wr.sgl = {&sge, 1};
    ASSERT_EQ(post_one(*client, wr), WcStatus::success);
    ASSERT_TRUE(run_until(*loop, [&] { return received.count == 1; }));
    EXPECT_EQ(received.last.byte_len, 1000u);
    EXPECT_FALSE(received.last.with_invalidate);
    EXPECT_TRUE(same(8192, 0, 1000));
}

// The life of an RPC's key: bound with the SEND that tells of it, read and written by the peer,
// freed by the peer's answer; again and again, with a new key each time.
TEST_F(RdmaQpHw, BoundReadWrittenAndFreedByThePeer) {
    ASSERT_NO_FATAL_FAILURE(alloc_key());
    Rkey before = key->rkey();
    const std::uint32_t lengths[] = {1, 4095, 4096, 65537, kMiB - 3, kMiB};
    for (const std::uint32_t length : lengths) {
        SCOPED_TRACE(length);
        Done& got = fresh();
        Done& answered = fresh();
        Done& sent = fresh();
        post_recv(*server, got, 0);
        post_recv(*client, answered, kPage);
        const std::size_t at = 2 * kPage + 5;
        fill(*client, at, length, length);
        ASSERT_NO_FATAL_FAILURE(map(at, length, Access::remote_read | Access::remote_write));
        EXPECT_NE(key->rkey(), before);
        EXPECT_EQ(static_cast<std::uint32_t>(key->rkey()) >> 8,
                  static_cast<std::uint32_t>(before) >> 8);
        before = key->rkey();
        ASSERT_NO_FATAL_FAILURE(advertise(sent));
        ASSERT_TRUE(run_until(*loop, [&] { return got.count == 1 && sent.count == 1; }));
        const std::uint64_t remote = address_of(client->memory.at(at));
        ASSERT_EQ(rdma(SendOp::rdma_read, 2 * kMiB, length, key->rkey(), remote),
                  WcStatus::success);
        EXPECT_TRUE(same(at, 2 * kMiB, length));
        fill(*server, 2 * kMiB, length, length + 7);
        ASSERT_EQ(rdma(SendOp::rdma_write, 2 * kMiB, length, key->rkey(), remote),
                  WcStatus::success);
        ASSERT_NO_FATAL_FAILURE(answer_with_invalidate(answered));
        EXPECT_TRUE(same(at, 2 * kMiB, length));
    }
    EXPECT_EQ(client->qp->counters().remote_invs, std::size(lengths));
    EXPECT_EQ(client->qp->counters().local_invs, 0u);
    EXPECT_EQ(bound.count, 0u) << "unsignaled: silent on success";
}

TEST_F(RdmaQpHw, LocalInvalidateThenBindAgain) {
    ASSERT_NO_FATAL_FAILURE(alloc_key());
    for (int i = 0; i < 3; ++i) {
        Done& got = fresh();
        Done& sent = fresh();
        post_recv(*server, got, 0);
        ASSERT_NO_FATAL_FAILURE(map(0, 2 * kPage, Access::remote_read));
        ASSERT_NO_FATAL_FAILURE(advertise(sent));
        ASSERT_TRUE(run_until(*loop, [&] { return got.count == 1 && sent.count == 1; }));
        ASSERT_EQ(
            rdma(SendOp::rdma_read, kMiB, 2 * kPage, key->rkey(), address_of(client->memory.at(0))),
            WcStatus::success);
        ASSERT_NO_FATAL_FAILURE(invalidate());
    }
    EXPECT_EQ(client->qp->counters().local_invs, 3u);
}

// A LOCAL_INV of a free window brings some kernels down: the device never sees it.
TEST_F(RdmaQpHw, InvalidateOfAFreeKeyIsRefusedBeforeTheDeviceSeesIt) {
    ASSERT_NO_FATAL_FAILURE(alloc_key());
    const auto refused = [&] {
        SendWr wr;
        wr.op = SendOp::local_inv;
        wr.mr = key.get();
        wr.rkey = key->rkey();
        WrChain chain;
        chain.push_back(wr);
        const auto posted = client->qp->post_send(chain);
        return !posted && posted.error().code == Errc::invalid_argument;
    };
    EXPECT_TRUE(refused()) << "never bound";
    Done& got = fresh();
    Done& sent = fresh();
    Done& answered = fresh();
    post_recv(*server, got, 0);
    post_recv(*client, answered, kPage);
    ASSERT_NO_FATAL_FAILURE(map(0, kPage, Access::remote_read));
    EXPECT_TRUE(refused()) << "mapped, not bound";
    ASSERT_NO_FATAL_FAILURE(advertise(sent));
    ASSERT_TRUE(run_until(*loop, [&] { return got.count == 1 && sent.count == 1; }));
    ASSERT_NO_FATAL_FAILURE(answer_with_invalidate(answered));
    EXPECT_TRUE(refused()) << "freed by the peer";
    EXPECT_FALSE(client->qp->in_error());
}

// A chain that cannot be posted whole leaves its keys as they were.
TEST_F(RdmaQpHw, ChainWithABadMemberPostsNothing) {
    ASSERT_NO_FATAL_FAILURE(alloc_key());
    ASSERT_NO_FATAL_FAILURE(map(0, kPage, Access::remote_read));
    SendWr bind, bad;
    bind.op = SendOp::reg_mr;
    bind.mr = key.get();
    const std::array<Sge, 5> sges{};
    bad.sgl = sges;
    WrChain chain;
    chain.push_back(bind);
    chain.push_back(bad);
    const auto posted = client->qp->post_send(chain);
    ASSERT_FALSE(posted);
    EXPECT_EQ(posted.error().code, Errc::invalid_argument);
    EXPECT_EQ(client->qp->outstanding(), 0u);
    EXPECT_EQ(client->qp->send_room(), 64u);
    Done& got = fresh();
    Done& sent = fresh();
    post_recv(*server, got, 0);
    ASSERT_NO_FATAL_FAILURE(advertise(sent));
    ASSERT_TRUE(run_until(*loop, [&] { return got.count == 1 && sent.count == 1; }));
    ASSERT_NO_FATAL_FAILURE(invalidate());
}

TEST_F(RdmaQpHw, StaleKeyIsRefusedAndEndsTheConnection) {
    ASSERT_NO_FATAL_FAILURE(alloc_key());
    Done& got = fresh();
    Done& sent = fresh();
    post_recv(*server, got, 0);
    ASSERT_NO_FATAL_FAILURE(map(0, kPage, Access::remote_read));
    ASSERT_NO_FATAL_FAILURE(advertise(sent));
    ASSERT_TRUE(run_until(*loop, [&] { return got.count == 1 && sent.count == 1; }));
    const Rkey stale = key->rkey();
    ASSERT_NO_FATAL_FAILURE(invalidate());
    EXPECT_EQ(rdma(SendOp::rdma_read, kMiB, kPage, stale, address_of(client->memory.at(0))),
              WcStatus::remote_access);
    EXPECT_TRUE(server->qp->in_error());
    EXPECT_TRUE(run_until(*loop, [&] { return server->over() && client->over(); }));
    EXPECT_EQ(server->count(CmEventType::disconnected), 1u);
    EXPECT_EQ(client->count(CmEventType::disconnected), 1u);
}

TEST_F(RdmaQpHw, KeyWithoutTheRightIsRefused) {
    ASSERT_NO_FATAL_FAILURE(alloc_key());
    Done& got = fresh();
    Done& sent = fresh();
    post_recv(*server, got, 0);
    ASSERT_NO_FATAL_FAILURE(map(0, kPage, Access::remote_read));
    ASSERT_NO_FATAL_FAILURE(advertise(sent));
    ASSERT_TRUE(run_until(*loop, [&] { return got.count == 1 && sent.count == 1; }));
    EXPECT_EQ(rdma(SendOp::rdma_write, kMiB, kPage, key->rkey(), address_of(client->memory.at(0))),
              WcStatus::remote_access);
}

TEST_F(RdmaQpHw, ErrorFlushesEverythingOnceAndInOrder) {
    std::vector<Done*> recvs;
    for (std::size_t i = 0; i < 10; ++i) {
        recvs.push_back(&fresh());
        post_recv(*client, *recvs.back(), i * kPage);
    }
    EXPECT_EQ(client->qp->outstanding(), 10u);
    client->qp->set_error();
    EXPECT_TRUE(client->qp->in_error());
    ASSERT_TRUE(run_until(*loop, [&] { return client->qp->outstanding() == 0; }));
    for (const Done* recv : recvs) {
        EXPECT_EQ(recv->count, 1u);
        EXPECT_EQ(recv->last.status, WcStatus::flushed);
    }
    RecvWr wr;
    EXPECT_EQ(client->qp->post_recv(wr).error().code, Errc::reconnect);
}

// Unsignaled sends that went well tell nobody, and still do not keep the queue pair from draining.
TEST_F(RdmaQpHw, SilentSendsDrain) {
    Done& received = fresh();
    Done& silent = fresh();
    for (std::size_t i = 0; i < 5; ++i)
        post_recv(*server, received, i * kPage);
    const Sge sge = client->sge(0, 16);
    for (int i = 0; i < 5; ++i) {
        SendWr wr;
        wr.sgl = {&sge, 1};
        wr.cqe = &silent;
        WrChain chain;
        chain.push_back(wr);
        ASSERT_TRUE(client->qp->post_send(chain));
    }
    ASSERT_TRUE(run_until(*loop, [&] { return received.count == 5; }));
    EXPECT_EQ(client->qp->outstanding(), 5u);
    client->qp->set_error();
    ASSERT_TRUE(run_until(*loop, [&] { return client->qp->outstanding() == 0; }));
    EXPECT_EQ(client->qp->send_room(), 64u);
    // Which of them were acknowledged before the end is the device's to know: each was silent, or
    // flushed.
    EXPECT_LE(silent.count, 5u);
    if (silent.count > 0) {
        EXPECT_EQ(silent.last.status, WcStatus::flushed);
    }
}

// The queue is far longer than any run without a completion: it never fills for good.
TEST_F(RdmaQpHw, SilentSendsNeverFillTheQueue) {
    const Sge sge = client->sge(0, 16);
    Done& received = fresh();
    std::uint32_t posted = 0;
    for (std::size_t i = 0; i < 32; ++i)
        post_recv(*server, received, i * kPage);
    while (posted < 500) {
        SendWr wr;
        wr.sgl = {&sge, 1};
        WrChain chain;
        chain.push_back(wr);
        const auto done = client->qp->post_send(chain);
        if (done) {
            ++posted;
        } else {
            ASSERT_EQ(done.error().code, Errc::again) << to_string(done.error());
        }
        const std::uint32_t want = posted;
        ASSERT_TRUE(run_until(*loop, [&] { return received.count + 16 > want; }));
        for (; received.count + 32 > posted && server->qp->outstanding() < 32;)
            post_recv(*server, received, 0);
    }
    ASSERT_TRUE(run_until(*loop, [&] { return received.count == 500; }));
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore::test
