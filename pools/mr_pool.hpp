#pragma once
#include <cstdint>
#include <memory>

#include "base/list.hpp"
#include "pools/lease.hpp"
#include "verbs/device.hpp"

// Preallocated keys of one connection. Above pools/ nobody sees these: use pools/io.hpp.
namespace nfsrdma::pools {

class MrPool;
class Exposure;
class Transfer;

// idle -> bound (REG_MR formed) -> idle (the peer's SEND_WITH_INV, or never posted) or ->
// invalidating (LOCAL_INV formed)
// -> idle; bound or invalidating -> stale when the queue pair flushed it.
enum class MrState : std::uint8_t { idle, bound, invalidating, stale };
const char* to_string(MrState state) noexcept;

// What a key is bound to: whole pages of kPageSize, the first byte's offset in the first of them,
// the bytes that count.
struct MrTarget {
    std::span<std::byte* const> pages;
    std::uint32_t offset = 0;
    std::uint32_t length = 0;
    std::uint64_t iova = 0;
    verbs::Access access = verbs::Access::none;
};

struct Mr : ListHook<Mr>, verbs::Cqe {  // rpcrdma_mr; the Cqe is that of its REG_MR
    // Another Cqe than REG_MR's: a REG_MR may complete, in order, after its key was already asked
    // to be invalidated.
    struct InvCqe : verbs::Cqe {
        Mr* mr = nullptr;
    };
    InvCqe inv;
    std::unique_ptr<verbs::FastMr> fast;
    verbs::SendWr reg_wr, inv_wr;
    MrState state = MrState::idle;
    Exposure* user = nullptr;     // whom it serves while not idle:
    Transfer* carrier = nullptr;  // the one or the other
    MrPool* home = nullptr;
    MrPool& pool() const noexcept { return *home; }

    // The transitions; each asserts the state that it starts from.
    // idle -> bound, reg_wr formed (unsignaled). What FastMr::map returns; idle still when it
    // failed.
    Result<void> bind(const MrTarget& target) noexcept;
    void form_invalidate() noexcept;  // bound -> invalidating, inv_wr formed (unsignaled)
    void on_invalidated() noexcept;   // bound (by the peer) or invalidating -> idle
    void on_flushed() noexcept;       // bound or invalidating -> stale
    // bound or invalidating -> idle; the peer reaches nothing by the key, should it guess it.
    void on_never_posted() noexcept;
    bool live() const noexcept { return state == MrState::bound || state == MrState::invalidating; }
};

class MrPool {
  public:
    static Result<std::unique_ptr<MrPool>> create(verbs::ProtectionDomain& pd, std::uint32_t count,
                                                  std::uint32_t pages_each);
    ~MrPool();  // asserts full()
    MrPool(const MrPool&) = delete;
    MrPool& operator=(const MrPool&) = delete;
    Result<Lease<Mr>> get() noexcept;  // Errc::again when dry (counted); never allocates
    void put(Mr& mr) noexcept;  // idle to the free list, stale to the stale list; anything else is
                                // our bug
    // The MR whose current key this is, or nullptr. O(1).
    Mr* find(verbs::Rkey rkey) noexcept;
    // Off the data path, after the connection's end: fresh keys for flushed MRs. Returns how many
    // were renewed.
    Result<std::uint32_t> renew_stale() noexcept;
    // Destroys the keys of flushed MRs, which stay stale until they are renewed: nothing is bound
    // to any memory by them any more.
    void drop_stale() noexcept;
    std::uint32_t available() const noexcept { return free_.size(); }
    bool full() const noexcept {
        return free_.size() + stale_.size() == count_;
    }  // every MR is home, idle or stale
    std::uint64_t dry_count() const noexcept { return dry_count_; }

  private:
    MrPool() = default;
    void index() noexcept;
    verbs::ProtectionDomain* pd_ = nullptr;
    std::uint32_t count_ = 0, pages_each_ = 0;
    std::unique_ptr<Mr[]> mrs_;
    // By the upper 24 bits of the key, which a key keeps for life: open addressing, at most half
    // full.
    std::unique_ptr<Mr*[]> slots_;
    std::uint32_t slot_mask_ = 0;
    List<Mr, Mr> free_, stale_;
    std::uint64_t dry_count_ = 0;
};

}  // namespace nfsrdma::pools
