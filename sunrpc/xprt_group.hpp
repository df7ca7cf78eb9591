#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/list.hpp"
#include "sunrpc/xprt.hpp"

// Several connections to one server that are one transport to their user (nconnect). Each call goes
// out on one of them: on that which owns its payload memory, so that no byte is copied from one
// connection's memory to another's; else on the connected one with the least to do. Payload memory
// is given out by the same rule, and so spreads the bulk (docs/adr/0017).
//
// Operation. A connection that breaks takes nothing new until it has recovered; what it was sent,
// with or without payload memory, waits for it, and it sends that again itself; calls whose memory
// it owns wait for it as well. Others go on. One that is at its end answers all those with
// Errc::reconnect.
//
// Ownership. (1) A Rqst is its member's; Rqst::connection says whose. (2) A payload is leased from
// its member by a Lease, which dies with the user's Payload.
//
// Errors. The members', as they are; `again` only when every connection that may take the call says
// so.
namespace nfsrdma::sunrpc {

class XprtGroup final : public Xprt {
  public:
    static constexpr std::uint32_t kMembersMax = 16;
    // 1 to kMembersMax, all of one loop; they outlive the group, and nobody else calls them.
    explicit XprtGroup(std::span<Xprt* const> members);
    ~XprtGroup() override;
    XprtGroup(const XprtGroup&) = delete;
    XprtGroup& operator=(const XprtGroup&) = delete;

    Loop& loop() noexcept override { return members_[0].xprt->loop(); }
    // Sizes of the smallest, slots of all.
    const XprtLimits& limits() const noexcept override { return limits_; }
    Result<Rqst*> get_rqst(std::uint32_t call_max) noexcept override;
    Result<Rqst*> get_rqst_with(std::uint32_t call_max, const std::byte* payload,
                                const std::byte* room) noexcept override;
    std::uint32_t connections() const noexcept override { return count_; }
    void put_rqst(Rqst& rqst) noexcept override;
    Result<Payload> get_payload(std::uint32_t bytes) noexcept override;
    Result<void> send(Rqst& rqst) noexcept override;
    void on_slot(void (*wake)(void*) noexcept, void* arg) noexcept override;
    bool connected() const noexcept override;   // at least one
    bool recovering() const noexcept override;  // none is connected, but at least one recovers
    void close() noexcept override;
    void release_payload(void* cookie) noexcept override;
    // With every member, so that calls with such memory are spread like those without any. A call
    // that names memory of a Payload as well goes by that one's member. Each member pins it: so
    // many times the memory counts against RLIMIT_MEMLOCK.
    Result<void> register_memory(std::span<std::byte> memory) override;
    Result<void> deregister_memory(std::span<std::byte> memory) noexcept override;

    // What one of them has to do: calls not yet given back, and payloads lent.
    struct Load {
        std::uint32_t calls = 0, payloads = 0;
        std::uint64_t calls_ever = 0;
    };
    const Load& load(std::uint32_t member) const noexcept { return members_[member].load; }

  private:
    struct Member {
        Xprt* xprt = nullptr;
        Load load;
        // The memory in which its payloads lie, as far as they were seen: one run each.
        std::uint64_t memory_begin = UINT64_MAX, memory_end = 0;
        std::uint32_t weight() const noexcept { return load.calls + load.payloads; }
    };
    struct Lease : ListHook<Lease> {
        Payload payload;
        std::uint32_t member = 0;
    };
    // Memory of the caller's own: with each of `members` (a bit each) still.
    struct Registered {
        std::span<std::byte> memory;
        std::uint32_t members = 0;
    };
    static constexpr std::uint32_t kLeasesPerSlot = 3;
    static constexpr std::uint32_t kLeaseLot = 64;
    using Order = std::array<std::uint32_t, kMembersMax>;

    static void on_member_slot(void* self) noexcept;
    Result<void> deregister(Registered& run) noexcept;
    Member* owner_of(const std::byte* memory) noexcept;
    void add_leases(std::uint32_t count);
    std::uint32_t order(Order& out) noexcept;
    void want_recovering() noexcept;
    Rqst* took(std::uint32_t member, Rqst& rqst) noexcept;

    std::array<Member, kMembersMax> members_{};
    std::uint32_t count_ = 0;
    std::uint32_t turn_ = 0;  // among those with the same to do
    XprtLimits limits_;
    std::vector<std::unique_ptr<Lease[]>> leases_;
    List<Lease, Lease> free_leases_;
    std::uint32_t lease_count_ = 0;
    std::vector<Registered> registered_;
    void (*wake_)(void*) noexcept = nullptr;
    void* wake_arg_ = nullptr;
};

}  // namespace nfsrdma::sunrpc
