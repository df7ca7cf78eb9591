#include "verbs/rdmacore/mr.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/device.hpp"
#include "verbs/rdmacore/memlock.hpp"
#include "verbs/rdmacore/qp.hpp"

// Operation. map() finds the region that holds the run of memory and remembers what is to be bound;
// posting the REG_MR binds it. Without windows map() registers the run itself and the REG_MR is
// empty.
//
// Ownership. 1. A bound key is on the list of the queue pair that bound it, which releases it
// before it dies: some kernels neither destroy a queue pair with bound windows nor deregister a
// region under one. 2. Only a bound key is given to a device to be invalidated (stage_invalidate).
//
// Errors. A chain with a key in the wrong state is not posted. What a device refuses to give up at
// the end is logged and left to the kernel, which frees it with the process.
namespace nfsrdma::verbs::rdmacore {

namespace {

constexpr Error kBadMap{Errc::invalid_argument, 0, "map memory region"};
constexpr std::uint32_t kKeyByteBits = 8;

bool misplaced(const std::byte* page, std::uint32_t page_size) noexcept {
    return page == nullptr || (address_of(page) & (page_size - 1)) != 0;
}

bool begins_behind(std::uint64_t at, const RdmaMr* region) noexcept {
    return at < region->begin();
}

}  // namespace

const char* to_string(KeyState state) noexcept {
    switch (state) {
        case KeyState::free:
            return "free";
        case KeyState::bound:
            return "bound";
        case KeyState::invalidating:
            return "invalidating";
    }
    return "?";
}

RdmaMr::RdmaMr(RdmaPd& pd, ibv_mr& mr, Access access) noexcept
    : pd_(pd),
      mr_(mr),
      writable_(has(access, Access::local_write) || has(access, Access::remote_write)) {
    if (has(access, Access::remote_read) || has(access, Access::remote_write))
        rkey_ = Rkey{mr.rkey};
}

RdmaMr::~RdmaMr() {
    pd_.forget(*this);
    if (const int error = ibv_dereg_mr(&mr_); error != 0)
        log::error("ibv_dereg_mr: error {}: a window is still bound to the region", error);
}

std::uint64_t RdmaMr::begin() const noexcept {
    return address_of(mr_.addr);
}

bool RdmaMr::contains(std::uint64_t addr, std::uint64_t length) const noexcept {
    const std::uint64_t first = address_of(mr_.addr);
    return addr >= first && addr - first <= mr_.length && length <= mr_.length - (addr - first);
}

KeyMr::~KeyMr() {
    detach();
}

void KeyMr::detach() noexcept {
    if (qp_ != nullptr && linked()) qp_->keys().erase(*this);
    qp_ = nullptr;
}

Result<void> KeyMr::map(std::span<std::byte* const> pages, std::uint32_t page_size,
                        std::uint32_t offset, std::uint32_t length, std::uint64_t iova,
                        Access access) noexcept {
    if (dead_) return Error{Errc::reconnect, 0, "map: the key's connection is gone"};
    if (state_ != KeyState::free || length == 0 || pages.empty() || !std::has_single_bit(page_size))
        return kBadMap;
    if (offset >= page_size) return kBadMap;
    const std::uint64_t needed = div_ceil(std::uint64_t{offset} + length, page_size);
    if (needed > pages.size()) return Error{Errc::too_big, 0, "map memory region"};
    pages = pages.first(needed);
    if (misplaced(pages[0], page_size)) return kBadMap;
    unmap();  // what it was mapped to before is not bound any more, whatever comes
    NR_TRY(lay_out({pages, page_size, offset, length}, iova));
    target_.length = length;
    target_.access = access;
    NR_TRY(prepare());
    mapped_ = true;
    return {};
}

Result<void> KeyMr::lay_out(const umr::PageSpan& list, std::uint64_t iova) noexcept {
    // One look at each page: what follows a page that is in its place is in its own.
    const std::uint64_t first = address_of(list.pages[0]);
    std::uint64_t expected = first;
    for (const std::byte* page : list.pages) {
        if (address_of(page) != expected) {
            if (misplaced(page, list.page_size)) return kBadMap;
            return Error{Errc::unsupported, 0, "map: a key of this device covers one run"};
        }
        expected += list.page_size;
    }
    // The peer addresses a window by the addresses of the region below it.
    if (iova != first + list.offset)
        return Error{Errc::unsupported, 0, "map: a key of this device starts at its address"};
    target_.addr = iova;
    return {};
}

void KeyMr::unmap() noexcept {
    if (!std::exchange(mapped_, false)) return;
    unprepare();
}

void KeyMr::save() noexcept {
    if (staged_) return;
    staged_ = true;
    saved_ = {state_, bound_rkey_, qp_, mapped_};
}

Result<void> KeyMr::stage_bind(RdmaQp& qp) noexcept {
    if (dead_ || !mapped_ || state_ != KeyState::free)
        return Error{Errc::invalid_argument, 0, "REG_MR of a key that is not mapped, or not free"};
    save();
    binds_ = true;
    mapped_ = false;
    state_ = KeyState::bound;
    bound_rkey_ = target_.rkey;
    qp_ = &qp;
    return {};
}

Result<void> KeyMr::stage_invalidate(const RdmaQp& qp, Rkey key) noexcept {
    if (dead_ || state_ != KeyState::bound || qp_ != &qp || Rkey{bound_rkey_} != key)
        return Error{Errc::invalid_argument, 0, "LOCAL_INV of a key that is not bound"};
    save();
    state_ = KeyState::invalidating;
    return {};
}

void KeyMr::roll_back() noexcept {
    if (!staged_) return;
    staged_ = binds_ = false;
    state_ = saved_.state;
    bound_rkey_ = saved_.bound_rkey;
    qp_ = saved_.qp;
    mapped_ = saved_.mapped;
}

void KeyMr::commit() noexcept {
    if (binds_ && !linked()) qp_->keys().push_back(*this);
    staged_ = binds_ = false;
}

void KeyMr::on_invalidated() noexcept {
    if (state_ == KeyState::free) return;
    state_ = KeyState::free;
    detach();
}

BoundMr::BoundMr(RdmaPd& pd, std::uint32_t rkey) noexcept
    : KeyMr(pd), index_(rkey >> kKeyByteBits) {
    pd_.remember(*this);
}

BoundMr::~BoundMr() {
    pd_.forget(*this);
}

UmrMr::UmrMr(RdmaPd& pd, mlx5dv_mkey& key) noexcept : BoundMr(pd, umr::rkey_of(key)), key_(&key) {
    target_.umr_key = key_;
    target_.rkey = bound_rkey_ = umr::rkey_of(key);
}

Result<void> UmrMr::lay_out(const umr::PageSpan& list, std::uint64_t /*iova*/) noexcept {
    const auto bad = [&](const std::byte* page) { return misplaced(page, list.page_size); };
    if (std::any_of(list.pages.begin(), list.pages.end(), bad)) return kBadMap;
    NR_TRY_ASSIGN(const std::uint32_t count, umr::runs_of(list, runs_));
    target_.addr = 0;
    target_.runs = std::span(runs_).first(count);
    return {};
}

Result<void> UmrMr::prepare() noexcept {
    for (ibv_sge& run : target_.runs) {
        const RdmaMr* const region = pd_.find_region(run.addr, run.length);
        if (region == nullptr)
            return Error{Errc::invalid_argument, 0, "map: memory that is not registered"};
        if (has(target_.access, Access::remote_write) && !region->writable()) return kBadMap;
        run.lkey = static_cast<std::uint32_t>(region->lkey());
    }
    target_.rkey = umr::next_rkey(bound_rkey_);
    return {};
}

void UmrMr::release() noexcept {
    detach();
    if (key_ == nullptr) return;
    if (const int error = umr::destroy_key(key_); error != 0)
        log::error("mlx5dv_destroy_mkey: error {}", error);
    key_ = nullptr;
    target_.umr_key = nullptr;
    dead_ = true;
}

WindowMr::WindowMr(RdmaPd& pd, ibv_mw& window) noexcept
    : BoundMr(pd, window.rkey), window_(&window) {
    target_.window = window_;
    target_.rkey = bound_rkey_ = window.rkey;
}

WindowMr::~WindowMr() {
    release();
}

Result<void> WindowMr::prepare() noexcept {
    const RdmaMr* const region = pd_.find_region(target_.addr, target_.length);
    if (region == nullptr)
        return Error{Errc::invalid_argument, 0, "map: memory that is not registered"};
    if (has(target_.access, Access::remote_write) && !region->writable()) return kBadMap;
    target_.region = &region->handle();
    target_.rkey = ibv_inc_rkey(window_->rkey);
    return {};
}

// The provider finds the window by its present key when the next bind is posted, and leaves it to
// us to say what that is.
void WindowMr::commit() noexcept {
    window_->rkey = bound_rkey_;
    KeyMr::commit();
}

void WindowMr::release() noexcept {
    detach();
    if (window_ == nullptr) return;
    if (const int error = ibv_dealloc_mw(window_); error != 0)
        log::error("ibv_dealloc_mw: error {}", error);
    window_ = nullptr;
    target_.window = nullptr;
    dead_ = true;
}

Result<void> EachMr::prepare() noexcept {
    deregister();  // mapped before, and never posted
    NR_TRY_ASSIGN(target_.region,
                  pd_.reg_mr(target_.addr, target_.length,
                             region_access(target_.access | Access::local_write, false)));
    target_.rkey = target_.region->rkey;
    return {};
}

Lkey EachMr::lkey() const noexcept {
    return Lkey{target_.region == nullptr ? 0 : target_.region->lkey};
}

void EachMr::deregister() noexcept {
    ibv_mr* const region = std::exchange(target_.region, nullptr);
    if (region == nullptr) return;
    if (const int error = ibv_dereg_mr(region); error != 0)
        log::error("ibv_dereg_mr: error {}", error);
}

void EachMr::on_invalidated() noexcept {
    KeyMr::on_invalidated();
    deregister();
}

void EachMr::release() noexcept {
    detach();
    deregister();
    dead_ = true;
}

RdmaPd::RdmaPd(RdmaDevice& device, PdHandle pd)
    : device_(device), pd_(std::move(pd)), keys_(kBuckets, nullptr) {
    regions_.reserve(16);
}

RdmaPd::~RdmaPd() {
    NR_ASSERT(regions_.empty());
}

const DeviceCaps& RdmaPd::caps() const noexcept {
    return device_.caps();
}

Result<ibv_mr*> RdmaPd::reg_mr(std::uint64_t addr, std::size_t length, int access) noexcept {
    ibv_mr* const mr = ibv_reg_mr(pd_.get(), bytes_at(addr), length, access);
    if (mr != nullptr) return mr;
    const int error = errno;
    explain_memory("register " + std::to_string(length >> 10) + " KiB of memory", error);
    return Error{Errc::system, error, "register memory with the RDMA device"};
}

Result<std::unique_ptr<Mr>> RdmaPd::register_memory(std::span<std::byte> memory, Access access) {
    if (memory.data() == nullptr || memory.empty())
        return Error{Errc::invalid_argument, 0, "register memory"};
    const bool windows = device_.strategy() == Strategy::windows;
    NR_TRY_ASSIGN(ibv_mr* const mr,
                  reg_mr(address_of(memory.data()), memory.size(), region_access(access, windows)));
    auto region = std::make_unique<RdmaMr>(*this, *mr, access);
    regions_.insert(
        std::upper_bound(regions_.begin(), regions_.end(), region->begin(), begins_behind),
        region.get());
    return std::unique_ptr<Mr>(std::move(region));
}

Result<std::unique_ptr<FastMr>> RdmaPd::alloc_fast_mr(std::uint32_t pages_max) {
    if (pages_max == 0) return Error{Errc::invalid_argument, 0, "allocate memory region"};
    if (pages_max > caps().max_fast_reg_pages)
        return Error{Errc::too_big, 0, "allocate memory region"};
    switch (device_.strategy()) {
        case Strategy::automatic:
        case Strategy::register_each:
            return std::unique_ptr<FastMr>(std::make_unique<EachMr>(*this));
        case Strategy::umr: {
            mlx5dv_mkey* const key = umr::create_key(*pd_);
            if (key == nullptr) return Error{Errc::system, errno, "allocate a key for UMR"};
            return std::unique_ptr<FastMr>(std::make_unique<UmrMr>(*this, *key));
        }
        case Strategy::windows:
            break;
    }
    ibv_mw* const window = ibv_alloc_mw(pd_.get(), IBV_MW_TYPE_2);
    if (window == nullptr) return Error{Errc::system, errno, "allocate a memory window"};
    return std::unique_ptr<FastMr>(std::make_unique<WindowMr>(*this, *window));
}

RdmaMr* RdmaPd::find_region(std::uint64_t addr, std::uint64_t length) const noexcept {
    const auto behind = std::upper_bound(regions_.begin(), regions_.end(), addr, begins_behind);
    // The first one asked, but where one region lies within another.
    const auto at = std::find_if(std::make_reverse_iterator(behind), regions_.rend(),
                                 [&](const RdmaMr* mr) { return mr->contains(addr, length); });
    return at == regions_.rend() ? nullptr : *at;
}

void RdmaPd::forget(const RdmaMr& mr) noexcept {
    regions_.erase(std::remove(regions_.begin(), regions_.end(), &mr), regions_.end());
}

void RdmaPd::on_remote_invalidate(const RdmaQp& qp, Rkey key) noexcept {
    const std::uint32_t index = static_cast<std::uint32_t>(key) >> kKeyByteBits;
    BoundMr* bound = keys_[index % kBuckets];
    while (bound != nullptr && bound->index() != index)
        bound = bound->hash_next;
    if (bound != nullptr && bound->bound_on(qp, key)) bound->on_invalidated();
}

void RdmaPd::remember(BoundMr& key) noexcept {
    BoundMr*& bucket = keys_[key.index() % kBuckets];
    key.hash_next = std::exchange(bucket, &key);
}

void RdmaPd::forget(const BoundMr& key) noexcept {
    BoundMr** at = &keys_[key.index() % kBuckets];
    while (*at != &key)
        at = &(*at)->hash_next;
    *at = key.hash_next;
}

}  // namespace nfsrdma::verbs::rdmacore
