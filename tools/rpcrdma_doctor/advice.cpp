#include "tools/rpcrdma_doctor/advice.hpp"

#include <algorithm>
#include <system_error>

#include "devices/memory.hpp"
#include "tools/nfsrdma/text.hpp"

namespace nfsrdma::doctor {
namespace {

using tool::human_bytes;
using verbs::rdmacore::DeviceInfo;
using verbs::rdmacore::PortInfo;
using verbs::rdmacore::Strategy;
using verbs::rdmacore::Transport;

constexpr std::uint64_t kReceiveBuffer = 4u << 20;  // that softroce asks for
constexpr std::uint32_t kPacketMax = 4096;
constexpr std::uint32_t kPacketPlain = 1024;  // of an Ethernet of 1500 bytes

using Findings = std::vector<Finding>;

void add(Findings& out, Level level, std::string text, std::string advice = {}) {
    out.push_back({level, std::move(text), std::move(advice)});
}

std::string bytes(std::uint64_t count) {
    return human_bytes(static_cast<double>(count));
}

void judge_port(const DeviceInfo& device, const PortInfo& port, Findings& out) {
    const std::string name = device.name + " port " + std::to_string(port.number);
    if (!port.active) {
        add(out, Level::warning, name + " is not active (" + port.state + ")",
            "connect the cable, or set its interface up: ip link set NETDEV up; rdma link shows "
            "which it is");
        return;
    }
    if (port.gids.empty()) {
        add(out, Level::warning, name + " has no GID: nobody can address it",
            "give its network interface an IP address");
    }
    if (device.transport == Transport::roce && port.active_mtu <= kPacketPlain) {
        add(out, Level::note,
            name + " sends packets of " + std::to_string(port.active_mtu) + " bytes",
            "an interface MTU of 4200 or more, at both ends and between, makes that 4096");
    }
}

// Why a device that could have windows, or says that it has, is used without them.
std::string want_of_windows(const DeviceInfo& device) {
    if (device.window_error == 0) return " has no memory windows of type 2B";
    return " says that it has memory windows of type 2B, but makes none (" +
           std::generic_category().message(device.window_error) + ")";
}

void judge_device(const DeviceInfo& device, Findings& out) {
    if (!device.reliable) {
        add(out, Level::note, device.name + " is left alone: " + device.error,
            "EFA and usNIC are such devices; --device softroce needs none");
        return;
    }
    if (!device.error.empty()) {
        add(out, Level::warning, device.name + " cannot be opened: " + device.error,
            "this user needs access to /dev/infiniband/uverbs*, and rdma-core the provider of the "
            "device (package ibverbs-providers)");
        return;
    }
    for (const PortInfo& port : device.ports)
        judge_port(device, port, out);
    const bool active = std::any_of(device.ports.begin(), device.ports.end(),
                                    [](const PortInfo& port) { return port.active; });
    if (device.strategy == Strategy::register_each) {
        add(out, Level::warning,
            device.name + want_of_windows(device) +
                ": each call registers its memory with "
                "the kernel, some 130 us a MiB, and peers cannot invalidate its keys",
            "nothing is unsafe; --registration static is faster and leaves all memory of a "
            "connection open to its peer, which is for measurements only");
    } else if (active) {
        add(out, Level::fine,
            device.name + " can be used: a memory key is bound for each call by " +
                (device.strategy == Strategy::umr ? "UMR" : "a window") +
                ", and peers may invalidate it");
    }
}

void judge_kernel_devices(const Machine& machine, Findings& out) {
    if (!machine.built_with_rdmacore) {
        add(out, Level::note,
            "this program was built without rdma-core: it sees no RDMA device of the kernel",
            "build it where libibverbs-dev and librdmacm-dev are");
        return;
    }
    for (const std::string& name : machine.kernel_devices) {
        const bool listed =
            std::any_of(machine.devices.begin(), machine.devices.end(),
                        [&](const DeviceInfo& device) { return device.name == name; });
        if (listed) continue;
        add(out, Level::warning, "the kernel has " + name + ", but rdma-core does not see it",
            "modprobe ib_uverbs; modprobe rdma_ucm; in a container: hand in /dev/infiniband");
    }
    if (machine.devices.empty() && machine.kernel_devices.empty()) {
        add(out, Level::note, "the kernel has no RDMA device; softroce serves in its place",
            "for a network card load its driver (mlx5_ib, irdma ...); for Linux's own soft-RoCE: "
            "modprobe rdma_rxe; rdma link add rxe0 type rxe netdev NETDEV");
    }
}

void judge_memlock(const Machine& machine, Findings& out) {
    const auto& limit = machine.memlock;
    if (machine.devices.empty() || machine.connection_bytes == 0) return;
    if (limit.exempt || limit.soft == UINT64_MAX) {
        add(out, Level::fine, "memory may be locked without a limit");
        return;
    }
    const std::string text = "RLIMIT_MEMLOCK is " + bytes(limit.soft) +
                             "; with a device of the kernel nfsrdma registers " +
                             bytes(machine.connection_bytes) +
                             " for a connection (more with -j above 32), nfsrdmad " +
                             bytes(machine.server_bytes) + " for each of its loops";
    const bool client = devices::may_lock(limit, machine.connection_bytes);
    const bool server = devices::may_lock(limit, machine.server_bytes);
    if (client && server) {
        add(out, Level::fine, text);
        return;
    }
    const char* const who = client ? ": nfsrdmad" : server ? ": nfsrdma" : ": both";
    add(out, Level::warning, text + who + " would fail; --device auto takes softroce",
        "ulimit -l unlimited (systemd: LimitMEMLOCK=infinity; a container: --ulimit memlock=-1); "
        "softroce needs none");
}

void judge_softroce(const Machine& machine, Findings& out) {
    std::size_t usable = 0;
    for (const SoftAddress& address : machine.addresses) {
        if (!address.error.empty()) continue;
        ++usable;
        if (address.port_free || address.address.is_loopback()) continue;
        add(out, Level::note,
            "UDP port 4791 of " + address.address.address_to_string() +
                " is taken, by another process or by the kernel's own RoCE: a softroce device "
                "there reaches peers of its own kind only",
            address.rdma_device.empty()
                ? "--bind another address of this machine"
                : "use --device rdmacore:" + address.rdma_device + ", or --bind another address");
    }
    if (usable == 0) {
        add(out, Level::failure, "softroce can be used at no address of this machine",
            "it needs a network interface that is up, and UDP sockets");
    } else {
        add(out, Level::fine, "softroce can be used at " + std::to_string(usable) + " addresses");
    }
    if (machine.rmem_max != 0 && machine.rmem_max < kReceiveBuffer) {
        add(out, Level::warning,
            "net.core.rmem_max is " + bytes(machine.rmem_max) +
                ": softroce keeps less in flight than it could",
            "sysctl net.core.rmem_max=4194304");
    }
    for (const SoftAddress& address : machine.addresses) {
        if (address.packet_bytes == 0 || address.packet_bytes >= kPacketMax ||
            address.address.is_loopback() || !address.address.is_v4())
            continue;
        add(out, Level::note,
            address.address.address_to_string() + " (" + address.interface + ", MTU " +
                std::to_string(address.interface_mtu) + ") sends packets of " +
                std::to_string(address.packet_bytes) + " bytes",
            "an MTU of 4200 or more, at both ends and between, makes that 4096");
    }
}

void judge_mount(const Peer& peer, Findings& out) {
    switch (peer.mount) {
        case MountWay::unknown:
            return;
        case MountWay::rdma:
            add(out, Level::fine, "MOUNT version 3 is served over RDMA");
            return;
        case MountWay::tcp:
        case MountWay::udp:
            add(out, Level::fine,
                std::string("MOUNT version 3 is served over ")
                    .append(peer.mount == MountWay::tcp ? "TCP" : "UDP")
                    .append(", port ")
                    .append(std::to_string(peer.mount_port))
                    .append(": nfsrdma asks there by itself"));
            return;
        case MountWay::none:
            add(out, Level::warning,
                "MOUNT version 3 is not served over RDMA, and rpcbind there knows of none",
                "start its mountd and rpcbind, or name mountd's port: nfsrdma --mountport PORT");
            return;
    }
}

std::string port_of(const Peer& peer) {
    return std::to_string(peer.server.port());
}

void judge_refusal(const Peer& peer, Findings& out) {
    const Error& error = peer.connected.error();
    const std::string server = peer.server.to_string();
    switch (error.code) {
        case Errc::refused:
            add(out, Level::failure,
                server + " refuses: " + error.what + " (reason " +
                    std::to_string(peer.reject_reason) + ")",
                "start nfsrdmad there, or on Linux rpc.nfsd --rdma; is " + port_of(peer) +
                    " the port that it serves RDMA at?");
            return;
        case Errc::timed_out:
        case Errc::reconnect:
            add(out, Level::failure, server + " does not answer by RDMA",
                "does an RDMA device have that address there (rpcrdma-doctor there tells), and "
                "does "
                "UDP port 4791 pass the firewalls between? Seen from " +
                    peer.device_line);
            return;
        case Errc::again:
        case Errc::too_big:
        case Errc::bad_message:
        case Errc::unsupported:
        case Errc::closed:
        case Errc::invalid_argument:
        case Errc::system:
            add(out, Level::failure, "cannot connect to " + server + ": " + to_string(error));
            return;
    }
}

}  // namespace

const char* to_string(Level level) noexcept {
    switch (level) {
        case Level::fine:
            return "ok";
        case Level::note:
            return "note";
        case Level::warning:
            return "warning";
        case Level::failure:
            return "failure";
    }
    return "";
}

Findings judge(const Machine& machine, const std::string& device) {
    Findings out;
    const bool all = device.empty(), soft = device == "softroce";
    if (all) judge_kernel_devices(machine, out);
    for (const DeviceInfo& entry : machine.devices)
        if (all || entry.name == device) judge_device(entry, out);
    if (!soft) judge_memlock(machine, out);
    if (all || soft) judge_softroce(machine, out);
    if (all && !machine.io_uring) {
        add(out, Level::note, "io_uring is refused here; epoll is used in its place",
            "container runtimes block it by default; it saves system calls, nothing else");
    }
    // Of one device that was asked for, more is a failure than of one among others.
    if (!all && !soft) {
        for (const DeviceInfo& entry : machine.devices) {
            const bool active = std::any_of(entry.ports.begin(), entry.ports.end(),
                                            [](const PortInfo& port) { return port.active; });
            if (entry.name == device && (!entry.error.empty() || !active))
                add(out, Level::failure, device + " cannot be used");
        }
    }
    return out;
}

Findings judge(const Peer& peer) {
    Findings out;
    if (!peer.device_error.empty()) {
        add(out, Level::failure, peer.device_error);
        return out;
    }
    if (!peer.connected) {
        judge_refusal(peer, out);
        return out;
    }
    if (peer.has_private_data) {
        add(out, Level::fine,
            "messages of up to " + std::to_string(peer.agreed.send) + " bytes go inline, and of " +
                std::to_string(peer.agreed.recv) + " come so");
    } else {
        add(out, Level::warning,
            "the peer sends no private data of RFC 8797: messages above 1024 bytes go by RDMA, one "
            "round trip more, and keys are not invalidated remotely",
            "nothing to do here; the peer's program is old");
    }
    if (!peer.null.ok()) {
        add(out, Level::failure, "NFS version 3 does not answer: " + to_string(peer.null),
            "what listens there may be no NFS server, or serve version 4 only");
        return out;
    }
    add(out, Level::fine, "NFS version 3 answers");
    judge_mount(peer, out);
    return out;
}

bool any_failure(const Findings& findings) noexcept {
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& finding) { return finding.level == Level::failure; });
}

}  // namespace nfsrdma::doctor
