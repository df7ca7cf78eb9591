#include "verbs/rdmacore/quirks.hpp"

#include <algorithm>
#include <array>

#include <infiniband/verbs.h>

namespace nfsrdma::verbs::rdmacore {

namespace {

constexpr std::uint32_t kVendorRxe = 0xFFFFFF;
constexpr std::uint32_t kVendorSiw = 0x626D74;  // "bmt"

// rxe hands the kernel's own flag bits to user space: there, bit 2 is "with invalidate", which
// libibverbs calls IBV_WC_IP_CSUM_OK; rxe has no other use for either bit.
constexpr std::uint32_t kRxeWithInvalidate = 1u << IBV_WC_IP_CSUM_OK_SHIFT;

struct Row {
    std::uint32_t vendor_id;
    Quirks quirks;
};

constexpr std::array<Row, 2> kTable = {{
    {kVendorRxe, {.family = "rxe", .invalidated_flags = kRxeWithInvalidate | IBV_WC_WITH_INV}},
    {kVendorSiw,
     {.family = "siw",
      .invalidated_flags = IBV_WC_WITH_INV,
      .drains = false,
      .connect_blocks = true}},
}};

// One place of each send queue is kept for the work request that tells that all others have ended.
constexpr std::uint32_t kDrainWrs = 1;
// A key covers any length; a length is 32 bits.
constexpr std::uint32_t kPagesMax = 0xFFFFFFFFu / 4096;
// Of a connection's depth fields.
constexpr std::uint32_t kReadDepthMax = 255;

std::uint32_t positive(int value) noexcept {
    return value > 0 ? static_cast<std::uint32_t>(value) : 0;
}

}  // namespace

const char* to_string(Strategy strategy) noexcept {
    switch (strategy) {
        case Strategy::automatic:
            return "automatic";
        case Strategy::windows:
            return "windows";
        case Strategy::umr:
            return "umr";
        case Strategy::register_each:
            return "register-each";
    }
    return "?";
}

const char* to_string(Transport transport) noexcept {
    switch (transport) {
        case Transport::infiniband:
            return "InfiniBand";
        case Transport::roce:
            return "RoCE";
        case Transport::iwarp:
            return "iWARP";
        case Transport::other:
            return "other";
    }
    return "?";
}

Quirks quirks_of(std::uint32_t vendor_id) noexcept {
    const auto row = std::find_if(kTable.begin(), kTable.end(),
                                  [&](const Row& r) { return r.vendor_id == vendor_id; });
    if (row != kTable.end()) return row->quirks;
    return {.family = "", .invalidated_flags = IBV_WC_WITH_INV};
}

std::vector<std::string> describe(const Quirks& quirks) {
    std::vector<std::string> out;
    if (quirks.invalidated_flags != IBV_WC_WITH_INV) {
        out.emplace_back("reports remote invalidation by the kernel's flag bit (2), not by bit 3");
    }
    if (!quirks.drains) {
        out.emplace_back(
            "completes nothing that is posted after an error: we flush what it has not told of");
    }
    if (quirks.connect_blocks) {
        out.emplace_back(
            "connects by TCP within the call: a host that answers ARP and drops the connection's "
            "packets stops the loop for up to two minutes (net.ipv4.tcp_syn_retries)");
    }
    return out;
}

bool claims_windows(const ibv_device_attr& attr) noexcept {
    // Remote invalidation of a window and LOCAL_INV come with the memory management extensions.
    constexpr unsigned kNeeded = IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
    return (attr.device_cap_flags & kNeeded) == kNeeded && attr.max_mw > 0;
}

bool has_reliable_connections(int node_type, int transport_type) noexcept {
    if (transport_type == IBV_TRANSPORT_IB)
        return node_type == IBV_NODE_CA || node_type == IBV_NODE_ROUTER;
    return transport_type == IBV_TRANSPORT_IWARP && node_type == IBV_NODE_RNIC;
}

Result<Strategy> choose_strategy(const Abilities& can, Strategy wanted) noexcept {
    switch (wanted) {
        case Strategy::automatic:
            // UMR, which no card of ours has run, is for those who ask for it.
            return can.windows ? Strategy::windows : Strategy::register_each;
        case Strategy::windows:
            if (can.windows) return wanted;
            return Error{Errc::unsupported, 0, "the device makes no type-2B memory windows"};
        case Strategy::umr:
            if (can.umr) return wanted;
            return Error{Errc::unsupported, 0, "the device has no UMR (mlx5 only)"};
        case Strategy::register_each:
            return wanted;
    }
    return Error{Errc::invalid_argument, 0, "registration strategy"};
}

DeviceCaps caps_of(const ibv_device_attr& attr, Transport transport, Strategy strategy) noexcept {
    DeviceCaps caps;
    // Every work request of a queue pair may end in a completion of one queue.
    const std::uint32_t completions = positive(attr.max_cqe) / 2;
    const std::uint32_t wrs = std::min(positive(attr.max_qp_wr), completions);
    caps.max_send_wr = wrs > kDrainWrs ? wrs - kDrainWrs : 0;
    caps.max_recv_wr = wrs;
    caps.max_send_sge = caps.max_recv_sge = positive(attr.max_sge);
    caps.max_read_sge = std::min(positive(attr.max_sge_rd), caps.max_send_sge);
    caps.max_fast_reg_pages = kPagesMax;
    caps.max_read_depth = std::min(positive(attr.max_qp_init_rd_atom), kReadDepthMax);
    caps.max_read_responses = std::min(positive(attr.max_qp_rd_atom), kReadDepthMax);
    caps.fast_reg = true;
    caps.page_list_reg = false;
    caps.remote_invalidate = strategy == Strategy::windows || strategy == Strategy::umr;
    caps.read_sink_needs_key = transport == Transport::iwarp;
    caps.local_keys = strategy == Strategy::register_each;
    return caps;
}

}  // namespace nfsrdma::verbs::rdmacore
