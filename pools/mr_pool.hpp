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

// idle -> bound (REG_MR formed and posted) -> idle (the peer's SEND_WITH_INV) or -> invalidating (LOCAL_INV posted) -> idle;
// bound or invalidating -> stale when the queue pair flushed it.
enum class MrState : std::uint8_t { idle, bound, invalidating, stale };
const char* to_string(MrState state) noexcept;

struct Mr : ListHook<Mr>, verbs::Cqe {  // rpcrdma_mr; the Cqe is that of its REG_MR and LOCAL_INV
    std::unique_ptr<verbs::FastMr> fast;
    verbs::SendWr reg_wr, inv_wr;
    MrState state = MrState::idle;
    Exposure* user = nullptr;  // whom it serves while not idle
    MrPool* home = nullptr;
    MrPool& pool() const noexcept { return *home; }
};

class MrPool {
  public:
    static Result<std::unique_ptr<MrPool>> create(verbs::ProtectionDomain& pd, std::uint32_t count,
                                                  std::uint32_t pages_each);
    ~MrPool();  // asserts full()
    Result<Lease<Mr>> get() noexcept;  // Errc::again when dry (counted); never allocates
    void put(Mr& mr) noexcept;         // idle to the free list, stale to the stale list; anything else is our bug
    // The MR whose current key this is, or nullptr. O(1) or O(log n).
    Mr* find(verbs::Rkey rkey) noexcept;
    // Off the data path, after the connection's end: fresh keys for flushed MRs. Returns how many were renewed.
    Result<std::uint32_t> renew_stale() noexcept;
    std::uint32_t available() const noexcept;
    bool full() const noexcept;  // every MR is home, idle or stale
    std::uint64_t dry_count() const noexcept;

  private:
    MrPool() = default;
    verbs::ProtectionDomain* pd_ = nullptr;
    std::uint32_t count_ = 0, pages_each_ = 0;
    std::unique_ptr<Mr[]> mrs_;
    List<Mr> free_, stale_;
    std::uint64_t dry_count_ = 0;
};

}  // namespace nfsrdma::pools
