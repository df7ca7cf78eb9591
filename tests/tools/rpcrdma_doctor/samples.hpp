#pragma once
#include <string>

#include "tools/rpcrdma_doctor/report.hpp"

namespace nfsrdma::testing {

// A device as Linux's soft-RoCE is.
inline verbs::rdmacore::DeviceInfo sample_device() {
    verbs::rdmacore::DeviceInfo out;
    out.name = "rxe0";
    out.transport = verbs::rdmacore::Transport::roce;
    out.strategy = verbs::rdmacore::Strategy::windows;
    out.windows_2b = true;
    out.caps.fast_reg = out.caps.remote_invalidate = true;
    out.max_qp = 1000;
    out.max_mw = 500;
    out.quirks = {"it has \"ways\""};
    verbs::rdmacore::PortInfo port;
    port.number = 1;
    port.active = true;
    port.state = "PORT_ACTIVE";
    port.active_mtu = 1024;
    port.max_mtu = 4096;
    port.gids = {{1, "::ffff:10.9.0.1", "RoCE v2", "v0"}};
    out.ports = {port};
    return out;
}

inline doctor::Machine sample_machine() {
    doctor::Machine out;
    out.kernel = "Linux 6.1";
    out.built_with_rdmacore = out.io_uring = true;
    out.devices = {sample_device()};
    out.kernel_devices = {"rxe0"};
    out.memlock = {8 << 20, 8 << 20, false};
    out.rmem_max = 4 << 20;
    out.connection_bytes = 4 << 20;
    out.server_bytes = 7 << 20;
    doctor::SoftAddress address;
    address.interface = "v0";
    address.address = *SockAddr::parse("10.9.0.1", 0);
    address.interface_mtu = 1500;
    address.packet_bytes = 1024;
    address.receive_window = 4 << 20;
    address.rdma_device = "rxe0";
    out.addresses = {address};
    return out;
}

inline doctor::Peer sample_peer() {
    doctor::Peer out;
    out.server = *SockAddr::parse("10.9.0.2:20049", 0);
    out.device = out.device_line = "softroce";
    out.connected = Result<void>();
    out.has_private_data = true;
    out.private_data.send_size = out.private_data.recv_size = 4096;
    out.agreed = {4096, 4096};
    out.nulls = 2;
    out.null_min_ns = 1000;
    out.null_sum_ns = 4000;
    out.credits = 32;
    out.mount = doctor::MountWay::tcp;
    out.mount_port = 20048;
    return out;
}

// The level of the first finding that says `what`; "" when none does.
inline std::string level_of(const std::vector<doctor::Finding>& findings, const char* what) {
    for (const doctor::Finding& finding : findings) {
        if ((finding.text + finding.advice).find(what) != std::string::npos)
            return to_string(finding.level);
    }
    return {};
}

}  // namespace nfsrdma::testing
