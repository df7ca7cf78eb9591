#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <infiniband/verbs.h>

#include "base/list.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/handles.hpp"
#include "verbs/rdmacore/lower.hpp"
#include "verbs/rdmacore/umr.hpp"

// Protection domains, regions and rebindable keys.
namespace nfsrdma::verbs::rdmacore {

class RdmaDevice;
class RdmaPd;
class RdmaQp;

class RdmaMr final : public Mr {
  public:
    RdmaMr(RdmaPd& pd, ibv_mr& mr, Access access) noexcept;
    ~RdmaMr() override;
    RdmaMr(const RdmaMr&) = delete;
    RdmaMr& operator=(const RdmaMr&) = delete;
    Lkey lkey() const noexcept override { return Lkey{mr_.lkey}; }
    Rkey rkey() const noexcept override { return rkey_; }

    ibv_mr& handle() const noexcept { return mr_; }
    std::uint64_t begin() const noexcept;
    bool contains(std::uint64_t addr, std::uint64_t length) const noexcept;
    bool writable() const noexcept { return writable_; }

  private:
    RdmaPd& pd_;
    ibv_mr& mr_;
    Rkey rkey_{};
    bool writable_;
};

// free -> bound (its bind is posted) -> invalidating (its LOCAL_INV is posted) -> free (completed),
// or bound -> free (the peer's SEND_WITH_INV has come). A LOCAL_INV of a key that is not bound is
// never given to a device: it brings some kernels down.
enum class KeyState : std::uint8_t { free, bound, invalidating };
const char* to_string(KeyState state) noexcept;

// Either kind of key. What its work requests become is `bind_target`; how its state moves is said
// by the queue pair.
class KeyMr : public FastMr, public ListHook<> {
  public:
    ~KeyMr() override;
    KeyMr(const KeyMr&) = delete;
    KeyMr& operator=(const KeyMr&) = delete;
    Result<void> map(std::span<std::byte* const> pages, std::uint32_t page_size,
                     std::uint32_t offset, std::uint32_t length, std::uint64_t iova,
                     Access access) noexcept override;
    void unmap() noexcept override;
    Rkey rkey() const noexcept override { return Rkey{target_.rkey}; }
    std::uint64_t iova() const noexcept override { return target_.addr; }

    const BindTarget& bind_target() const noexcept { return target_; }
    KeyState state() const noexcept { return state_; }
    bool bound_on(const RdmaQp& qp, Rkey key) const noexcept {
        return state_ == KeyState::bound && qp_ == &qp && Rkey{bound_rkey_} == key;
    }
    // The next state of the chain that is being posted, or why it may not be posted. Undone by
    // `roll_back`, kept by `commit`.
    Result<void> stage_bind(RdmaQp& qp) noexcept;
    Result<void> stage_invalidate(const RdmaQp& qp, Rkey key) noexcept;
    void roll_back() noexcept;
    virtual void commit() noexcept;
    // The LOCAL_INV completed, or the peer's SEND_WITH_INV came.
    virtual void on_invalidated() noexcept;
    // Makes the key useless for good: its queue pair dies, or the device.
    virtual void release() noexcept = 0;

  protected:
    explicit KeyMr(RdmaPd& pd) noexcept : pd_(pd) {}
    // Whether the key can cover this, and where it starts for the peer: target_.addr. Here: one run
    // of memory, at its own address.
    virtual Result<void> lay_out(const umr::PageSpan& list, std::uint64_t iova) noexcept;
    // Makes `target_` usable for what was laid out.
    virtual Result<void> prepare() noexcept = 0;
    // Undoes `prepare`: the run was not bound.
    virtual void unprepare() noexcept {}
    void detach() noexcept;  // from the queue pair's list
    RdmaPd& pd_;
    BindTarget target_;
    std::uint32_t bound_rkey_ = 0;
    RdmaQp* qp_ = nullptr;  // on which it is bound
    KeyState state_ = KeyState::free;
    bool dead_ = false;

