#include "pools/regions.hpp"

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"
#include "base/bytes.hpp"

// Operation. A sorted list, searched by address: there are few regions, and each lives long.
//
// Ownership. The memory is its user's; the registration is the region's. A region goes only when
// `users` is 0: remove() asserts it.
//
// Errors. The device's, with what to do where lockable memory is short.
namespace nfsrdma::pools {

namespace {

std::uint64_t begin_of(const Region& region) noexcept {
    return address_of(region.memory.data());
}

std::uint64_t end_of(const Region& region) noexcept {
    return begin_of(region) + region.memory.size();
}

Error explain(Error error) noexcept {
    if (error.code == Errc::system && (error.sys == ENOMEM || error.sys == EAGAIN)) {
        error.what =
            "register the memory (is the limit of lockable memory, ulimit -l / RLIMIT_MEMLOCK, too "
            "low?)";
    }
    return error;
}

}  // namespace

// The first region that begins behind `address`.
Regions::List::const_iterator Regions::after(std::uint64_t address) const noexcept {
    return std::upper_bound(
        regions_.begin(), regions_.end(), address,
        [](std::uint64_t at, const auto& region) { return at < begin_of(*region); });
}

Result<void> Regions::add(verbs::ProtectionDomain& pd, std::span<std::byte> memory,
                          verbs::Access access) {
    if (memory.data() == nullptr || memory.empty())
        return Error{Errc::invalid_argument, 0, "no memory to register"};
    if (regions_.size() >= kRegionsMax)
        return Error{Errc::too_big, 0, "too many registered runs of memory"};
    const std::uint64_t begin = address_of(memory.data()), end = begin + memory.size();
    if (end < begin) return Error{Errc::invalid_argument, 0, "memory beyond the last address"};
    const auto next = after(begin);
    const bool overlaps = (next != regions_.end() && begin_of(**next) < end) ||
                          (next != regions_.begin() && end_of(**(next - 1)) > begin);
    if (overlaps) return Error{Errc::invalid_argument, 0, "memory that is registered already"};
    auto mr = pd.register_memory(memory, access);
    if (!mr) return explain(mr.error());
    auto region = std::make_unique<Region>();
    region->memory = memory;
    region->mr = *std::move(mr);
    regions_.insert(next, std::move(region));
    return {};
}

Region* Regions::find(std::span<const std::byte> memory) const noexcept {
    const std::uint64_t begin = address_of(memory.data());
    const auto next = after(begin);
    if (next == regions_.begin()) return nullptr;
    Region& region = **(next - 1);
    const bool holds = begin <= end_of(region) && memory.size() <= end_of(region) - begin;
    return holds ? &region : nullptr;
}

Region* Regions::exactly(std::span<const std::byte> memory) const noexcept {
    Region* const region = find(memory);
    const bool same = region != nullptr && region->memory.data() == memory.data() &&
                      region->memory.size() == memory.size();
    return same ? region : nullptr;
}

void Regions::remove(Region& region) noexcept {
    NR_ASSERT(region.users == 0);
    const auto behind = after(begin_of(region));
    NR_ASSERT(behind != regions_.begin() && (behind - 1)->get() == &region);
    regions_.erase(behind - 1);
}

bool RegionUse::add(Region& region) noexcept {
    const auto used = std::span(regions_).first(count_);
    if (std::find(used.begin(), used.end(), &region) != used.end()) return true;
    if (count_ == kDistinctMax) return false;
    ++region.users;
    regions_[count_++] = &region;
    return true;
}

void RegionUse::clear() noexcept {
    while (count_ > 0) {
        Region& region = *regions_[--count_];
        NR_ASSERT(region.users > 0);
        --region.users;
    }
}

}  // namespace nfsrdma::pools
