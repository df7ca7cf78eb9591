#include "tools/rpcrdma_doctor/report.hpp"

#include <array>
#include <cstdio>

#include "devices/rdma.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::doctor {
namespace {

using tool::human_bytes;
using verbs::rdmacore::DeviceInfo;
using verbs::rdmacore::GidInfo;
using verbs::rdmacore::PortInfo;

std::string bytes(std::uint64_t count) {
    return count == UINT64_MAX ? "no limit" : human_bytes(static_cast<double>(count));
}

std::string padded(std::string text, std::size_t width) {
    if (text.size() < width) text.resize(width, ' ');
    return text;
}

std::string us(std::uint64_t ns) {
    std::array<char, 32> text{};
    constexpr double kNsPerUsReal = 1000;
    (void)std::snprintf(text.data(), text.size(), "%.1f us",
                        static_cast<double>(ns) / kNsPerUsReal);
    return text.data();
}

void tell_port(std::string& out, const PortInfo& port) {
    out += "    port " + std::to_string(port.number) + ": " + port.state;
    if (port.active_mtu != 0) {
        out += ", packets of " + std::to_string(port.active_mtu) + " bytes (at most " +
               std::to_string(port.max_mtu) + ")";
    }
    out += '\n';
    for (const GidInfo& gid : port.gids) {
        out += "      GID " + std::to_string(gid.index) + ": " + gid.address;
        if (!gid.type.empty()) out += ", " + gid.type;
        if (!gid.netdev.empty()) out += ", " + gid.netdev;
        out += '\n';
    }
}

void tell_device(std::string& out, const DeviceInfo& device) {
    out += "  " + device.name;
    if (!device.error.empty()) {
        out += ": " + device.error + '\n';
        return;
    }
    out += std::string(": ") + devices::name_of(device.transport);
    if (!device.firmware.empty()) out += ", firmware " + device.firmware;
    std::array<char, 40> id{};
    (void)std::snprintf(id.data(), id.size(), ", vendor 0x%x part 0x%x\n", device.vendor_id,
                        device.part_id);
    out += id.data();
    for (const PortInfo& port : device.ports)
        tell_port(out, port);
    out += "    memory windows of type 2B: ";
    out += device.windows_2b ? "yes, " + std::to_string(device.max_mw) : "no";
    out += "; keys would be made by ";
    out += devices::name_of(device.strategy);
    out += device.caps.remote_invalidate ? "; peers may invalidate them\n"
                                         : "; peers may not invalidate them\n";
    out += "    limits: " + std::to_string(device.max_qp) + " queue pairs of " +
           std::to_string(device.max_qp_wr) + " requests, " + std::to_string(device.max_sge) +
           " SGEs, " + std::to_string(device.max_rd_atom) + " READs in flight, " +
           std::to_string(device.max_mr) + " memory regions of " + bytes(device.max_mr_size) + '\n';
    for (const std::string& quirk : device.quirks)
        out += "    quirk: " + quirk + '\n';
}

void tell_softroce(std::string& out, const Machine& machine) {
    out += "softroce (RoCEv2 in user space, over UDP), by address:\n";
    for (const SoftAddress& address : machine.addresses) {
        out += "  " + padded(address.address.address_to_string(), 26) + ' ';
        if (!address.error.empty()) {
            out += address.error + '\n';
            continue;
        }
        out += address.interface + ", MTU " + std::to_string(address.interface_mtu) +
               ": packets of " + std::to_string(address.packet_bytes) + " bytes, " +
               bytes(address.receive_window) + " in flight, port 4791 " +
               (address.port_free ? "free" : "taken") + '\n';
    }
}

void tell_choice(std::string& out, const Machine& machine) {
    out += "--device auto would take:\n";
    for (const SoftAddress& address : machine.addresses) {
        out += "  " + padded(address.address.address_to_string(), 26) + ' ' +
               (address.rdma_device.empty() ? "softroce" : "rdmacore:" + address.rdma_device) +
               '\n';
    }
}

void tell_machine(std::string& out, const Machine& machine, const std::string& device) {
    const bool all = device.empty(), soft = device == "softroce";
    out += machine.kernel + ", io_uring " + (machine.io_uring ? "yes" : "no") +
           ", lockable memory " +
           (machine.memlock.exempt ? "no limit" : bytes(machine.memlock.soft)) + '\n';
    if (!soft) {
        out += "RDMA devices of the kernel:\n";
        if (!machine.built_with_rdmacore) out += "  not looked at: built without rdma-core\n";
        if (machine.built_with_rdmacore && machine.devices.empty()) out += "  none\n";
        for (const DeviceInfo& entry : machine.devices)
            if (all || entry.name == device) tell_device(out, entry);
    }
    if (all || soft) tell_softroce(out, machine);
    if (all) tell_choice(out, machine);
}

void tell_peer(std::string& out, const Peer& peer) {
    out += peer.server.to_string() + " by " + peer.device_line + '\n';
    if (!peer.device_error.empty() || !peer.connected) return;
    out += "  connected in " + us(peer.connect_ns) + "; the peer keeps up to " +
           std::to_string(peer.reads_by_peer) + " RDMA READs in flight towards us\n";
    if (peer.has_private_data) {
        out += "  private data (RFC 8797): sends " + std::to_string(peer.private_data.send_size) +
               " bytes inline, receives " + std::to_string(peer.private_data.recv_size) +
               ", remote invalidation " +
               (peer.private_data.remote_invalidation ? "supported" : "not asked for") + '\n';
    } else {
        out += "  private data (RFC 8797): none, so 1024 bytes inline both ways\n";
    }
    out += "  agreed inline: " + std::to_string(peer.agreed.send) + " bytes to the peer, " +
           std::to_string(peer.agreed.recv) + " from it; we " +
           (peer.offers_invalidation ? "let it invalidate our keys\n"
                                     : "do not let it invalidate our keys\n");
    if (peer.nulls == 0) return;
    out += "  NFS version 3 NULL: " + std::to_string(peer.nulls) + " calls, min " +
           us(peer.null_min_ns) + ", avg " + us(peer.null_sum_ns / peer.nulls) + "; " +
           std::to_string(peer.credits) + " credits\n";
    if (peer.mount == MountWay::unknown) return;
    out += std::string("  MOUNT version 3: ") + to_string(peer.mount);
    if (peer.mount_port != 0) out += ", port " + std::to_string(peer.mount_port);
    out += '\n';
}

}  // namespace

const char* to_string(MountWay way) noexcept {
    switch (way) {
        case MountWay::unknown:
            return "unknown";
        case MountWay::rdma:
            return "over RDMA";
        case MountWay::tcp:
            return "over TCP";
        case MountWay::udp:
            return "over UDP";
        case MountWay::none:
            return "none that rpcbind knows of";
    }
    return "";
}

std::string to_text(const Report& report) {
    std::string out;
    if (report.machine) tell_machine(out, *report.machine, report.device);
    if (report.peer) tell_peer(out, *report.peer);
    out += '\n';
    constexpr std::size_t kLevelWidth = 8;
    for (const Finding& finding : report.findings) {
        out += padded(to_string(finding.level), kLevelWidth) + finding.text + '\n';
        if (!finding.advice.empty())
            out += std::string(kLevelWidth, ' ') + "-> " + finding.advice + '\n';
    }
    return out;
}

}  // namespace nfsrdma::doctor
