#include "verbs/softroce/mr.hpp"

#include <set>

#include "tests/verbs/softroce/world.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

constexpr std::uint64_t kIova = 0x7000'0000'0000;

// REG_MR and LOCAL_INV in every state: what is not allowed is an error and ends the connection.
TEST(MrState, FreeToValidToFree) {
    World w;
    auto mr = w.a.fast(0, 100, Access::remote_read);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *mr, mr->rkey()));
    ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 2, *mr, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    w.a.map(*mr, 0, 100, Access::remote_write);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 3, *mr, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 3));
    for (const WcStatus s : w.a.log.statuses())
        EXPECT_EQ(s, WcStatus::success);
}

TEST(MrState, RegMrOnValidIsAnError) {
    World w;
    auto mr = w.a.fast(0, 100, Access::remote_read);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *mr, mr->rkey()));
    w.run_for(kNsPerUs);
    w.a.map(*mr, 0, 200, Access::remote_read);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 2, *mr, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_EQ(w.a.log.entries[1].wc.status, WcStatus::mr_error);
    EXPECT_TRUE(w.a.qp->in_error());
}

TEST(MrState, LocalInvOnFreeOrWithAnOldKeyIsAnError) {
    {
        World w;
        auto mr = w.a.fast(0, 100, Access::remote_read);
        ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 1, *mr, mr->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.a, 1));
        EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::mr_error);
    }
    World w;
    auto mr = w.a.fast(0, 100, Access::remote_read);
    const Rkey key = mr->rkey();
    const Rkey old{(static_cast<std::uint32_t>(key) & ~0xFFu) |
                   ((static_cast<std::uint32_t>(key) - 1) & 0xFF)};
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *mr, key));
    ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 2, *mr, old));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_EQ(w.a.log.entries[1].wc.status, WcStatus::mr_error);
}

TEST(MrState, RegMrNeedsItsOwnMapAndItsOwnDomain) {
    {
        World w;
        auto mr = w.a.fast(0, 100, Access::remote_read);
        ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *mr, mr->rkey()));
        ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 2, *mr, mr->rkey()));
        ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 3, *mr, mr->rkey()));  // the same mapping again
        ASSERT_TRUE(w.run_until_logged(w.a, 3));
        EXPECT_EQ(w.a.log.entries[2].wc.status, WcStatus::mr_error);
    }
    World w;
    auto other_pd = *w.a.device->alloc_pd();
    {
        auto mr = *other_pd->alloc_fast_mr(4);
        w.a.map(*mr, 0, 100, Access::remote_read);
        ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *mr, mr->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.a, 1));
        EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::mr_error);
    }
}

TEST(MrState, ErrorOfALocalOperationWaitsForWhatWasPostedBefore) {
    World w;
    auto mr = w.a.fast(0, 100, Access::remote_read);
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 8192)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 5000)}));
    ASSERT_TRUE(w.a.post_local(SendOp::local_inv, 2, *mr, mr->rkey(), false));
    ASSERT_TRUE(w.a.post(SendOp::send, 3, {w.a.sge(0, 50)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 3));
    EXPECT_EQ(w.a.log.statuses(),
              (std::vector<WcStatus>{WcStatus::success, WcStatus::mr_error, WcStatus::flushed}));
}

TEST(MrState, SendWithInvalidateFreesAndTells) {
    World w;
    auto mr = w.a.fast(0, 100, Access::remote_read);
    const Rkey key = mr->rkey();
    ASSERT_TRUE(w.a.recv(5, {w.a.sge(0, 64)}));
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *mr, key));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    ASSERT_TRUE(w.b.post(SendOp::send_with_inv, 2, {w.b.sge(0, 10)}, 0, key));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_TRUE(w.a.log.entries[1].wc.with_invalidate);
    EXPECT_EQ(w.a.log.entries[1].wc.invalidated, key);
    EXPECT_EQ(w.a.qp->counters().remote_invs, 1u);
    // It is free: a new binding works, with the next key byte.
    w.a.map(*mr, 0, 100, Access::remote_read);
    EXPECT_EQ(static_cast<std::uint32_t>(mr->rkey()) & ~0xFFu,
              static_cast<std::uint32_t>(key) & ~0xFFu);
    EXPECT_EQ(static_cast<std::uint32_t>(mr->rkey()) & 0xFF,
              (static_cast<std::uint32_t>(key) + 1) & 0xFF);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 3, *mr, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 3));
    EXPECT_EQ(w.a.log.entries[2].wc.status, WcStatus::success);
}

