#include "verbs/softroce/group.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "verbs/softroce/cm.hpp"

namespace nfsrdma::verbs::softroce {

CmGroup::Forward::Forward() noexcept
    : Task([](Task& task) noexcept {
          auto& forward = static_cast<Forward&>(task);
          RxPacket packet;
          packet.from = forward.from;
          packet.to = forward.to;
          forward.device->cm().on_forwarded_mad(packet, forward.mad);
          forward.taken.store(false, std::memory_order_release);
      }) {}

CmGroup::CmGroup(std::span<SoftDevice* const> devices) {
    for (SoftDevice* device : devices) {
        auto target = std::make_unique<Target>();
        target->device = device;
        for (Forward& slot : target->slots)
            slot.device = device;
        targets_.push_back(std::move(target));
    }
}

std::uint32_t CmGroup::loop_for(const Path& path, const CmReq& req,
                                std::uint32_t fallback) noexcept {
    Remembered& memory = remembered_[(req.local_comm * 0x9E3779B1u >> 8) % kRemembered];
    if (memory.comm == req.local_comm && memory.qpn == req.qpn && memory.peer == path.peer) {
        return memory.loop;
    }
    const auto port = static_cast<std::uint16_t>(req.service_id);
    const std::uint32_t first = turns_.first(path.peer, loops());
    for (std::uint32_t i = 0; i < loops(); ++i) {
        const std::uint32_t loop = (first + i) % loops();
        if (!listens(loop, path.local, port)) continue;
        turns_.took(path.peer, loop);
        memory = {path.peer, req.local_comm, req.qpn, loop};
        return loop;
    }
    return fallback;
}

bool CmGroup::listens(std::uint32_t loop, const SockAddr& to, std::uint16_t port) noexcept {
    const std::lock_guard lock(listeners_mutex_);
    return std::any_of(listeners_.begin(), listeners_.end(), [&](const Entry& entry) {
        return entry.loop == loop && entry.local.port() == port &&
               entry.local.family() == to.family() &&
               (entry.local.is_any() || entry.local.same_address(to));
    });
}

bool CmGroup::forward(std::uint32_t to, const RxPacket& packet,
                      std::span<const std::byte> mad) noexcept {
    NR_ASSERT(to < loops() && mad.size() == kMadBytes);
    Target& target = *targets_[to];
    Forward& slot = target.slots[target.next.fetch_add(1, std::memory_order_relaxed) % kSlots];
    // Slots go round: the oldest one is still taken only when the target is that far behind.
    if (slot.taken.exchange(true, std::memory_order_acquire)) return false;
    slot.from = packet.from;
    slot.to = packet.to;
    std::copy(mad.begin(), mad.end(), slot.mad.begin());
    target.device->loop().post(slot);
    return true;
}

void CmGroup::add_listener(std::uint32_t loop, const SockAddr& local) {
    const std::lock_guard lock(listeners_mutex_);
    listeners_.push_back({loop, local});
}

void CmGroup::remove_listener(std::uint32_t loop, const SockAddr& local) {
    const std::lock_guard lock(listeners_mutex_);
    const auto at = std::find_if(listeners_.begin(), listeners_.end(), [&](const Entry& entry) {
        return entry.loop == loop && entry.local == local;
    });
    NR_ASSERT(at != listeners_.end());
    listeners_.erase(at);
}

bool CmGroup::drained() const noexcept {
    return std::all_of(targets_.begin(), targets_.end(), [](const auto& target) {
        return std::none_of(target->slots.begin(), target->slots.end(), [](const Forward& slot) {
            return slot.taken.load(std::memory_order_acquire);
        });
    });
}

Result<std::unique_ptr<DeviceGroup>> DeviceGroup::create(std::span<Loop* const> loops,
                                                         const UdpOptions& udp,
                                                         const SoftOptions& options) {
    const auto count = static_cast<std::uint32_t>(loops.size());
    NR_TRY_ASSIGN(auto wires, create_udp_wires(udp, count));
    const SockAddr local = udp.bind.with_port(wires.front()->port());
    std::vector<std::unique_ptr<SoftDevice>> devices;
    for (std::uint32_t i = 0; i < count; ++i) {
        SoftOptions own = options;
        own.loop_index = i;
        own.loop_count = count;
        if (own.seed != 0) own.seed += i;
        NR_TRY_ASSIGN(auto device, SoftDevice::create(*loops[i], std::move(wires[i]), own));
        devices.push_back(std::move(device));
    }
    return std::make_unique<DeviceGroup>(local, std::move(devices));
}

DeviceGroup::DeviceGroup(const SockAddr& local, std::vector<std::unique_ptr<SoftDevice>> devices)
    : local_(local), devices_(std::move(devices)) {
    if (devices_.size() == 1) return;
    std::vector<SoftDevice*> members;
    for (auto& device : devices_)
        members.push_back(device.get());
    cm_group_ = std::make_unique<CmGroup>(members);
    for (auto& device : devices_)
        device->cm().join(*cm_group_);
}

DeviceGroup::~DeviceGroup() {
    // Tasks that are still posted name slots of the group.
    for (int turn = 0; turn < 1000 && cm_group_ != nullptr && !cm_group_->drained(); ++turn) {
        for (auto& device : devices_)
            device->loop().run_once(0);
    }
    devices_.clear();
}

}  // namespace nfsrdma::verbs::softroce
