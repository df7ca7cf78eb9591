#include "verbs/softroce/mr.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.hpp"
#include "verbs/softroce/device.hpp"

// Operation. A key is 24 random bits that a region keeps for life and a low byte that each map()
// steps, so that an old advertisement does not open a new binding. map() fills a staged binding;
// REG_MR makes it the bound one.
//
// Ownership. 1. A region is in the table from its constructor to its destructor. 2. Memory that a
// binding names belongs to the consumer and outlives the binding. 3. A staged page list never
// overwrites the bound one: there are two.
//
// Errors. A remote access gives an AccessFault in protocol order; a local one a refusal that
// becomes the work request's error.
namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kPageSizeMin =
    1024;  // a packet's payload is at most 5 pieces of such pages
constexpr std::uint32_t kIndexMask = 0xFFFFFF;

bool writable(Access access) noexcept {
    return has(access, Access::local_write) || has(access, Access::remote_write);
}
}  // namespace

const char* to_string(AccessFault fault) noexcept {
    switch (fault) {
        case AccessFault::none:
            return "none";
        case AccessFault::no_key:
            return "no such key";
        case AccessFault::wrong_pd:
            return "other protection domain";
        case AccessFault::wrong_qp:
            return "other queue pair";
        case AccessFault::not_valid:
            return "not valid";
        case AccessFault::no_right:
            return "no right";
        case AccessFault::out_of_range:
            return "out of range";
    }
    return "unknown fault";
}

std::span<std::byte> Binding::run_at(std::uint64_t offset) const noexcept {
    if (run != nullptr) return {run + offset, static_cast<std::size_t>(length - offset)};
    const std::uint64_t at = first_offset + offset;
    const std::uint64_t in_page = at & ((std::uint64_t{1} << page_shift) - 1);
    const std::uint64_t size =
        std::min((std::uint64_t{1} << page_shift) - in_page, length - offset);
    return {pages[static_cast<std::size_t>(at >> page_shift)] + in_page,
            static_cast<std::size_t>(size)};
}

Region::Region(SoftPd& pd, KeyTable& table, bool fast) : pd_(pd), table_(table), fast_(fast) {
    table_.insert(*this);
    ++pd_.users_;
}

Region::~Region() {
    table_.remove(*this);
    --pd_.users_;
}

bool Region::in_range(std::uint64_t addr, std::uint64_t length) const noexcept {
    if (addr < bound_.iova) return false;
    const std::uint64_t offset = addr - bound_.iova;
    return offset <= bound_.length && length <= bound_.length - offset;
}

bool Region::allows_local(const SoftPd& pd, std::uint32_t qpn, std::uint64_t addr,
                          std::uint32_t length, bool write) const noexcept {
    if (&pd_ != &pd || state_ != MrState::valid) return false;
    if (fast_ && qpn_ != qpn) return false;
    if (write && !writable(bound_.access)) return false;
    return in_range(addr, length);
}

AccessFault Region::check_remote(const SoftPd& pd, std::uint32_t qpn, Access right,
                                 std::uint64_t addr, std::uint64_t length) const noexcept {
    if (&pd_ != &pd) return AccessFault::wrong_pd;
    if (fast_ && qpn_ != qpn) return AccessFault::wrong_qp;
    if (state_ != MrState::valid) return AccessFault::not_valid;
    if (!has(bound_.access, right)) return AccessFault::no_right;
    return in_range(addr, length) ? AccessFault::none : AccessFault::out_of_range;
}

void Region::copy_in(std::uint64_t addr, std::span<const std::byte> bytes) const noexcept {
    std::uint64_t offset = addr - bound_.iova;
    while (!bytes.empty()) {
        const std::span<std::byte> run = bound_.run_at(offset);
        const std::size_t n = std::min(run.size(), bytes.size());
        std::memcpy(run.data(), bytes.data(), n);
        bytes = bytes.subspan(n);
        offset += n;
    }
}

KeyTable::KeyTable(SoftDevice& device) : device_(device), buckets_(256) {}

void KeyTable::insert(Region& region) {
    NR_ASSERT(size_ < kIndexMask / 2);
    if (size_ >= buckets_.size()) grow();
    do {
        region.index_ = static_cast<std::uint32_t>(device_.random()) & kIndexMask;
    } while (region.index_ == 0 || find_index(region.index_) != nullptr);
    Region*& bucket = buckets_[region.index_ & (buckets_.size() - 1)];
    region.hash_next_ = bucket;
    bucket = &region;
    ++size_;
}

void KeyTable::remove(Region& region) noexcept {
    Region** at = &buckets_[region.index_ & (buckets_.size() - 1)];
    while (*at != &region)
        at = &(*at)->hash_next_;
    *at = region.hash_next_;
    --size_;
}

Region* KeyTable::find_index(std::uint32_t index) const noexcept {
    Region* region = buckets_[index & (buckets_.size() - 1)];
    while (region != nullptr && region->index_ != index)
        region = region->hash_next_;
    return region;
}

