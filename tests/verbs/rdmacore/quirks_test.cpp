#include "verbs/rdmacore/quirks.hpp"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

namespace nfsrdma::verbs::rdmacore {
namespace {

constexpr std::uint32_t kRxe = 0xFFFFFF, kSiw = 0x626D74, kMellanox = 0x02C9;

ibv_device_attr rxe_like() {
    ibv_device_attr attr{};
    attr.vendor_id = kRxe;
    attr.device_cap_flags =
        IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    attr.max_mw = 524287;
    attr.max_qp_wr = 1 << 20;
    attr.max_cqe = 32767;
    attr.max_sge = 32;
    attr.max_qp_rd_atom = attr.max_qp_init_rd_atom = 128;
    return attr;
}

// Each row of the table, one test.
TEST(Quirks, RxeReportsInvalidationByTheKernelsBit) {
    const Quirks rxe = quirks_of(kRxe);
    EXPECT_STREQ(rxe.family, "rxe");
    EXPECT_NE(rxe.invalidated_flags & (1u << 2), 0u);
    EXPECT_NE(rxe.invalidated_flags & IBV_WC_WITH_INV, 0u) << "should it ever be mended";
    EXPECT_EQ(rxe.invalidated_flags & (IBV_WC_GRH | IBV_WC_WITH_IMM), 0u);
}

TEST(Quirks, OthersMeanIpChecksumByThatBit) {
    EXPECT_EQ(quirks_of(kMellanox).invalidated_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
    EXPECT_EQ(quirks_of(kSiw).invalidated_flags, static_cast<unsigned>(IBV_WC_WITH_INV));
    EXPECT_STREQ(quirks_of(kMellanox).family, "");
}

TEST(Quirks, SiwCompletesNothingAfterAnErrorAndConnectsWithinTheCall) {
    EXPECT_FALSE(quirks_of(kSiw).drains);
    EXPECT_TRUE(quirks_of(kSiw).connect_blocks);
    for (const std::uint32_t vendor : {kRxe, kMellanox}) {
        EXPECT_TRUE(quirks_of(vendor).drains) << vendor;
        EXPECT_FALSE(quirks_of(vendor).connect_blocks) << vendor;
    }
}

TEST(Quirks, EachIsASentence) {
    EXPECT_EQ(describe(quirks_of(kRxe)).size(), 1u);
    EXPECT_EQ(describe(quirks_of(kSiw)).size(), 2u);
    EXPECT_TRUE(describe(quirks_of(kMellanox)).empty());
}

TEST(Strategy, WindowsWhereTheDeviceMakesThem) {
    const Abilities windows{.windows = true}, none{};
    EXPECT_EQ(*choose_strategy(windows, Strategy::automatic), Strategy::windows);
    EXPECT_EQ(*choose_strategy(windows, Strategy::windows), Strategy::windows);
    EXPECT_EQ(*choose_strategy(windows, Strategy::register_each), Strategy::register_each);
    EXPECT_EQ(*choose_strategy(none, Strategy::automatic), Strategy::register_each);
    const auto forced = choose_strategy(none, Strategy::windows);
    ASSERT_FALSE(forced);
    EXPECT_EQ(forced.error().code, Errc::unsupported);
}

TEST(Strategy, UmrOnlyWhereItIsAskedFor) {
    const Abilities both{.windows = true, .umr = true}, umr{.umr = true}, none{};
    EXPECT_EQ(*choose_strategy(umr, Strategy::automatic), Strategy::register_each);
    EXPECT_EQ(*choose_strategy(umr, Strategy::umr), Strategy::umr);
    EXPECT_EQ(*choose_strategy(both, Strategy::automatic), Strategy::windows);
    EXPECT_EQ(*choose_strategy(both, Strategy::umr), Strategy::umr);
    EXPECT_EQ(choose_strategy(none, Strategy::umr).error().code, Errc::unsupported);
}

TEST(Strategy, NoWindowsAreClaimedWithoutTheFlagsOrWithNoneToHave) {
    EXPECT_TRUE(claims_windows(rxe_like()));
    ibv_device_attr none = rxe_like();
    none.max_mw = 0;  // siw
    ibv_device_attr type1 = rxe_like();
    type1.device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    ibv_device_attr no_invalidate = rxe_like();
    no_invalidate.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
    for (const ibv_device_attr& attr : {none, type1, no_invalidate})
        EXPECT_FALSE(claims_windows(attr));
}

TEST(Transports, OnlyTheseHaveReliableConnections) {
    EXPECT_TRUE(has_reliable_connections(IBV_NODE_CA, IBV_TRANSPORT_IB));
    EXPECT_TRUE(has_reliable_connections(IBV_NODE_RNIC, IBV_TRANSPORT_IWARP));
    // EFA; both kinds of usNIC; a switch; what libibverbs does not know.
    EXPECT_FALSE(has_reliable_connections(IBV_NODE_UNSPECIFIED, IBV_TRANSPORT_UNSPECIFIED));
    EXPECT_FALSE(has_reliable_connections(IBV_NODE_USNIC, IBV_TRANSPORT_USNIC));
    EXPECT_FALSE(has_reliable_connections(IBV_NODE_USNIC_UDP, IBV_TRANSPORT_USNIC_UDP));
    EXPECT_FALSE(has_reliable_connections(IBV_NODE_SWITCH, IBV_TRANSPORT_IB));
    EXPECT_FALSE(has_reliable_connections(IBV_NODE_UNKNOWN, IBV_TRANSPORT_UNKNOWN));
}

TEST(Caps, PeersInvalidateWhatTheDeviceBinds) {
    const ibv_device_attr attr = rxe_like();
    EXPECT_TRUE(caps_of(attr, Transport::roce, Strategy::windows).remote_invalidate);
    EXPECT_TRUE(caps_of(attr, Transport::roce, Strategy::umr).remote_invalidate);
    EXPECT_FALSE(caps_of(attr, Transport::roce, Strategy::register_each).remote_invalidate);
    for (const Strategy strategy : {Strategy::windows, Strategy::umr, Strategy::register_each}) {
        const DeviceCaps caps = caps_of(attr, Transport::roce, strategy);
        EXPECT_TRUE(caps.fast_reg);
        EXPECT_FALSE(caps.page_list_reg) << "one run of memory";
        EXPECT_FALSE(caps.read_sink_needs_key);
    }
    EXPECT_TRUE(caps_of(attr, Transport::iwarp, Strategy::register_each).read_sink_needs_key);
    EXPECT_TRUE(caps_of(attr, Transport::iwarp, Strategy::register_each).local_keys);
    EXPECT_FALSE(caps_of(attr, Transport::roce, Strategy::windows).local_keys);
}

// Every work request of both queues, and the last one, may wait in one completion queue.
TEST(Caps, QueuesFitTheirCompletions) {
    const ibv_device_attr attr = rxe_like();
    const DeviceCaps caps = caps_of(attr, Transport::roce, Strategy::windows);
    EXPECT_LE(caps.max_send_wr + caps.max_recv_wr + 1, 32767u);
    EXPECT_GT(caps.max_send_wr, 10000u);
    EXPECT_EQ(caps.max_send_sge, 32u);
    EXPECT_EQ(caps.max_read_depth, 128u);
}

TEST(Caps, NonsenseOfADeviceIsNone) {
    ibv_device_attr attr{};
    attr.max_qp_wr = -1;
    attr.max_cqe = -5;
    attr.max_sge = -1;
    attr.max_qp_rd_atom = 1000;
    attr.max_qp_init_rd_atom = -1;
    const DeviceCaps caps = caps_of(attr, Transport::other, Strategy::register_each);
    EXPECT_EQ(caps.max_send_wr, 0u);
    EXPECT_EQ(caps.max_recv_wr, 0u);
    EXPECT_EQ(caps.max_send_sge, 0u);
    EXPECT_EQ(caps.max_read_responses, 255u);
    EXPECT_EQ(caps.max_read_depth, 0u);
}

TEST(Names, OfStrategiesAndTransports) {
    EXPECT_STREQ(to_string(Strategy::windows), "windows");
    EXPECT_STREQ(to_string(Strategy::umr), "umr");
    EXPECT_STREQ(to_string(Strategy::register_each), "register-each");
    EXPECT_STREQ(to_string(Transport::iwarp), "iWARP");
    EXPECT_STREQ(to_string(Transport::roce), "RoCE");
}

}  // namespace
}  // namespace nfsrdma::verbs::rdmacore
