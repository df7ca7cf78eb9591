#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.hpp"
#include "verbs/device.hpp"

// Memory of a user's own that is registered beside the arena, and who uses it. Above pools/ nobody
// sees these: use Io::register_memory.
namespace nfsrdma::pools {

// One run of a user's memory.
struct Region {
    std::span<std::byte> memory;
    std::unique_ptr<verbs::Mr> mr;
    std::uint32_t users = 0;  // exposures and transfers that name it
};

// The regions of one Io: by address, no two overlap.
class Regions {
  public:
    // Each costs the device an entry, and looking one up costs a little more with each.
    static constexpr std::uint32_t kRegionsMax = 1024;

    // Registers `memory`. Errc::invalid_argument: empty, or part of it is registered already;
    // Errc::too_big: kRegionsMax; Errc::system: the device's. Allocates.
    Result<void> add(verbs::ProtectionDomain& pd, std::span<std::byte> memory,
                     verbs::Access access);
    // The region that holds all of `memory`, or nullptr.
    Region* find(std::span<const std::byte> memory) const noexcept;
    // That which was added as exactly `memory`, or nullptr.
    Region* exactly(std::span<const std::byte> memory) const noexcept;
    void remove(Region& region) noexcept;  // asserts that nobody uses it
    std::size_t count() const noexcept { return regions_.size(); }

  private:
    using List = std::vector<std::unique_ptr<Region>>;
    List::const_iterator after(std::uint64_t address) const noexcept;
    List regions_;
};

// The regions that one exposure or transfer names: each stays registered until clear().
class RegionUse {
  public:
    static constexpr std::uint32_t kDistinctMax = 8;
    RegionUse() = default;
    ~RegionUse() { clear(); }
    RegionUse(const RegionUse&) = delete;
    RegionUse& operator=(const RegionUse&) = delete;
    bool add(Region& region) noexcept;  // false: too many different ones
    void clear() noexcept;
    bool empty() const noexcept { return count_ == 0; }

  private:
    std::array<Region*, kDistinctMax> regions_{};
    std::uint32_t count_ = 0;
};

}  // namespace nfsrdma::pools
