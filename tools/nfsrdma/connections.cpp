#include "tools/nfsrdma/connections.hpp"

#include <algorithm>
#include <utility>

#include "tools/nfsrdma/stats.hpp"

namespace nfsrdma::tool {
namespace {

constexpr std::uint32_t kCreditsEachMin = 8;

}  // namespace

std::uint32_t credits_each(std::uint32_t credits, std::uint32_t count) noexcept {
    if (count <= 1) return credits;
    return std::max((credits + count - 1) / count, kCreditsEachMin);
}

Result<std::unique_ptr<Connections>> Connections::create(verbs::Device& device,
                                                         const SockAddr& server,
                                                         const xprtrdma::TransportOptions& options,
                                                         std::uint32_t count, Told told,
                                                         void* arg) {
    NR_ASSERT(count >= 1 && count <= sunrpc::XprtGroup::kMembersMax);
    std::unique_ptr<Connections> made(new Connections);
    std::vector<sunrpc::Xprt*> xprts;
    for (std::uint32_t i = 0; i < count; ++i) {
        Member& member = *made->members_.emplace_back(std::make_unique<Member>());
        member.home = made.get();
        auto transport =
            xprtrdma::Transport::create(device, server, options, on_connected, &member);
        if (!transport) {
            made->members_.pop_back();
            // Not enough for all of them: those that are made serve.
            if (i == 0) return transport.error();
            break;
        }
        member.transport = *std::move(transport);
        member.transport->on_recovery(on_recovery, &member);
        xprts.push_back(member.transport.get());
    }
    if (xprts.size() > 1) made->group_ = std::make_unique<sunrpc::XprtGroup>(xprts);
    made->told_ = told;
    made->arg_ = arg;
    return made;
}

void Connections::on_connected(void* arg, Result<void> outcome) noexcept {
    Member& member = *static_cast<Member*>(arg);
    member.outcome = outcome;
    member.answered = true;
    member.home->maybe_tell();
}

// One that has not been connected yet and goes on trying may do so for ever.
void Connections::on_recovery(void* arg, bool connected) noexcept {
    Member& member = *static_cast<Member*>(arg);
    if (connected || member.answered) return;
    member.failed = true;
    member.home->maybe_tell();
}

void Connections::maybe_tell() noexcept {
    bool any_connected = false, all_answered = true;
    for (const auto& member : members_) {
        if (!member->answered && !member->failed) return;
        any_connected = any_connected || (member->answered && member->outcome);
        all_answered = all_answered && member->answered;
    }
    if (!any_connected && !all_answered) return;
    const Told told = std::exchange(told_, nullptr);
    if (told == nullptr) return;
    told(arg_, any_connected ? Result<void>() : members_.front()->outcome);
}

sunrpc::Xprt& Connections::xprt() noexcept {
    if (group_ != nullptr) return *group_;
    return *members_.front()->transport;
}

void Connections::close() noexcept {
    for (const auto& member : members_)
        member->transport->close();
}

bool Connections::idle() const noexcept {
    return std::all_of(members_.begin(), members_.end(),
                       [](const auto& member) { return member->transport->idle(); });
}

std::uint32_t Connections::connected() const noexcept {
    return static_cast<std::uint32_t>(
        std::count_if(members_.begin(), members_.end(),
                      [](const auto& member) { return member->transport->connected(); }));
}

std::uint32_t Connections::recovering() const noexcept {
    return static_cast<std::uint32_t>(
        std::count_if(members_.begin(), members_.end(),
                      [](const auto& member) { return member->transport->recovering(); }));
}

const Error* Connections::why_down() const noexcept {
    for (const auto& member : members_) {
        if (!member->transport->connected()) return &member->transport->why_down();
    }
    return nullptr;
}

xprtrdma::TransportCounters Connections::counters() const noexcept {
    xprtrdma::TransportCounters all;
    std::uint64_t in_flight_max = 0, recover_ns_max = 0;
    for (const auto& member : members_) {
        const xprtrdma::TransportCounters& its = member->transport->counters();
        in_flight_max = std::max(in_flight_max, its.in_flight_max);
        recover_ns_max = std::max(recover_ns_max, its.recover_ns_max);
        all = sum_of(all, its);
    }
    all.in_flight_max = in_flight_max;
    all.recover_ns_max = recover_ns_max;
    return all;
}

pools::IoCounters Connections::io_counters() const noexcept {
    pools::IoCounters all;
    for (const auto& member : members_)
        all = sum_of(all, member->transport->io_counters());
    return all;
}

}  // namespace nfsrdma::tool
