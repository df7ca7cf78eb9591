#include "tools/rpcrdma_doctor/machine.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <system_error>

#include "base/unique_fd.hpp"
#include "devices/memory.hpp"
#include "devices/rdma.hpp"
#include "verbs/softroce/udp_wire.hpp"

namespace nfsrdma::doctor {
namespace {

namespace soft = verbs::softroce;
using verbs::rdmacore::DeviceInfo;

struct FreeAddresses {
    void operator()(ifaddrs* list) const noexcept { ::freeifaddrs(list); }
};

std::uint64_t number_in(const char* path) {
    std::ifstream in(path);
    std::uint64_t value = 0;
    in >> value;
    return in ? value : 0;
}

std::vector<std::string> names_in(const char* folder) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

std::uint32_t mtu_of(const std::string& interface) {
    UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    if (!fd || ::ioctl(fd.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
    return static_cast<std::uint32_t>(request.ifr_mtu);
}

void try_softroce(SoftAddress& out) {
    soft::UdpOptions udp;
    udp.bind_patience_ms = 0;
    udp.bind = out.address.with_port(soft::kRoceV2Port);
    auto wire = soft::create_udp_wire(udp);
    out.port_free = static_cast<bool>(wire);
    if (!wire) {
        udp.bind = out.address.with_port(0);
        wire = soft::create_udp_wire(udp);
    }
    if (!wire) {
        const Error& error = wire.error();
        out.error = error.code == Errc::system ? std::generic_category().message(error.sys)
                                               : to_string(error);
        return;
    }
    out.packet_bytes = (*wire)->mtu();
    out.receive_window = (*wire)->receive_window();
}

std::vector<SoftAddress> look_at_addresses(const std::vector<DeviceInfo>& devices) {
    std::vector<SoftAddress> out;
    ifaddrs* raw = nullptr;
    if (::getifaddrs(&raw) != 0) return out;
    const std::unique_ptr<ifaddrs, FreeAddresses> list(raw);
    for (const ifaddrs* entry = list.get(); entry != nullptr; entry = entry->ifa_next) {
        if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
        const SockAddr address = SockAddr::from(entry->ifa_addr);
        if (!address.is_v4() && !address.is_v6()) continue;
        SoftAddress& here = out.emplace_back();
        here.interface = entry->ifa_name;
        here.address = address.with_port(0);
        here.interface_mtu = mtu_of(here.interface);
        const DeviceInfo* const device = device_with(devices, address, here.interface);
        if (device != nullptr) here.rdma_device = device->name;
        try_softroce(here);
    }
    return out;
}

std::string kernel_name() {
    utsname name{};
    if (::uname(&name) != 0) return "unknown";
    return std::string(name.sysname) + " " + name.release;
}

bool has_io_uring() {
    LoopOptions options;
    options.backend = LoopBackend::io_uring;
    return static_cast<bool>(Loop::create(options));
}

// By the caps of the first device that can be used.
void reckon_memory(Machine& machine) {
    for (const DeviceInfo& device : machine.devices) {
        if (!device.error.empty()) continue;
        machine.connection_bytes = devices::client_bytes({}, device.caps);
        machine.server_bytes = devices::server_bytes(devices::nfsrdmad_options(), device.caps);
        if (machine.connection_bytes > 0) return;
    }
}

}  // namespace

const DeviceInfo* device_with(const std::vector<DeviceInfo>& devices, const SockAddr& address,
                              const std::string& interface) {
    const auto gid = address.gid();
    for (const DeviceInfo& device : devices) {
        if (!device.error.empty()) continue;
        for (const verbs::rdmacore::PortInfo& port : device.ports) {
            if (!port.active) continue;
            for (const verbs::rdmacore::GidInfo& entry : port.gids) {
                auto parsed = SockAddr::parse(entry.address, 0);
                if (parsed && parsed->gid() == gid) return &device;
                // iWARP's GIDs are no addresses.
                const bool iwarp = device.transport == verbs::rdmacore::Transport::iwarp;
                if (iwarp && !interface.empty() && entry.netdev == interface) return &device;
            }
        }
    }
    return nullptr;
}

Machine look_at_machine() {
    Machine out;
    out.kernel = kernel_name();
    out.built_with_rdmacore = devices::built_with_rdmacore();
    out.devices = devices::list_rdma_devices();
    out.kernel_devices = names_in("/sys/class/infiniband");
    out.memlock = devices::memlock_limit();
    out.rmem_max = number_in("/proc/sys/net/core/rmem_max");
    out.io_uring = has_io_uring();
    reckon_memory(out);
    out.addresses = look_at_addresses(out.devices);
    return out;
}

}  // namespace nfsrdma::doctor
