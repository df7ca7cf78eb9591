#include "pools/provision.hpp"

#include <gtest/gtest.h>

#include "pools/buffer_pool.hpp"
#include "tests/pools/io_world.hpp"

namespace nfsrdma::pools {
namespace {

verbs::DeviceCaps large_device() {
    verbs::DeviceCaps caps;
    caps.max_send_wr = caps.max_recv_wr = 1 << 20;
    caps.max_send_sge = caps.max_recv_sge = 8;
    caps.max_fast_reg_pages = 1024;
    caps.max_read_depth = caps.max_read_responses = 16;
    caps.fast_reg = caps.page_list_reg = caps.remote_invalidate = caps.local_keys = true;
    return caps;
}

TEST(Provision, ClientSumsAreThoseOfItsCalls) {
    auto p = Provision::for_client({.credits = 32, .backward_credits = 4}, large_device());
    ASSERT_TRUE(p);
    EXPECT_EQ(p->credits, 32u);
    EXPECT_EQ(p->send_wrs, 32u * 5 + 4 + 1);
    EXPECT_EQ(p->recv_wrs, 32u + 4 + 8);
    EXPECT_GE(p->cq_entries, p->send_wrs + p->recv_wrs);
    EXPECT_EQ(p->keys, 2u * (32 + 4));
    EXPECT_EQ(p->pages_per_key, 256u + 16 + 1);
    EXPECT_EQ(p->transfers, 0u);
    EXPECT_EQ(p->recv_buffers, p->recv_wrs);
    EXPECT_GE(p->send_buffers, 32u + 4);
}

TEST(Provision, ServerHoldsTheLongestReplyWhateverElseIsPosted) {
    for (const std::uint32_t credits : {1u, 8u, 64u}) {
        auto p = Provision::for_server({.credits = credits}, large_device());
        ASSERT_TRUE(p);
        EXPECT_EQ(p->credits, credits);
        EXPECT_GE(p->send_wrs, credits * 12 + 2 * (16 + 2) + 1);
        EXPECT_GE(p->recv_wrs, credits);
        EXPECT_GE(p->transfers, 2 * credits);
        EXPECT_EQ(p->keys, p->transfers);
    }
}

TEST(Provision, AShortQueueMeansFewerCreditsAndTooShortOneNone) {
    verbs::DeviceCaps caps = large_device();
    caps.max_send_wr = 101;
    auto p = Provision::for_client({.credits = 32}, caps);
    ASSERT_TRUE(p);
    EXPECT_EQ(p->credits, 20u);
    EXPECT_LE(p->send_wrs, caps.max_send_wr);
    caps.max_send_wr = 5;
    auto none = Provision::for_client({.credits = 32}, caps);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::unsupported);
    caps = large_device();
    caps.max_recv_wr = 8;
    EXPECT_FALSE(Provision::for_server({.credits = 1}, caps));
}

TEST(Provision, AKeyThatCannotCoverOnePayloadIsUnsupported) {
    verbs::DeviceCaps caps = large_device();
    caps.max_fast_reg_pages = 272;
    auto p = Provision::for_client({}, caps);
    ASSERT_FALSE(p);
    EXPECT_EQ(p.error().code, Errc::unsupported);
    caps.max_fast_reg_pages = 273;
    EXPECT_TRUE(Provision::for_client({}, caps));
    caps.max_fast_reg_pages = 1;
    caps.page_list_reg = false;  // windows: any length
    EXPECT_TRUE(Provision::for_client({}, caps));
}

TEST(Provision, AServerHasKeysWhereItsOwnMemoryMayNeedThem) {
    verbs::DeviceCaps caps = large_device();
    EXPECT_EQ(Provision::for_server({}, caps)->keys, Provision::for_server({}, caps)->transfers);
    caps.page_list_reg = false;  // a registration for each call: no gain for an SGE
    EXPECT_EQ(Provision::for_server({}, caps)->keys, 0u);
    caps.read_sink_needs_key = true;  // iWARP
    EXPECT_EQ(Provision::for_server({}, caps)->keys, Provision::for_server({}, caps)->transfers);
    caps.local_keys = false;  // windows
    EXPECT_EQ(Provision::for_server({}, caps)->keys, 0u);
}

TEST(Provision, NonsenseIsRefused) {
    EXPECT_FALSE(Provision::for_client({.credits = 0}, large_device()));
    EXPECT_FALSE(Provision::for_client({.max_payload = 0}, large_device()));
    EXPECT_FALSE(Provision::for_server({.max_payload = 0xFFFFFFFF}, large_device()));
    EXPECT_FALSE(Provision::for_server({.inline_size = 0}, large_device()));
}

// The arena that was asked for is as large as what is carved out of it.
TEST(Provision, TheArenaHoldsExactlyWhatIsCarved) {
    test::World world;
    const Demand demand{.credits = 5,
                        .backward_credits = 1,
                        .max_payload = 70000,
                        .max_message = 9000,
                        .inline_size = 1111};
    for (const bool server : {false, true}) {
        auto p = server ? Provision::for_server(demand, large_device())
                        : Provision::for_client(demand, large_device());
        ASSERT_TRUE(p);
        auto arena = Arena::create(*world.a.pd, p->arena_bytes, Registration::bind);
        ASSERT_TRUE(arena);
        auto pages = PageListPool::create(**arena, p->page_classes);
        auto sends = BufferPool::create(**arena, p->send_buffers, demand.inline_size);
        auto recvs = BufferPool::create(**arena, p->recv_buffers, demand.inline_size);
        ASSERT_TRUE(pages && sends && recvs);
        EXPECT_FALSE((*arena)->carve(1));
        EXPECT_GE((*pages)->largest(), demand.max_payload + demand.max_message);
    }
}

TEST(B128, LargerPayloadsThanOneMebibyteAreProvidedFor) {
    auto p = Provision::for_client({.credits = 4, .max_payload = 3 << 20}, large_device());
    ASSERT_TRUE(p);
    EXPECT_EQ(p->pages_per_key, 768u + 16 + 1);
}

}  // namespace
}  // namespace nfsrdma::pools
