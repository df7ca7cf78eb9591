#include "verbs/rdmacore/find.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <fstream>
#include <linux/capability.h>
#include <net/if.h>
#include <span>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "verbs/rdmacore/probe.hpp"
#include "verbs/rdmacore/quirks.hpp"
#include "verbs/rdmacore/umr.hpp"

// Operation. Devices are looked at by a context of their own each time: nothing is remembered.
//
// Ownership. Every list, context and channel dies with the function that made it, but for the
// context of the device that is returned.
//
// Errors. A device that cannot be asked is listed with the reason.
namespace nfsrdma::verbs::rdmacore {

namespace {

constexpr std::size_t kGidsMax = 1024;

struct FreeList {
    void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
};

class DeviceList {
  public:
    DeviceList() noexcept : list_(ibv_get_device_list(&count_)), error_(errno) {}
    std::span<ibv_device* const> all() const noexcept {
        return {list_.get(), list_ == nullptr ? 0 : static_cast<std::size_t>(count_)};
    }
    int error() const noexcept { return list_ == nullptr ? error_ : 0; }

  private:
    int count_ = 0;
    std::unique_ptr<ibv_device*, FreeList> list_;
    int error_;
};

std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << static_cast<unsigned>(mtu) : 0;
}

bool has_active_port(ibv_context& context) noexcept {
    ibv_device_attr attr{};
    if (ibv_query_device(&context, &attr) != 0) return false;
    for (std::uint8_t port = 1; port <= attr.phys_port_cnt; ++port) {
        ibv_port_attr found{};
        if (ibv_query_port(&context, port, &found) == 0 && found.state == IBV_PORT_ACTIVE)
            return true;
    }
    return false;
}

// EFA and usNIC are RDMA devices to the kernel, and of no use here.
bool usable(const ibv_device& device) noexcept {
    return has_reliable_connections(device.node_type, device.transport_type);
}

ContextHandle open_context(ibv_device& device, Strategy wanted) noexcept {
    if (wanted == Strategy::umr) return umr::open_context(device);
    return ContextHandle(ibv_open_device(&device));
}

Result<ContextHandle> open_named(const DeviceList& devices, const std::string& name,
                                 Strategy wanted) {
    for (ibv_device* const device : devices.all()) {
        if (name != ibv_get_device_name(device)) continue;
        if (!usable(*device)) return Error{Errc::unsupported, 0, kNoReliableConnections};
        ContextHandle context = open_context(*device, wanted);
        if (context == nullptr) return Error{Errc::system, errno, "open the RDMA device"};
        return context;
    }
    return Error{Errc::unsupported, 0, "this machine has no RDMA device of that name or address"};
}

// The name of the device that has this local address; empty when none has.
std::string device_at(const SockAddr& address) {
    EventChannelHandle channel(rdma_create_event_channel());
    if (channel == nullptr) return {};
    rdma_cm_id* raw = nullptr;
    if (rdma_create_id(channel.get(), &raw, nullptr, RDMA_PS_TCP) != 0) return {};
    CmIdHandle id(raw);
    // The library takes a pointer to what it only reads.
    auto* const sa = const_cast<sockaddr*>(address.sa());
    if (rdma_bind_addr(id.get(), sa) != 0 || id->verbs == nullptr) return {};
    return ibv_get_device_name(id->verbs->device);
}

std::string text_of(const ibv_gid& gid) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (::inet_ntop(AF_INET6, gid.raw, text.data(), text.size()) == nullptr) return {};
    return text.data();
}