TEST(MrState, SendWithInvalidateOfAWrongKeyEndsTheConnectionAndIsCounted) {
    for (int variant = 0; variant < 3; ++variant) {
        World w;
        auto mr = w.a.fast(0, 100, Access::remote_read);
        Rkey key = mr->rkey();  // 0: mapped, never bound
        if (variant == 1) key = Rkey{0xABCDEF01};
        if (variant == 2) key = Rkey{static_cast<std::uint32_t>(w.a.mr->lkey())};  // static
        ASSERT_TRUE(w.a.recv(5, {w.a.sge(0, 64)}));
        ASSERT_TRUE(w.b.post(SendOp::send_with_inv, 2, {w.b.sge(0, 10)}, 0, key));
        ASSERT_TRUE(w.run_until_logged(w.b, 1));
        EXPECT_EQ(w.b.log.entries[0].wc.status, WcStatus::remote_access);
        ASSERT_TRUE(w.run_until_logged(w.a, 1));
        EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::flushed);
        EXPECT_EQ(w.a.owner.fatals, 1);
        EXPECT_EQ(w.a.device->counters().access_refused, 1u);
    }
}

// The checks of a remote access in protocol order: each row breaks one check and all behind it.
TEST(MrAccess, ChecksComeInProtocolOrder) {
    World w;
    auto other_pd = *w.a.device->alloc_pd();
    auto& pd = static_cast<SoftPd&>(*w.a.pd);
    auto& foreign = static_cast<SoftPd&>(*other_pd);
    auto made = w.a.fast(100, 1000, Access::remote_read);
    auto& mr = static_cast<SoftFastMr&>(*made);
    const std::uint32_t qpn = w.a.qp->qpn();
    constexpr Access kRead = Access::remote_read, kWrite = Access::remote_write;
    // Never bound.
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova, 1), AccessFault::wrong_qp);
    ASSERT_TRUE(mr.bind(pd, qpn, mr.rkey()));
    EXPECT_EQ(mr.check_remote(foreign, qpn + 1, kWrite, 0, 1), AccessFault::wrong_pd);
    EXPECT_EQ(mr.check_remote(pd, qpn + 1, kWrite, 0, 1), AccessFault::wrong_qp);
    EXPECT_EQ(mr.check_remote(pd, qpn, kWrite, 0, 1), AccessFault::no_right);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, 0, 1), AccessFault::out_of_range);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova - 1, 1), AccessFault::out_of_range);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova, 1001), AccessFault::out_of_range);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova + 1000, 1), AccessFault::out_of_range);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova + 1, ~std::uint64_t{0}),
              AccessFault::out_of_range);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, ~std::uint64_t{0}, 2), AccessFault::out_of_range);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova, 1000), AccessFault::none);
    EXPECT_EQ(mr.check_remote(pd, qpn, kRead, kIova + 999, 1), AccessFault::none);
    ASSERT_TRUE(mr.invalidate(pd, qpn, mr.rkey()));
    EXPECT_EQ(mr.check_remote(pd, qpn, kWrite, 0, 1), AccessFault::not_valid);
}

TEST(MrAccess, OldKeyBytesFindNothing) {
    World w;
    auto made = w.a.fast(0, 100, Access::remote_read);
    auto& mr = static_cast<SoftFastMr&>(*made);
    auto& pd = static_cast<SoftPd&>(*w.a.pd);
    std::set<std::uint32_t> seen;
    for (int i = 0; i < 256; ++i) {
        const Rkey key = mr.rkey();
        ASSERT_TRUE(mr.bind(pd, 5, key));
        EXPECT_EQ(w.a.device->keys().find(static_cast<std::uint32_t>(key)), &mr);
        for (const std::uint32_t old : seen)
            ASSERT_EQ(w.a.device->keys().find(old), nullptr);
        seen.insert(static_cast<std::uint32_t>(key));
        ASSERT_TRUE(mr.invalidate(pd, 5, key));
        w.a.map(mr, 0, 100, Access::remote_read);
    }
    EXPECT_EQ(seen.size(), 256u);
}

