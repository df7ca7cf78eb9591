#include "sunrpc/xprt_group.hpp"

#include <algorithm>
#include <utility>

#include "base/bytes.hpp"

namespace nfsrdma::sunrpc {

XprtGroup::XprtGroup(std::span<Xprt* const> members)
    : count_(narrow<std::uint32_t>(members.size())), limits_(members.front()->limits()) {
    NR_ASSERT(count_ >= 1 && count_ <= kMembersMax);
    limits_.slots = 0;
    for (std::uint32_t i = 0; i < count_; ++i) {
        Xprt& member = *members[i];
        NR_ASSERT(&member.loop() == &members.front()->loop());
        members_[i].xprt = &member;
        const XprtLimits& its = member.limits();
        limits_.max_payload = std::min(limits_.max_payload, its.max_payload);
        limits_.max_message = std::min(limits_.max_message, its.max_message);
        limits_.slots += its.slots;
        member.on_slot(on_member_slot, this);
    }
    add_leases(limits_.slots * kLeasesPerSlot);
}

XprtGroup::~XprtGroup() {
    NR_ASSERT(free_leases_.size() == lease_count_);
    for (std::uint32_t i = 0; i < count_; ++i)
        members_[i].xprt->on_slot(nullptr, nullptr);
    free_leases_.clear();
}

void XprtGroup::add_leases(std::uint32_t count) {
    std::unique_ptr<Lease[]>& lot = leases_.emplace_back(std::make_unique<Lease[]>(count));
    for (std::uint32_t i = 0; i < count; ++i)
        free_leases_.push_back(lot[i]);
    lease_count_ += count;
}

void XprtGroup::on_member_slot(void* self) noexcept {
    const XprtGroup& group = *static_cast<XprtGroup*>(self);
    if (group.wake_ != nullptr) group.wake_(group.wake_arg_);
}

void XprtGroup::on_slot(void (*wake)(void*) noexcept, void* arg) noexcept {
    wake_ = wake;
    wake_arg_ = arg;
}

// Who is asked first, and next: those connected before the others, those with less to do before
// those with more. Returns how many there are.
std::uint32_t XprtGroup::order(Order& out) noexcept {
    const std::uint32_t first = turn_++ % count_;
    for (std::uint32_t i = 0; i < count_; ++i)
        out[i] = (first + i) % count_;
    const auto rank = [this](std::uint32_t index) {
        const Member& member = members_[index];
        return std::pair(!member.xprt->connected(), member.weight());
    };
    // Few, and all but sorted: no allocation.
    for (std::uint32_t i = 1; i < count_; ++i) {
        for (std::uint32_t at = i; at > 0 && rank(out[at]) < rank(out[at - 1]); --at)
            std::swap(out[at], out[at - 1]);
    }
    return count_;
}

Rqst* XprtGroup::took(std::uint32_t member, Rqst& rqst) noexcept {
    rqst.connection = member;
    ++members_[member].load.calls;
    ++members_[member].load.calls_ever;
    return &rqst;
}

// The first that has one. Else `again` if any may have one later, or what the first one said.
Result<Rqst*> XprtGroup::get_rqst(std::uint32_t call_max) noexcept {
    Order asked;
    const std::uint32_t count = order(asked);
    Error why{};
    for (std::uint32_t i = 0; i < count; ++i) {
        Result<Rqst*> rqst = members_[asked[i]].xprt->get_rqst(call_max);
        if (rqst) return took(asked[i], **rqst);
        if (i == 0 || rqst.error().code == Errc::again) why = rqst.error();
    }
    return why;
}

// nullptr: memory of no member's Payload.
XprtGroup::Member* XprtGroup::owner_of(const std::byte* memory) noexcept {
    if (memory == nullptr) return nullptr;
    const std::uint64_t at = address_of(memory);
    for (std::uint32_t i = 0; i < count_; ++i) {
        Member& member = members_[i];
        if (at >= member.memory_begin && at < member.memory_end) return &member;
    }
    return nullptr;
}

// Memory of the caller's own, or of nobody, is for any member to take, or to refuse.
Result<Rqst*> XprtGroup::get_rqst_with(std::uint32_t call_max, const std::byte* payload,
                                       const std::byte* room) noexcept {
    Member* owner = owner_of(payload);
    if (owner == nullptr) owner = owner_of(room);
    if (owner == nullptr) return get_rqst(call_max);
    NR_TRY_ASSIGN(Rqst* const rqst, owner->xprt->get_rqst(call_max));
    return took(static_cast<std::uint32_t>(owner - members_.data()), *rqst);
}

void XprtGroup::put_rqst(Rqst& rqst) noexcept {
    NR_ASSERT(rqst.connection < count_);
    Member& member = members_[rqst.connection];
    NR_ASSERT(member.load.calls != 0);
    --member.load.calls;
    member.xprt->put_rqst(rqst);
}

Result<void> XprtGroup::send(Rqst& rqst) noexcept {
    NR_ASSERT(rqst.connection < count_);
    // The caller's own memory may be named by a call that another member was sent and gave up.
    for (std::uint32_t i = 0; i < count_ && !registered_.empty(); ++i) {
        if (i != rqst.connection) NR_TRY(members_[i].xprt->check_given_up(rqst));
    }
    return members_[rqst.connection].xprt->send(rqst);
}

Result<Payload> XprtGroup::get_payload(std::uint32_t bytes) noexcept {
    if (bytes > limits_.max_payload) return Error{Errc::too_big, 0, "payload"};
    Order asked;
    const std::uint32_t count = order(asked);
    const bool any_connected = connected();
    Error why{Errc::reconnect, 0, "no connection"};
    for (std::uint32_t i = 0; i < count; ++i) {
        Member& member = members_[asked[i]];
        // Who takes memory of a broken connection waits for that one, while others are there.
        if (any_connected ? !member.xprt->connected() : !member.xprt->recovering()) continue;
        Result<Payload> payload = member.xprt->get_payload(bytes);
        if (!payload) {
            why = payload.error();
            continue;
        }
        // More than ever before: once, and kept.
        if (free_leases_.empty()) add_leases(kLeaseLot);
        Lease& lease = free_leases_.pop_front();
        lease.member = asked[i];
        lease.payload = *std::move(payload);
        ++member.load.payloads;
        const std::span<std::byte> memory = lease.payload.memory();
        const std::uint64_t begin = address_of(memory.data());
        member.memory_begin = std::min(member.memory_begin, begin);
        member.memory_end = std::max(member.memory_end, begin + memory.size());
        return Payload(*this, &lease, memory);
    }
    if (any_connected && why.code == Errc::again) want_recovering();
    return why;
}

// Memory of a connection that is being made again is to be had when it is back. Asked for a slot,
// it says `again`, and then that it is back.
void XprtGroup::want_recovering() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) {
        Xprt& member = *members_[i].xprt;
        if (!member.recovering()) continue;
        Result<Rqst*> rqst = member.get_rqst(0);
        if (rqst) member.put_rqst(**rqst);
    }
}