std::string first_line(const std::string& path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

PortInfo port_info(ibv_context& context, std::uint8_t number, std::span<const ibv_gid_entry> gids) {
    PortInfo out;
    out.number = number;
    ibv_port_attr attr{};
    if (ibv_query_port(&context, number, &attr) != 0) {
        out.state = "unknown";
        return out;
    }
    out.active = attr.state == IBV_PORT_ACTIVE;
    out.state = ibv_port_state_str(attr.state);
    out.active_mtu = mtu_bytes(attr.active_mtu);
    out.max_mtu = mtu_bytes(attr.max_mtu);
    const std::string folder = std::string("/sys/class/infiniband/") +
                               ibv_get_device_name(context.device) + "/ports/" +
                               std::to_string(number) + "/gid_attrs/types/";
    for (const ibv_gid_entry& entry : gids) {
        if (entry.port_num != number) continue;
        GidInfo gid;
        gid.index = entry.gid_index;
        gid.address = text_of(entry.gid);
        gid.type = first_line(folder + std::to_string(entry.gid_index));
        std::array<char, IF_NAMESIZE> netdev{};
        if (::if_indextoname(entry.ndev_ifindex, netdev.data()) != nullptr)
            gid.netdev = netdev.data();
        out.gids.push_back(std::move(gid));
    }
    return out;
}

std::uint32_t positive(int value) noexcept {
    return value > 0 ? static_cast<std::uint32_t>(value) : 0;
}

void fill_limits(DeviceInfo& out, const ibv_device_attr& attr) {
    out.firmware = attr.fw_ver;
    out.vendor_id = attr.vendor_id;
    out.part_id = attr.vendor_part_id;
    out.max_mr_size = attr.max_mr_size;
    out.max_qp = positive(attr.max_qp);
    out.max_qp_wr = positive(attr.max_qp_wr);
    out.max_cq = positive(attr.max_cq);
    out.max_cqe = positive(attr.max_cqe);
    out.max_mr = positive(attr.max_mr);
    out.max_mw = positive(attr.max_mw);
    out.max_sge = positive(attr.max_sge);
    out.max_sge_rd = positive(attr.max_sge_rd);
    out.max_rd_atom = positive(attr.max_qp_rd_atom);
}

DeviceInfo failed(DeviceInfo info, const Error& error) {
    info.error = error.code == Errc::unsupported ? error.what : to_string(error);
    return info;
}

DeviceInfo info_of(ibv_device& device) {
    DeviceInfo out;
    out.name = ibv_get_device_name(&device);
    out.reliable = usable(device);
    if (!out.reliable)
        return failed(std::move(out), {Errc::unsupported, 0, kNoReliableConnections});
    ContextHandle context = open_context(device, Strategy::automatic);
    ibv_device_attr attr{};
    const int error = context == nullptr ? errno : ibv_query_device(context.get(), &attr);
    if (error != 0)
        return failed(std::move(out), Error{Errc::system, error, "open the RDMA device"});
    fill_limits(out, attr);
    out.transport = transport_of(*context);
    const Quirks quirks = quirks_of(attr.vendor_id);
    out.family = quirks.family;
    out.quirks = describe(quirks);
    auto probed = probe(*context, attr, Strategy::automatic);
    if (!probed) return failed(std::move(out), probed.error());
    out.strategy = probed->strategy;
    out.caps = probed->caps;
    out.windows_2b = claims_windows(attr) && probed->window_error == 0;
    out.window_error = probed->window_error;
    std::vector<ibv_gid_entry> gids(kGidsMax);
    const ssize_t count = ibv_query_gid_table(context.get(), gids.data(), gids.size(), 0);
    gids.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    for (std::uint8_t port = 1; port <= attr.phys_port_cnt; ++port)
        out.ports.push_back(port_info(*context, port, gids));
    return out;
}

bool may_lock_all() noexcept {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (::syscall(SYS_capget, &header, data.data()) != 0) return false;
    return (data[0].effective & (1u << CAP_IPC_LOCK)) != 0;
}

std::uint64_t bytes_of(rlim_t limit) noexcept {
    return limit == RLIM_INFINITY ? UINT64_MAX : static_cast<std::uint64_t>(limit);
}

}  // namespace

Transport transport_of(ibv_context& context) noexcept {
    if (context.device->transport_type == IBV_TRANSPORT_IWARP) return Transport::iwarp;
    if (context.device->transport_type != IBV_TRANSPORT_IB) return Transport::other;
    ibv_port_attr port{};
    if (ibv_query_port(&context, 1, &port) != 0) return Transport::infiniband;
    return port.link_layer == IBV_LINK_LAYER_ETHERNET ? Transport::roce : Transport::infiniband;
}

std::uint8_t first_active_port(ibv_context& context, const ibv_device_attr& attr) noexcept {
    for (std::uint8_t port = 1; port <= attr.phys_port_cnt; ++port) {
        ibv_port_attr found{};
        if (ibv_query_port(&context, port, &found) == 0 && found.state == IBV_PORT_ACTIVE)
            return port;
    }
    return 1;
}

Result<Found> find_device(const std::string& name_or_address, Strategy wanted) {
    const DeviceList devices;
    if (devices.all().empty()) {
        return Error{Errc::unsupported, devices.error(),
                     "this machine has no RDMA device (for soft-RoCE: modprobe rdma_rxe; rdma link "
                     "add rxe0 type rxe netdev NETDEV)"};
    }
    Found found;
    if (!name_or_address.empty()) {
        std::string name = name_or_address;
        if (auto address = SockAddr::parse(name_or_address, 0); address && !address->is_any()) {
            found.source = *address;
            name = device_at(*address);
        }
        NR_TRY_ASSIGN(found.context, open_named(devices, name, wanted));
        return found;
    }
    int error = 0;
    bool any_usable = false;
    for (ibv_device* const device : devices.all()) {
        if (!usable(*device)) continue;
        any_usable = true;
        ContextHandle context = open_context(*device, wanted);
        if (context == nullptr) {
            error = errno;
            continue;
        }
        const bool active = has_active_port(*context);
        if (active || found.context == nullptr) found.context = std::move(context);
        if (active) break;
    }
    if (!any_usable) return Error{Errc::unsupported, 0, kNoReliableConnections};
    if (found.context == nullptr) return Error{Errc::system, error, "open the RDMA device"};
    return found;
}

std::vector<DeviceInfo> list_devices() {
    const DeviceList devices;
    std::vector<DeviceInfo> out;
    for (ibv_device* const device : devices.all())
        out.push_back(info_of(*device));
    return out;
}

MemlockLimit memlock_limit() noexcept {
    MemlockLimit out;
    rlimit limit{};
    if (::getrlimit(RLIMIT_MEMLOCK, &limit) == 0) {
        out.soft = bytes_of(limit.rlim_cur);
        out.hard = bytes_of(limit.rlim_max);
    }
    out.exempt = may_lock_all();
    return out;
}

}  // namespace nfsrdma::verbs::rdmacore