TEST(MrAccess, RemoteRefusalsWriteNothing) {
    struct Row {
        const char* what;
        std::uint64_t addr;
        std::uint32_t length;
        Access access;
    };
    const Row rows[] = {
        {"before", kIova - 1, 10, Access::remote_write},
        {"behind", kIova + 4090, 7, Access::remote_write},
        {"overflow", ~std::uint64_t{0} - 3, 10, Access::remote_write},
        {"right", kIova, 10, Access::remote_read},
        {"long", kIova, 5000, Access::remote_write},
    };
    for (const Row& row : rows) {
        World w;
        std::memset(w.b.memory, 0x11, w.b.memory_size);
        auto mr = w.b.fast(4096, 4096, row.access);
        ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 1, *mr, mr->rkey(), false));
        w.run_for(kNsPerUs);
        ASSERT_TRUE(
            w.a.post(SendOp::rdma_write, 1, {w.a.sge(0, row.length)}, row.addr, mr->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.a, 1)) << row.what;
        EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::remote_access) << row.what;
        for (std::size_t i = 0; i < w.b.memory_size; ++i)
            ASSERT_EQ(w.b.memory[i], std::byte{0x11}) << row.what;
    }
}

TEST(MrAccess, KeyOfAnotherQueuePairIsRefused) {
    World w;
    auto second = *w.b.device->create_qp(*w.b.pd, *w.b.cq, {});
    QpAttr at = w.attr(w.b, w.a, 1, 1);
    ASSERT_TRUE(second->connect(at));
    auto mr = w.b.fast(0, 4096, Access::remote_write);
    SendWr wr;
    wr.op = SendOp::reg_mr;
    wr.mr = mr.get();
    WrChain chain;
    chain.push_back(wr);
    ASSERT_TRUE(second->post_send(chain));
    w.run_for(kNsPerUs);
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 1, {w.a.sge(0, 10)}, kIova, mr->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::remote_access);
}

