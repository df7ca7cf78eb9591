#include "tools/nfsrdma/json.hpp"
#include "tools/rpcrdma_doctor/report.hpp"

namespace nfsrdma::doctor {
namespace {

using tool::json_string;
using tool::JsonObject;

// "[...]" of what `one` makes of each.
template <class List, class One>
std::string array_of(const List& list, One one) {
    std::string out = "[";
    for (const auto& entry : list) {
        if (out.size() > 1) out += ',';
        out += one(entry);
    }
    return out + "]";
}

// For programs: these words do not change.
const char* word_of(verbs::rdmacore::Transport transport) noexcept {
    switch (transport) {
        case verbs::rdmacore::Transport::infiniband:
            return "infiniband";
        case verbs::rdmacore::Transport::roce:
            return "roce";
        case verbs::rdmacore::Transport::iwarp:
            return "iwarp";
        case verbs::rdmacore::Transport::other:
            return "other";
    }
    return "";
}
const char* word_of(verbs::rdmacore::Strategy strategy) noexcept {
    switch (strategy) {
        case verbs::rdmacore::Strategy::automatic:
            return "automatic";
        case verbs::rdmacore::Strategy::windows:
            return "windows";
        case verbs::rdmacore::Strategy::umr:
            return "umr";
        case verbs::rdmacore::Strategy::register_each:
            return "register_each";
    }
    return "";
}

std::string json_of(const verbs::rdmacore::PortInfo& port) {
    const auto gid = [](const verbs::rdmacore::GidInfo& entry) {
        return JsonObject()
            .add("index", entry.index)
            .add("address", entry.address)
            .add("type", entry.type)
            .add("netdev", entry.netdev)
            .text();
    };
    return JsonObject()
        .add("number", port.number)
        .add("active", port.active)
        .add("state", port.state)
        .add("mtu", port.active_mtu)
        .add("mtu_max", port.max_mtu)
        .add_raw("gids", array_of(port.gids, gid))
        .text();
}

std::string json_of(const verbs::rdmacore::DeviceInfo& device) {
    JsonObject out;
    out.add("name", device.name);
    if (!device.error.empty()) return out.add("error", device.error).text();
    const auto port = [](const verbs::rdmacore::PortInfo& entry) { return json_of(entry); };
    return out.add("transport", word_of(device.transport))
        .add("firmware", device.firmware)
        .add("vendor_id", device.vendor_id)
        .add("part_id", device.part_id)
        .add("strategy", word_of(device.strategy))
        .add("windows_2b", device.windows_2b)
        .add("remote_invalidate", device.caps.remote_invalidate)
        .add("qps", device.max_qp)
        .add("qp_wrs", device.max_qp_wr)
        .add("sges", device.max_sge)
        .add("reads_in_flight", device.max_rd_atom)
        .add("memory_regions", device.max_mr)
        .add("memory_region_bytes", device.max_mr_size)
        .add("windows", device.max_mw)
        .add_raw("quirks",
                 array_of(device.quirks, [](const std::string& text) { return json_string(text); }))
        .add_raw("ports", array_of(device.ports, port))
        .text();
}

std::string json_of(const SoftAddress& address) {
    JsonObject out;
    out.add("address", address.address.address_to_string())
        .add("interface", address.interface)
        .add("interface_mtu", address.interface_mtu)
        .add("auto", address.rdma_device.empty() ? "softroce" : "rdmacore:" + address.rdma_device);
    if (!address.error.empty()) return out.add("error", address.error).text();
    return out.add("packet_bytes", address.packet_bytes)
        .add("receive_window", address.receive_window)
        .add("port_free", address.port_free)
        .text();
}

std::string json_of(const Machine& machine, const std::string& only) {
    std::vector<verbs::rdmacore::DeviceInfo> devices;
    for (const verbs::rdmacore::DeviceInfo& device : machine.devices)
        if (only.empty() || device.name == only) devices.push_back(device);
    const auto limit = [](std::uint64_t bytes) {
        return bytes == UINT64_MAX ? std::string("null") : std::to_string(bytes);
    };
    return JsonObject()
        .add("kernel", machine.kernel)
        .add("io_uring", machine.io_uring)
        .add("rdmacore", machine.built_with_rdmacore)
        .add_raw("memlock", JsonObject()
                                .add_raw("soft", limit(machine.memlock.soft))
                                .add_raw("hard", limit(machine.memlock.hard))
                                .add("exempt", machine.memlock.exempt)
                                .text())
        .add("connection_bytes", machine.connection_bytes)
        .add("server_bytes", machine.server_bytes)
        .add("rmem_max", machine.rmem_max)
        .add_raw("devices", array_of(devices, [](const auto& device) { return json_of(device); }))
        .add_raw("softroce",
                 array_of(machine.addresses, [](const auto& address) { return json_of(address); }))
        .text();
}

const char* word_of(MountWay way) noexcept {
    switch (way) {
        case MountWay::unknown:
            return "unknown";
        case MountWay::rdma:
            return "rdma";
        case MountWay::tcp:
            return "tcp";
        case MountWay::udp:
            return "udp";
        case MountWay::none:
            return "none";
    }
    return "";
}

std::string json_of(const Peer& peer) {
    JsonObject out;
    out.add("server", peer.server.to_string());
    if (!peer.device_error.empty()) return out.add("error", peer.device_error).text();
    out.add("device", peer.device).add("connected", static_cast<bool>(peer.connected));
    if (!peer.connected) {
        return out.add("error", to_string(peer.connected.error()))
            .add("reject_reason", std::uint32_t{peer.reject_reason})
            .text();
    }
    out.add("connect_ns", peer.connect_ns)
        .add("private_data", peer.has_private_data)
        .add("send_size", peer.private_data.send_size)
        .add("recv_size", peer.private_data.recv_size)
        .add("remote_invalidation", peer.private_data.remote_invalidation)
        .add("inline_send", peer.agreed.send)
        .add("inline_recv", peer.agreed.recv)
        .add("reads_in_flight", peer.reads_by_peer)
        .add("nfs3", peer.null.ok());
    if (!peer.null.ok()) return out.add("error", to_string(peer.null)).text();
    return out.add("nulls", peer.nulls)
        .add("null_min_ns", peer.null_min_ns)
        .add("null_avg_ns", peer.nulls == 0 ? 0 : peer.null_sum_ns / peer.nulls)
        .add("credits", peer.credits)
        .add("mount", word_of(peer.mount))
        .add("mount_port", std::uint32_t{peer.mount_port})
        .text();
}

std::string json_of(const Finding& finding) {
    return JsonObject()
        .add("level", to_string(finding.level))
        .add("text", finding.text)
        .add("advice", finding.advice)
        .text();
}

}  // namespace

std::string to_json(const Report& report) {
    JsonObject out;
    if (report.machine) out.add_raw("machine", json_of(*report.machine, report.device));
    if (report.peer) out.add_raw("peer", json_of(*report.peer));
    out.add_raw("findings",
                array_of(report.findings, [](const Finding& finding) { return json_of(finding); }));
    out.add("failure", any_failure(report.findings));
    return out.line();
}

}  // namespace nfsrdma::doctor
