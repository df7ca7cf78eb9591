#include "devices/open.hpp"

#include <cerrno>
#include <cstring>
#include <system_error>

#include "devices/memory.hpp"
#include "devices/rdma.hpp"
#include "verbs/softroce/group.hpp"
#include "verbs/softroce/softroce.hpp"
#include "verbs/softroce/udp_wire.hpp"

namespace nfsrdma::devices {
namespace {

namespace soft = verbs::softroce;

// rdma-core's device by name; without one, by the local address that is meant; by none where a
// server listens at any address.
Result<verbs::rdmacore::Options> rdma_options(const Request& request) {
    verbs::rdmacore::Options options;
    options.device = request.choice.name;
    options.strategy = request.strategy;
    if (!options.device.empty() || (request.passive && request.address.is_any())) return options;
    SockAddr local = request.address;
    if (!request.passive) {
        NR_TRY_ASSIGN(local, address_towards(request.address));
    }
    options.device = local.address_to_string();
    return options;
}

// --device auto takes no device whose memory the program could not lock; empty: it can.
std::string unlockable(const Request& request, const verbs::Device& device, std::size_t loops) {
    const verbs::rdmacore::MemlockLimit limit = memlock_limit();
    std::string who;
    const std::uint64_t bytes = bytes_to_lock(request, device.caps(), loops, who);
    if (request.choice.kind != Kind::automatic || may_lock(limit, bytes)) return {};
    return cannot_lock(limit, bytes, who);
}

std::string line_of_rdma(const verbs::Device& device, const verbs::rdmacore::Options& options) {
    std::string line = std::string("RDMA device ") + device.name();
    if (!options.device.empty() && options.device != device.name()) line += ", " + options.device;
    return line + ": " + keys_of(device);
}

// Faults are softroce's own: with some asked for, --device auto means it.
Kind kind_of(const Request& request) noexcept {
    const bool automatic = request.choice.kind == Kind::automatic;
    return automatic && request.faults.on_device() ? Kind::softroce : request.choice.kind;
}

Result<void> check_faults(const Request& request) noexcept {
    if (!request.faults.on_device() || request.choice.kind != Kind::rdmacore) return {};
    return Error{Errc::unsupported, 0, "the faults that are asked for are softroce's alone"};
}

// Why --device auto takes softroce: there was no device, or it may not be used.
std::string line_of_soft(const Request& request, const Error& error,
                         const std::string& unlockable) {
    std::string line = "softroce";
    if (request.choice.kind != Kind::automatic) return line;
    if (request.faults.on_device()) return line + ": faults are asked for, which are its own";
    if (!built_with_rdmacore()) return line + ": built without rdma-core";
    constexpr const char* kCannot = ": the kernel's RDMA device cannot be used: ";
    if (!unlockable.empty()) return line + kCannot + unlockable;
    Result<verbs::rdmacore::Options> wanted = rdma_options(request);
    const std::string address = wanted ? wanted->device : request.address.address_to_string();
    if (error.code == Errc::unsupported) {
        return line + ": the kernel has no RDMA device" +
               (address.empty() ? "" : " with the address " + address);
    }
    return line + kCannot + to_string(error);
}

Result<std::unique_ptr<soft::Wire>> soft_wire(const Request& request) {
    if (!request.passive && !request.bind) return soft::create_udp_wire_towards(request.address);
    soft::UdpOptions udp;
    udp.bind = request.bind.value_or(request.address.with_port(soft::kRoceV2Port));
    return udp.bind.port() == 0 ? soft::create_udp_wire_at_address(udp)
                                : soft::create_udp_wire(udp);
}

Result<std::unique_ptr<verbs::Device>> open_soft(Loop& loop, const Request& request) {
    auto wire = soft_wire(request);
    if (!wire) return wire.error();
    soft::SoftOptions options;
    options.peer_port = request.peer_udp_port;
    options.faults = request.faults;
    options.fault_seed = request.fault_seed;
    options.acks_wait = request.acks_wait;
    return soft::create_device(loop, *std::move(wire), options);
}

}  // namespace

std::uint64_t bytes_to_lock(const Request& request, const verbs::DeviceCaps& caps,
                            std::size_t loops, std::string& who) {
    if (request.passive) {
        who = loops == 1 ? "this server" : "this server, with " + std::to_string(loops) + " loops,";
        return request.server ? server_bytes(*request.server, caps) * loops : 0;
    }
    who = "a client with " + std::to_string(request.demand.credits) + " calls under way";
    if (request.connections > 1)
        who += " on each of " + std::to_string(request.connections) + " connections";
    return client_bytes(request.demand, caps) * request.connections;
}

std::string explain(const Request& request, const Error& error) {
    std::string why = to_string(error);
    if (error.code == Errc::system && error.sys != 0)
        why = std::generic_category().message(error.sys);
    if (error.code == Errc::unsupported) why = error.what;
    if (request.choice.kind == Kind::rdmacore) {
        std::string text = "cannot use " + to_string(request.choice);
        if (Result<verbs::rdmacore::Options> wanted = rdma_options(request);
            wanted && wanted->device != request.choice.name)
            text += " (" + wanted->device + ")";
        text += ": " + why;
        if (error.code == Errc::unsupported) {
            return text +
                   "; --device softroce needs no RDMA device; rpcrdma-doctor shows what is "
                   "there";
        }
        if (error.sys == EACCES || error.sys == EPERM) {
            return text + "; this user may not open /dev/infiniband (group rdma?)";
        }
        return text;
    }
    const bool taken = error.code == Errc::system && error.sys == EADDRINUSE;
    std::string text = "cannot open the softroce device";
    if (request.bind) text += " at " + request.bind->to_string();
    text += ": " + why;
    if (taken)
        text += "; another process, or the kernel's own RoCE at this address, has that UDP port";
    return text + "; --bind ADDRESS[:PORT] chooses another address";
}

Result<Opened> open(Loop& loop, const Request& request) {
    NR_TRY(check_faults(request));
    Opened out;
    Error none{Errc::unsupported, 0, ""};
    std::string refusal;
    if (kind_of(request) != Kind::softroce) {
        Result<verbs::rdmacore::Options> options = rdma_options(request);
        Result<std::unique_ptr<verbs::Device>> device =
            options ? open_rdma_device(loop, *options) : options.error();
        if (device) refusal = unlockable(request, **device, 1);
        if (device && refusal.empty()) {
            out.device = *std::move(device);
            out.name = out.device->name();
            out.line = line_of_rdma(*out.device, *options);
            return out;
        }
        if (request.choice.kind == Kind::rdmacore) return device.error();
        if (!device) none = device.error();
    }
    NR_TRY_ASSIGN(out.device, open_soft(loop, request));
    out.name = "softroce";
    out.line = line_of_soft(request, none, refusal);
    return out;
}

Result<std::unique_ptr<DeviceSet>> DeviceSet::create(std::span<Loop* const> loops,
                                                     const Request& request) {
    NR_TRY(check_faults(request));
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): private constructor
    std::unique_ptr<DeviceSet> self(new DeviceSet);
    Error none{Errc::unsupported, 0, ""};
    std::string refusal;
    if (kind_of(request) != Kind::softroce) {
        Result<verbs::rdmacore::Options> options = rdma_options(request);
        Result<std::unique_ptr<RdmaDevices>> devices =
            options ? RdmaDevices::create(loops, *options) : options.error();
        if (devices) refusal = unlockable(request, (*devices)->device(0), loops.size());
        if (devices && refusal.empty()) {
            self->rdma_ = *std::move(devices);
            self->name_ = self->rdma_->device(0).name();
            self->line_ = line_of_rdma(self->rdma_->device(0), *options);
            return self;
        }
        if (request.choice.kind == Kind::rdmacore) return devices.error();
        if (!devices) none = devices.error();
    }
    soft::UdpOptions udp;
    udp.bind = request.bind.value_or(request.address.with_port(soft::kRoceV2Port));
    soft::SoftOptions options;
    options.peer_port = request.peer_udp_port;
    options.faults = request.faults;
    options.fault_seed = request.fault_seed;
    options.acks_wait = request.acks_wait;
    NR_TRY_ASSIGN(self->soft_, soft::DeviceGroup::create(loops, udp, options));
    self->name_ = "softroce";
    self->line_ = line_of_soft(request, none, refusal);
    return self;
}

DeviceSet::~DeviceSet() = default;

verbs::Device& DeviceSet::device(std::uint32_t index) noexcept {
    return soft_ != nullptr ? soft_->device(index) : rdma_->device(index);
}

bool is_softroce(const verbs::Device& device) noexcept {
    return std::strcmp(device.name(), "softroce") == 0;
}

}  // namespace nfsrdma::devices