Region* KeyTable::find(std::uint32_t key) const noexcept {
    Region* region = find_index(key >> 8);
    return region != nullptr && region->bound_.key == key ? region : nullptr;
}

void KeyTable::grow() {
    std::vector<Region*> old(buckets_.size() * 2);
    old.swap(buckets_);
    for (Region* region : old) {
        while (region != nullptr) {
            Region* const next = region->hash_next_;
            Region*& bucket = buckets_[region->index_ & (buckets_.size() - 1)];
            region->hash_next_ = bucket;
            bucket = region;
            region = next;
        }
    }
}

SoftMr::SoftMr(SoftPd& pd, KeyTable& table, std::span<std::byte> memory, Access access,
               std::uint8_t key_byte)
    : Region(pd, table, false) {
    bound_.key = (index_ << 8) | key_byte;
    bound_.access = access;
    bound_.iova = address_of(memory.data());
    bound_.length = memory.size();
    bound_.run = memory.data();
    state_ = MrState::valid;
}

Rkey SoftMr::rkey() const noexcept {
    const bool remote =
        has(bound_.access, Access::remote_read) || has(bound_.access, Access::remote_write);
    return remote ? Rkey{bound_.key} : Rkey{0};
}

SoftFastMr::SoftFastMr(SoftPd& pd, KeyTable& table, std::uint32_t pages_max, std::uint8_t key_byte)
    : Region(pd, table, true) {
    bound_.key = (index_ << 8) | key_byte;
    staged_.key = bound_.key;
    bound_.pages.reserve(pages_max);
    staged_.pages.reserve(pages_max);
}

Result<void> SoftFastMr::map(std::span<std::byte* const> pages, std::uint32_t page_size,
                             std::uint32_t offset, std::uint32_t length, std::uint64_t iova,
                             Access access) noexcept {
    constexpr Error kBad{Errc::invalid_argument, 0, "map memory region"};
    if (length == 0 || page_size < kPageSizeMin || !std::has_single_bit(page_size)) return kBad;
    if (offset >= page_size || iova + length < iova) return kBad;
    const std::uint64_t needed = div_ceil(std::uint64_t{offset} + length, page_size);
    if (needed > pages.size() || needed > staged_.pages.capacity())
        return Error{Errc::too_big, 0, "map memory region"};
    const auto used = pages.first(static_cast<std::size_t>(needed));
    bool one_run = true;
    for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i] == nullptr || (address_of(used[i]) & (page_size - 1)) != 0) return kBad;
        one_run = one_run && address_of(used[i]) == address_of(used[0]) + i * page_size;
    }
    staged_.pages.assign(used.begin(), used.end());
    staged_.run = one_run ? used[0] + offset : nullptr;
    staged_.page_shift = static_cast<std::uint32_t>(std::countr_zero(page_size));
    staged_.first_offset = offset;
    staged_.length = length;
    staged_.iova = iova;
    staged_.access = access;
    staged_.key = (index_ << 8) | ((staged_.key + 1) & 0xFF);
    mapped_ = true;
    return {};
}

bool SoftFastMr::bind(const SoftPd& pd, std::uint32_t qpn, Rkey key) noexcept {
    if (&pd_ != &pd || state_ != MrState::free || !mapped_) return false;
    if (key != Rkey{0} && key != Rkey{staged_.key}) return false;
    mapped_ = false;
    std::swap(bound_, staged_);
    staged_.key = bound_.key;  // the next map() steps on from here
    staged_.iova = bound_.iova;
    qpn_ = qpn;
    state_ = MrState::valid;
    return true;
}

bool SoftFastMr::invalidate(const SoftPd& pd, std::uint32_t qpn, Rkey key) noexcept {
    if (&pd_ != &pd || state_ != MrState::valid || qpn_ != qpn || key != Rkey{bound_.key})
        return false;
    state_ = MrState::free;
    return true;
}

SoftPd::~SoftPd() {
    NR_ASSERT(users_ == 0);
}

const DeviceCaps& SoftPd::caps() const noexcept {
    return device_.caps();
}

Result<std::unique_ptr<Mr>> SoftPd::register_memory(std::span<std::byte> memory, Access access) {
    if (memory.data() == nullptr) return Error{Errc::invalid_argument, 0, "register memory"};
    return std::unique_ptr<Mr>(std::make_unique<SoftMr>(
        *this, device_.keys(), memory, access, static_cast<std::uint8_t>(device_.random())));
}

Result<std::unique_ptr<FastMr>> SoftPd::alloc_fast_mr(std::uint32_t pages_max) {
    if (pages_max == 0) return Error{Errc::invalid_argument, 0, "allocate memory region"};
    if (pages_max > caps().max_fast_reg_pages)
        return Error{Errc::too_big, 0, "allocate memory region"};
    return std::unique_ptr<FastMr>(std::make_unique<SoftFastMr>(
        *this, device_.keys(), pages_max, static_cast<std::uint8_t>(device_.random())));
}

}  // namespace nfsrdma::verbs::softroce