TEST(MrAccess, LocalKeysAreChecked) {
    World w;
    auto only = *w.a.pd->register_memory({w.a.memory, 100}, Access::none);
    const Sge outside{address_of(w.a.memory + 50), 51, only->lkey()};
    const Sge inside{address_of(w.a.memory + 50), 50, only->lkey()};
    ASSERT_TRUE(w.b.recv(1, {w.b.sge(0, 100)}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {inside}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::success);
    ASSERT_TRUE(w.a.post(SendOp::send, 2, {outside}));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_EQ(w.a.log.entries[1].wc.status, WcStatus::local_error);
}

TEST(MrAccess, ReceiveIntoMemoryThatMayNotBeWrittenIsRefused) {
    World w;
    auto only = *w.b.pd->register_memory({w.b.memory, 100}, Access::none);
    ASSERT_TRUE(w.b.recv(1, {{address_of(w.b.memory), 100, only->lkey()}}));
    ASSERT_TRUE(w.a.post(SendOp::send, 1, {w.a.sge(0, 10)}));
    ASSERT_TRUE(w.run_until_logged(w.a, 1) && w.run_until_logged(w.b, 1));
    EXPECT_EQ(w.a.log.entries[0].wc.status, WcStatus::remote_error);
    EXPECT_EQ(w.b.log.entries[0].wc.status, WcStatus::local_error);
}

TEST(MrAccess, FastKeyAsSourceAndAsReadSink) {
    World w;
    w.a.fill(3);
    auto source = w.a.fast(100, 20'000, Access::remote_read);
    auto sink = w.b.fast(4096 + 7, 20'000, Access::local_write, 0x9000);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *source, source->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 1, *sink, sink->rkey(), false));
    const Lkey key{static_cast<std::uint32_t>(sink->rkey())};
    ASSERT_TRUE(w.b.post(SendOp::rdma_read, 2, {{0x9000, 20'000, key}}, kIova, source->rkey()));
    // Not before the READ is done, though it is not fenced.
    ASSERT_TRUE(w.b.post_local(SendOp::local_inv, 3, *sink, sink->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.b, 2));
    EXPECT_EQ(w.b.log.statuses(), (std::vector<WcStatus>{WcStatus::success, WcStatus::success}));
    EXPECT_EQ(std::memcmp(w.b.memory + 4096 + 7, w.a.memory + 100, 20'000), 0);
    // And as the source of a WRITE.
    w.b.map(*sink, 4096 + 7, 20'000, Access::none, 0xA000);
    w.a.map(*source, 0, 1, Access::remote_read);
    auto target = w.a.fast(1 << 20, 20'000, Access::remote_write);
    ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 4, *target, target->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 5, *sink, sink->rkey(), false));
    const Lkey second{static_cast<std::uint32_t>(sink->rkey())};
    ASSERT_TRUE(w.b.post(SendOp::rdma_write, 6, {{0xA000, 20'000, second}}, kIova, target->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.b, 3));
    EXPECT_EQ(w.b.log.entries[2].wc.status, WcStatus::success);
    EXPECT_EQ(std::memcmp(w.a.memory + (1 << 20), w.a.memory + 100, 20'000), 0);
}

// Scattered pages, of which no two lie side by side.
TEST(MrAccess, PageListsGatherAndScatter) {
    for (const std::uint32_t pmtu : {256u, 4096u}) {
        WorldOptions o;
        o.pmtu = pmtu;
        World w(o);
        w.a.fill(5);
        w.b.fill(6);
        std::vector<std::byte*> pages, target_pages;
        for (std::size_t i = 0; i < 20; ++i) {
            pages.push_back(w.a.memory + (40 - 2 * i) * 4096);
            target_pages.push_back(w.b.memory + (1 + 3 * i) * 4096);
        }
        auto source = *w.a.pd->alloc_fast_mr(20);
        auto target = *w.b.pd->alloc_fast_mr(20);
        constexpr std::uint32_t kLength = 70'001;
        ASSERT_TRUE(source->map(pages, 4096, 123, kLength, kIova, Access::remote_read));
        ASSERT_TRUE(target->map(target_pages, 4096, 4095, kLength, 0x10, Access::remote_write));
        ASSERT_TRUE(w.a.post_local(SendOp::reg_mr, 1, *source, source->rkey()));
        ASSERT_TRUE(w.b.post_local(SendOp::reg_mr, 1, *target, target->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.a, 1) && w.run_until_logged(w.b, 1));
        ASSERT_TRUE(
            w.b.post(SendOp::rdma_read, 2, {w.b.sge(2 << 20, kLength)}, kIova, source->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.b, 2));
        std::vector<std::byte> expected;
        for (std::byte* p : pages)
            expected.insert(expected.end(), p, p + 4096);
        expected.erase(expected.begin(), expected.begin() + 123);
        ASSERT_EQ(std::memcmp(w.b.memory + (2 << 20), expected.data(), kLength), 0);
        std::memcpy(w.a.memory + (2 << 20), expected.data(), kLength);
        ASSERT_TRUE(
            w.a.post(SendOp::rdma_write, 3, {w.a.sge(2 << 20, kLength)}, 0x10, target->rkey()));
        ASSERT_TRUE(w.run_until_logged(w.a, 2));
        std::vector<std::byte> got;
        for (std::byte* p : target_pages)
            got.insert(got.end(), p, p + 4096);
        EXPECT_EQ(std::memcmp(got.data() + 4095, expected.data(), kLength), 0);
    }
}

// Null and empty regions, ends of the address space.
TEST(B57, RegistrationOfNothingAndOfOddPlaces) {
    World w;
    EXPECT_EQ(w.a.pd->register_memory({}, Access::local_write).error().code,
              Errc::invalid_argument);
    auto empty = w.a.pd->register_memory({w.a.memory, 0}, Access::local_write);
    ASSERT_TRUE(empty);
    EXPECT_FALSE(w.a.pd->alloc_fast_mr(0));
    EXPECT_EQ(w.a.pd->alloc_fast_mr(w.a.device->caps().max_fast_reg_pages + 1).error().code,
              Errc::too_big);
    auto mr = *w.a.pd->alloc_fast_mr(2);
    std::vector<std::byte*> pages{w.a.memory, w.a.memory + 4096, w.a.memory + 8192};
    const auto map = [&](std::uint32_t page, std::uint32_t offset, std::uint32_t length,
                         std::uint64_t iova) {
        const auto r = mr->map(pages, page, offset, length, iova, Access::remote_read);
        return r ? Errc::closed : r.error().code;
    };
    EXPECT_EQ(map(4096, 0, 0, 0), Errc::invalid_argument);
    EXPECT_EQ(map(4000, 0, 1, 0), Errc::invalid_argument);
    EXPECT_EQ(map(4096, 4096, 1, 0), Errc::invalid_argument);
    EXPECT_EQ(map(4096, 1, 8192, 0), Errc::too_big);
    EXPECT_EQ(map(4096, 0, 0xFFFFFFFF, 0), Errc::too_big);
    EXPECT_EQ(map(4096, 0, 16, ~std::uint64_t{0} - 14), Errc::invalid_argument);
    pages[1] = w.a.memory + 1;
    EXPECT_EQ(map(4096, 0, 5000, 0), Errc::invalid_argument);
    pages[1] = nullptr;
    EXPECT_EQ(map(4096, 0, 5000, 0), Errc::invalid_argument);
    pages[1] = w.a.memory + 4096;
    EXPECT_EQ(map(4096, 0, 5000, 0x8000'0000'0000'0000), Errc::closed);
    EXPECT_EQ(map(4096, 0, 8192, 0xFFFF'F000), Errc::closed);  // across 4 GiB
}

TEST(B57, EmptyReadAndWriteTouchNoMemoryAndNeedNoKey) {
    World w;
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 1, {}, 0, Rkey{0xDEADBEEF}));
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 2, {}, 0, Rkey{0xDEADBEEF}));
    ASSERT_TRUE(w.a.post(SendOp::rdma_write, 3, {{0, 0, Lkey{0}}}, 0, Rkey{0}));
    ASSERT_TRUE(w.run_until_logged(w.a, 3));
    for (const WcStatus s : w.a.log.statuses())
        EXPECT_EQ(s, WcStatus::success);
}

TEST(Mr, StaticRegionsHaveARemoteKeyOnlyWithARemoteRight) {
    World w;
    EXPECT_EQ(w.a.mr->rkey(), Rkey{0});
    w.b.fill(9);
    auto open = *w.b.pd->register_memory({w.b.memory, 4096}, Access::remote_read);
    EXPECT_NE(open->rkey(), Rkey{0});
    ASSERT_TRUE(
        w.a.post(SendOp::rdma_read, 1, {w.a.sge(0, 4096)}, address_of(w.b.memory), open->rkey()));
    ASSERT_TRUE(w.run_until_logged(w.a, 1));
    EXPECT_EQ(std::memcmp(w.a.memory, w.b.memory, 4096), 0);
    // The key of a region without remote rights opens nothing.
    const Rkey local{static_cast<std::uint32_t>(w.b.mr->lkey())};
    ASSERT_TRUE(w.a.post(SendOp::rdma_read, 2, {w.a.sge(0, 64)}, address_of(w.b.memory), local));
    ASSERT_TRUE(w.run_until_logged(w.a, 2));
    EXPECT_EQ(w.a.log.entries[1].wc.status, WcStatus::remote_access);
}

TEST(Mr, ThousandsOfKeysAreFound) {
    World w;
    std::vector<std::unique_ptr<FastMr>> many;
    for (int i = 0; i < 5000; ++i)
        many.push_back(*w.a.pd->alloc_fast_mr(1));
    auto& keys = w.a.device->keys();
    std::set<std::uint32_t> indexes;
    for (auto& mr : many) {
        auto& soft = static_cast<SoftFastMr&>(*mr);
        indexes.insert(soft.index());
        EXPECT_EQ(keys.find(soft.bound().key), &soft);
    }
    EXPECT_EQ(indexes.size(), many.size());
    const std::uint32_t gone = static_cast<SoftFastMr&>(*many[77]).bound().key;
    many[77].reset();
    EXPECT_EQ(keys.find(gone), nullptr);
}

}  // namespace
}  // namespace nfsrdma::verbs::softroce
