#include "verbs/rdmacore/group.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/device.hpp"

// Operation. A request arrives on the loop of the listener that listens. Its id is moved to the
// event channel of the device whose turn it is, and shown to that device's listener by a task of
// its loop.
//
// Ownership. A request on its way belongs to the group. The id that listens belongs to the listener
// that listens, and ends with it: what waits there is the kernel's to reject.
//
// Errors. A request that cannot be moved is served at home; one whose listener went away meanwhile
// is rejected. When the listener that listens goes, nobody listens any more until one asks again.
namespace nfsrdma::verbs::rdmacore {

Result<void> ListenGroup::listen(RdmaListener& listener, const SockAddr& local) {
    const std::lock_guard lock(mutex_);
    const auto same = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return local.port() != 0 && entry.home->local() == local;
    });
    if (same != entries_.end()) {
        const bool twice = std::any_of(
            same->members.begin(), same->members.end(),
            [&](const RdmaListener* member) { return &member->cm() == &listener.cm(); });
        if (twice) return Error{Errc::system, EADDRINUSE, "listen"};
        listener.share(same->home->local());
        same->members.push_back(&listener);
        return {};
    }
    NR_TRY(listener.start(local));
    entries_.push_back({&listener, {&listener}, {}});
    return {};
}

void ListenGroup::leave(RdmaListener& listener) noexcept {
    const std::lock_guard lock(mutex_);
    for (Entry& entry : entries_) {
        entry.members.erase(std::remove(entry.members.begin(), entry.members.end(), &listener),
                            entry.members.end());
        // Usual at the end of a process, whose loops end in any order.
        if (entry.home == &listener && !entry.members.empty()) {
            log::info("{}: nothing listens at {} any more, for the other loops either",
                      listener.cm().device().name(), listener.local().to_string());
        }
    }
    entries_.erase(std::remove_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.home == &listener; }),
                   entries_.end());
}

RdmaListener* ListenGroup::next(const RdmaListener& home, const SockAddr& peer) noexcept {
    for (Entry& entry : entries_) {
        if (entry.home != &home) continue;
        const std::uint32_t turn =
            entry.turns.first(peer, static_cast<std::uint32_t>(entry.members.size()));
        entry.turns.took(peer, turn);
        return entry.members[turn];
    }
    return nullptr;
}

void ListenGroup::steer(RdmaListener& home, CmIdHandle id, const RawEvent& event) noexcept {
    Handoff* moved = nullptr;
    const SockAddr peer = SockAddr::from(rdma_get_peer_addr(id.get()));
    {
        const std::lock_guard lock(mutex_);
        RdmaListener* const target = next(home, peer);
        if (target != nullptr && target != &home &&
            rdma_migrate_id(id.get(), &target->cm().channel()) == 0) {
            auto handoff = std::make_unique<Handoff>();
            handoff->group = this;
            handoff->cm = &target->cm();
            handoff->listener = target;
            handoff->id = std::move(id);
            handoff->event = event;
            moved = handoff.get();
            handoffs_.push_back(std::move(handoff));
        }
    }
    // Not under the lock: the other loop may be waiting for it, with its queue full.
    if (moved != nullptr) return moved->cm->loop().post(*moved);
    home.show(std::move(id), event);
}

ListenGroup::Handoff::Handoff() noexcept
    : Task([](Task& task) noexcept {
          auto& handoff = static_cast<Handoff&>(task);
          handoff.group->arrive(handoff);
      }) {}

void ListenGroup::arrive(Handoff& handoff) noexcept {
    std::unique_ptr<Handoff> mine;
    {
        const std::lock_guard lock(mutex_);
        const auto at = std::find_if(handoffs_.begin(), handoffs_.end(),
                                     [&](const auto& h) { return h.get() == &handoff; });
        NR_ASSERT(at != handoffs_.end());
        mine = std::move(*at);
        handoffs_.erase(at);
    }
    if (!mine->cm->listens(*mine->listener)) {
        static_cast<void>(rdma_reject(mine->id.get(), nullptr, 0));
        return;
    }
    mine->listener->show(std::move(mine->id), mine->event);
}

void ListenGroup::clear() noexcept {
    const std::lock_guard lock(mutex_);
    handoffs_.clear();
}

struct DeviceGroup::State {
    ListenGroup listeners;
    std::vector<std::unique_ptr<RdmaDevice>> devices;
};

DeviceGroup::DeviceGroup(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

DeviceGroup::~DeviceGroup() {
    state_->listeners.clear();
}

Result<std::unique_ptr<DeviceGroup>> DeviceGroup::create(std::span<Loop* const> loops,
                                                         const Options& options) {
    if (loops.empty()) return Error{Errc::invalid_argument, 0, "a device group without loops"};
    auto state = std::make_unique<State>();
    for (Loop* const loop : loops) {
        NR_TRY_ASSIGN(std::unique_ptr<RdmaDevice> device, RdmaDevice::open(*loop, options));
        device->cm().join(state->listeners);
        state->devices.push_back(std::move(device));
    }
    return std::unique_ptr<DeviceGroup>(new DeviceGroup(std::move(state)));
}

std::uint32_t DeviceGroup::size() const noexcept {
    return static_cast<std::uint32_t>(state_->devices.size());
}

Device& DeviceGroup::device(std::uint32_t index) noexcept {
    return *state_->devices[index];
}

}  // namespace nfsrdma::verbs::rdmacore