  private:
    struct Saved {
        KeyState state = KeyState::free;
        std::uint32_t bound_rkey = 0;
        RdmaQp* qp = nullptr;
        bool mapped = false;
    };
    void save() noexcept;
    bool mapped_ = false;
    bool staged_ = false;  // part of the chain that is being posted
    bool binds_ = false;   // which binds it
    Saved saved_;
};

// A key that the device binds, and that a peer may invalidate: found by its upper 24 bits.
class BoundMr : public KeyMr {
  public:
    ~BoundMr() override;
    BoundMr(const BoundMr&) = delete;
    BoundMr& operator=(const BoundMr&) = delete;
    std::uint32_t index() const noexcept { return index_; }
    BoundMr* hash_next = nullptr;

  protected:
    BoundMr(RdmaPd& pd, std::uint32_t rkey) noexcept;

  private:
    std::uint32_t index_;  // the upper 24 bits of every key of it
};

// A key of mlx5, laid over runs of registered memory; the peer addresses it from zero.
class UmrMr final : public BoundMr {
  public:
    UmrMr(RdmaPd& pd, mlx5dv_mkey& key) noexcept;
    ~UmrMr() override { release(); }
    UmrMr(const UmrMr&) = delete;
    UmrMr& operator=(const UmrMr&) = delete;
    void release() noexcept override;

  private:
    Result<void> lay_out(const umr::PageSpan& list, std::uint64_t iova) noexcept override;
    Result<void> prepare() noexcept override;
    mlx5dv_mkey* key_;
    std::array<ibv_sge, umr::kRunsMax> runs_{};
};

// A type-2B memory window.
class WindowMr final : public BoundMr {
  public:
    WindowMr(RdmaPd& pd, ibv_mw& window) noexcept;
    ~WindowMr() override;
    WindowMr(const WindowMr&) = delete;
    WindowMr& operator=(const WindowMr&) = delete;
    void commit() noexcept override;
    void release() noexcept override;

  private:
    Result<void> prepare() noexcept override;
    ibv_mw* window_;
};

// A region that is registered by each map() and deregistered when its LOCAL_INV has completed.
class EachMr final : public KeyMr {
  public:
    explicit EachMr(RdmaPd& pd) noexcept : KeyMr(pd) {}
    ~EachMr() override { release(); }
    EachMr(const EachMr&) = delete;
    EachMr& operator=(const EachMr&) = delete;
    Lkey lkey() const noexcept override;
    void on_invalidated() noexcept override;
    void release() noexcept override;

  private:
    Result<void> prepare() noexcept override;
    void unprepare() noexcept override { deregister(); }
    void deregister() noexcept;
};

class RdmaPd final : public ProtectionDomain {
  public:
    RdmaPd(RdmaDevice& device, PdHandle pd);
    ~RdmaPd() override;
    RdmaPd(const RdmaPd&) = delete;
    RdmaPd& operator=(const RdmaPd&) = delete;
    const DeviceCaps& caps() const noexcept override;
    Result<std::unique_ptr<Mr>> register_memory(std::span<std::byte> memory,
                                                Access access) override;
    Result<std::unique_ptr<FastMr>> alloc_fast_mr(std::uint32_t pages_max) override;

    RdmaDevice& device() const noexcept { return device_; }
    ibv_pd& handle() const noexcept { return *pd_; }
    // ibv_reg_mr; when it fails for want of lockable memory the log says what to do about it.
    Result<ibv_mr*> reg_mr(std::uint64_t addr, std::size_t length, int access) noexcept;
    // The region that holds all of this run; nullptr when none does.
    RdmaMr* find_region(std::uint64_t addr, std::uint64_t length) const noexcept;
    void forget(const RdmaMr& mr) noexcept;
    // The peer freed `key` on `qp`. Unknown keys are left alone.
    void on_remote_invalidate(const RdmaQp& qp, Rkey key) noexcept;
    void remember(BoundMr& key) noexcept;
    void forget(const BoundMr& key) noexcept;

  private:
    static constexpr std::uint32_t kBuckets = 1024;
    RdmaDevice& device_;
    PdHandle pd_;
    std::vector<RdmaMr*> regions_;  // by address; one may lie within another
    std::vector<BoundMr*> keys_;    // by the upper 24 bits of their keys
};

}  // namespace nfsrdma::verbs::rdmacore
