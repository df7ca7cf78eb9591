#include "nfs/host_names.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <netdb.h>
#include <thread>

namespace nfsrdma::nfs {
namespace {

using Address = std::array<std::byte, 16>;

// The name of the address, if that name has the address: the owner of an address chooses its name
// freely, the owner of a name its addresses.
HostNames::Names look_up(const SockAddr& peer) {
    std::array<char, NI_MAXHOST> name{};
    if (::getnameinfo(peer.sa(), peer.sa_len(), name.data(), name.size(), nullptr, 0,
                      NI_NAMEREQD) != 0) {
        return {};
    }
    addrinfo hints{}, *list = nullptr;
    hints.ai_flags = AI_CANONNAME;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(name.data(), nullptr, &hints, &list) != 0) return {};
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
    bool leads_back = false;
    for (const addrinfo* at = list; at != nullptr; at = at->ai_next)
        leads_back = leads_back || SockAddr::from(at->ai_addr).gid() == peer.gid();
    if (!leads_back) return {};
    HostNames::Names out = {name.data()};
    if (list->ai_canonname != nullptr && out.front() != list->ai_canonname) {
        out.emplace_back(list->ai_canonname);
    }
    return out;
}

}  // namespace

struct HostNames::State {
    struct Entry {
        std::shared_ptr<const Names> names;
        std::uint64_t until_ns = 0;
        bool waiting = false;
    };
    Options options;
    RealClock clock;
    std::mutex mutex;
    std::condition_variable wake, known;
    std::map<Address, Entry> hosts;
    std::deque<SockAddr> waiting;
    bool running = false, over = false;

    // With the lock held.
    void make_room() {
        if (hosts.size() < kHostsMax) return;
        auto oldest = hosts.end();
        for (auto at = hosts.begin(); at != hosts.end(); ++at) {
            if (at->second.waiting) continue;
            if (oldest == hosts.end() || at->second.until_ns < oldest->second.until_ns) oldest = at;
        }
        if (oldest != hosts.end()) hosts.erase(oldest);
    }
};

HostNames::HostNames() : HostNames(Options()) {}

HostNames::HostNames(const Options& options) : state_(std::make_shared<State>()) {
    state_->options = options;
    if (state_->options.lookup == nullptr) state_->options.lookup = look_up;
}

HostNames::~HostNames() {
    const std::lock_guard lock(state_->mutex);
    state_->over = true;
    state_->wake.notify_all();
}

std::shared_ptr<const HostNames::Names> HostNames::find(const SockAddr& peer) {
    State& state = *state_;
    const std::lock_guard lock(state.mutex);
    const Address address = peer.gid();
    auto at = state.hosts.find(address);
    if (at != state.hosts.end() && state.clock.now_ns() < at->second.until_ns) {
        return at->second.names;
    }
    if (at == state.hosts.end()) {
        if (state.waiting.size() >= kWaitingMax) return nullptr;
        state.make_room();
        at = state.hosts.try_emplace(address).first;
    }
    if (!at->second.waiting && state.waiting.size() < kWaitingMax) {
        at->second.waiting = true;
        state.waiting.push_back(peer);
        if (!state.running) {
            state.running = true;
            // It shares the state and nothing else, so that nobody has to wait for its end.
            std::thread(work, state_).detach();
        }
        state.wake.notify_one();
    }
    return at->second.names;
}

std::shared_ptr<const HostNames::Names> HostNames::wait(const SockAddr& peer,
                                                        std::uint64_t patience_ns) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_ns);
    for (;;) {
        if (auto names = find(peer)) return names;
        std::unique_lock lock(state_->mutex);
        const auto is_known = [&] {
            const auto at = state_->hosts.find(peer.gid());
            return at != state_->hosts.end() && at->second.names != nullptr;
        };
        if (!state_->known.wait_until(lock, limit, is_known)) return nullptr;
    }
}

void HostNames::forget_all() {
    const std::lock_guard lock(state_->mutex);
    for (auto& [address, entry] : state_->hosts)
        entry.until_ns = 0;
}

void HostNames::work(const std::shared_ptr<State>& state) {
    std::unique_lock lock(state->mutex);
    for (;;) {
        state->wake.wait(lock, [&] { return state->over || !state->waiting.empty(); });
        if (state->over) return;
        const SockAddr peer = state->waiting.front();
        state->waiting.pop_front();
        lock.unlock();
        auto names = std::make_shared<const Names>(state->options.lookup(peer));
        lock.lock();
        State::Entry& entry = state->hosts[peer.gid()];
        entry.until_ns = state->clock.now_ns() +
                         (names->empty() ? state->options.unknown_ns : state->options.known_ns);
        entry.names = std::move(names);
        entry.waiting = false;
        state->known.notify_all();
    }
}

}  // namespace nfsrdma::nfs
