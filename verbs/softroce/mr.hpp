#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "verbs/device.hpp"
#include "verbs/softroce/wire.hpp"

// Memory regions of the soft device: keys, their states, and the checks of every access through
// them.
namespace nfsrdma::verbs::softroce {

class KeyTable;
class SoftDevice;
class SoftPd;

enum class MrState : std::uint8_t { free, valid };

// Why an access is refused, in the order in which it is checked.
enum class AccessFault : std::uint8_t {
    none,
    no_key,  // no region has this key, or its low byte is of another binding
    wrong_pd,
    wrong_qp,   // bound on another queue pair (type 2B)
    not_valid,  // not bound, or invalidated
    no_right,
    out_of_range,
};
const char* to_string(AccessFault fault) noexcept;

// What a key stands for: `length` bytes that peers address from `iova`, in one run of memory or in
// pages.
struct Binding {
    std::uint32_t key = 0;
    Access access = Access::none;
    std::uint64_t iova = 0;
    std::uint64_t length = 0;
    std::byte* run = nullptr;  // the first byte, where the memory is one run; else `pages` says
    std::uint32_t page_shift = 0;
    std::uint32_t first_offset = 0;
    std::vector<std::byte*> pages;

    // The memory from `offset` on and how many bytes of it lie in one run; offset < length.
    std::span<std::byte> run_at(std::uint64_t offset) const noexcept;
};

// One entry of the key table. The region's owner outlives its use by the device.
class Region {
  public:
    Region(SoftPd& pd, KeyTable& table, bool fast);
    ~Region();
    Region(const Region&) = delete;
    Region& operator=(const Region&) = delete;

    // The local checks of one SGE: `write` when the device will write to it. `qpn` is asked of fast
    // regions.
    bool allows_local(const SoftPd& pd, std::uint32_t qpn, std::uint64_t addr, std::uint32_t length,
                      bool write) const noexcept;
    // The remote checks behind the lookup of the key, in protocol order.
    AccessFault check_remote(const SoftPd& pd, std::uint32_t qpn, Access right, std::uint64_t addr,
                             std::uint64_t length) const noexcept;
    void copy_in(std::uint64_t addr, std::span<const std::byte> bytes) const noexcept;

    std::uint32_t index() const noexcept { return index_; }
    bool fast() const noexcept { return fast_; }
    SoftPd& pd() const noexcept { return pd_; }
    MrState state() const noexcept { return state_; }
    const Binding& bound() const noexcept { return bound_; }

  protected:
    friend class KeyTable;
    bool in_range(std::uint64_t addr, std::uint64_t length) const noexcept;
    SoftPd& pd_;
    KeyTable& table_;
    Binding bound_;
    std::uint32_t index_ = 0;  // the upper 24 bits of every key of this region
    std::uint32_t qpn_ = 0;    // that bound it; 0: any (static)
    MrState state_ = MrState::free;
    bool fast_;

  private:
    Region* hash_next_ = nullptr;
};

// All regions of one device by the upper 24 bits of their key, which are drawn at random.
class KeyTable {
  public:
    explicit KeyTable(SoftDevice& device);
    void insert(Region& region);  // draws region.index_
    void remove(Region& region) noexcept;
    // The region whose present key is `key`, else nullptr.
    Region* find(std::uint32_t key) const noexcept;
    std::uint32_t size() const noexcept { return size_; }

  private:
    Region* find_index(std::uint32_t index) const noexcept;
    void grow();
    SoftDevice& device_;
    std::vector<Region*> buckets_;
    std::uint32_t size_ = 0;
};

class SoftMr final : public Mr, private Region {
  public:
    SoftMr(SoftPd& pd, KeyTable& table, std::span<std::byte> memory, Access access,
           std::uint8_t key_byte);
    Lkey lkey() const noexcept override { return Lkey{bound_.key}; }
    Rkey rkey() const noexcept override;
};

class SoftFastMr final : public FastMr, public Region {
  public:
    SoftFastMr(SoftPd& pd, KeyTable& table, std::uint32_t pages_max, std::uint8_t key_byte);
    Result<void> map(std::span<std::byte* const> pages, std::uint32_t page_size,
                     std::uint32_t offset, std::uint32_t length, std::uint64_t iova,
                     Access access) noexcept override;
    void unmap() noexcept override { mapped_ = false; }
    Rkey rkey() const noexcept override { return Rkey{staged_.key}; }
    std::uint64_t iova() const noexcept override { return staged_.iova; }

    // REG_MR: free -> valid, as the last map() said, on queue pair `qpn`. False when the state, the
    // protection domain or the key (0: not asked) does not allow it.
    bool bind(const SoftPd& pd, std::uint32_t qpn, Rkey key) noexcept;
    // LOCAL_INV, or a peer's SEND_WITH_INV: valid -> free.
    bool invalidate(const SoftPd& pd, std::uint32_t qpn, Rkey key) noexcept;

  private:
    Binding staged_;
    bool mapped_ = false;  // staged_ waits for its REG_MR
};

class SoftPd final : public ProtectionDomain {
  public:
    explicit SoftPd(SoftDevice& device) noexcept : device_(device) {}
    ~SoftPd() override;
    SoftPd(const SoftPd&) = delete;
    SoftPd& operator=(const SoftPd&) = delete;
    const DeviceCaps& caps() const noexcept override;
    // Errc::invalid_argument for memory without an address; no bytes at all are allowed.
    Result<std::unique_ptr<Mr>> register_memory(std::span<std::byte> memory,
                                                Access access) override;
    // Errc::too_big beyond caps().max_fast_reg_pages, Errc::invalid_argument for 0.
    Result<std::unique_ptr<FastMr>> alloc_fast_mr(std::uint32_t pages_max) override;

    SoftDevice& device() const noexcept { return device_; }

  private:
    friend class Region;
    friend class SoftQp;
    SoftDevice& device_;
    std::uint32_t users_ = 0;  // regions and queue pairs
};

}  // namespace nfsrdma::verbs::softroce