void XprtGroup::release_payload(void* cookie) noexcept {
    Lease& lease = *static_cast<Lease*>(cookie);
    --members_[lease.member].load.payloads;
    // Dies at the end, and may then wake others.
    const Payload payload = std::move(lease.payload);
    free_leases_.push_front(lease);
}

Result<void> XprtGroup::register_memory(std::span<std::byte> memory) {
    Registered run{memory, 0};
    for (std::uint32_t i = 0; i < count_; ++i) {
        Result<void> done = members_[i].xprt->register_memory(memory);
        if (!done) {
            // No call can name it yet: it comes back at once.
            (void)deregister(run);
            return done;
        }
        run.members |= 1u << i;
    }
    registered_.push_back(run);
    return {};
}

// Every member is asked, so that none takes a new call with it.
Result<void> XprtGroup::deregister(Registered& run) noexcept {
    Result<void> outcome;
    for (std::uint32_t i = 0; i < count_; ++i) {
        if ((run.members & 1u << i) == 0) continue;
        Result<void> done = members_[i].xprt->deregister_memory(run.memory);
        if (done) {
            run.members &= ~(1u << i);
        } else {
            outcome = done;
        }
    }
    return outcome;
}

Result<void> XprtGroup::deregister_memory(std::span<std::byte> memory) noexcept {
    const auto at =
        std::find_if(registered_.begin(), registered_.end(), [&](const Registered& run) {
            return run.memory.data() == memory.data() && run.memory.size() == memory.size();
        });
    if (at == registered_.end())
        return Error{Errc::invalid_argument, 0, "memory that is not registered"};
    NR_TRY(deregister(*at));
    registered_.erase(at);
    return {};
}

bool XprtGroup::connected() const noexcept {
    for (std::uint32_t i = 0; i < count_; ++i) {
        if (members_[i].xprt->connected()) return true;
    }
    return false;
}

bool XprtGroup::recovering() const noexcept {
    if (connected()) return false;
    for (std::uint32_t i = 0; i < count_; ++i) {
        if (members_[i].xprt->recovering()) return true;
    }
    return false;
}

void XprtGroup::close() noexcept {
    for (std::uint32_t i = 0; i < count_; ++i)
        members_[i].xprt->close();
}

}  // namespace nfsrdma::sunrpc
