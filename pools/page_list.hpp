#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "base/result.hpp"
#include "pools/lease.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::pools {

inline constexpr std::uint32_t kPageSize = 4096;

// How keys are made: the one product option (--registration). `automatic` is `bind` wherever the
// device can.
enum class Registration : std::uint8_t { automatic, bind, fixed };

// The one region that all pool memory of a protection domain shares: page-aligned, registered once.
class Arena {
  public:
    // Remote access is registered only for Registration::fixed (static keys, unsafe; the caller has
    // warned).
    static Result<std::unique_ptr<Arena>> create(verbs::ProtectionDomain& pd, std::size_t bytes,
                                                 Registration registration);
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    // Carves `bytes`, page-aligned, at set-up. Errc::too_big when the arena is used up.
    Result<std::span<std::byte>> carve(std::size_t bytes) noexcept;
    // The bytes from `offset` on take memory page by page as they are used, not 2 MiB at a time:
    // for what is mostly left untouched. Before that memory is used.
    void use_small_pages(std::size_t offset, std::size_t bytes) noexcept;
    bool contains(std::span<const std::byte> memory) const noexcept;
    verbs::Lkey lkey() const noexcept;
    verbs::Rkey static_rkey() const noexcept;  // Rkey{0} unless Registration::fixed
    std::span<std::byte> memory() const noexcept { return memory_; }

  private:
    Arena() = default;
    std::span<std::byte> memory_;
    std::size_t carved_ = 0;
    std::unique_ptr<verbs::Mr> mr_;
};

class PageListPool;

// A leased, contiguous, page-aligned run of arena memory (docs/adr: page lists are contiguous
// runs).
class PageList : public ListHook<PageList> {
  public:
    std::span<std::byte> bytes() const noexcept { return memory_; }  // whole capacity
    std::uint32_t capacity() const noexcept { return static_cast<std::uint32_t>(memory_.size()); }
    PageListPool& pool() const noexcept { return *home_; }

  private:
    friend class PageListPool;
    std::span<std::byte> memory_;
    PageListPool* home_ = nullptr;
    std::uint32_t size_class_ = 0;
};

// Runs of a few fixed sizes ("classes", ascending), carved at set-up; get() takes the smallest free
// run that holds what is asked, falling to larger classes when one is dry. One loop's; never
// allocates after create.
class PageListPool {
  public:
    struct ClassSpec {
        std::uint32_t bytes;  // rounded up to pages
        std::uint32_t count;
    };
    static constexpr std::uint32_t kClassesMax = 4;
    static Result<std::unique_ptr<PageListPool>> create(Arena& arena,
                                                        std::span<const ClassSpec> classes);
    ~PageListPool();  // asserts full()
    PageListPool(const PageListPool&) = delete;
    PageListPool& operator=(const PageListPool&) = delete;
    // Errc::again when dry (counted), Errc::too_big beyond the largest class.
    Result<Lease<PageList>> get(std::uint32_t bytes) noexcept;
    void put(PageList& list) noexcept;
    bool full() const noexcept;
    std::uint32_t available(
        std::uint32_t bytes) const noexcept;  // runs that could serve `bytes` now
    std::uint32_t largest() const noexcept;
    std::uint64_t dry_count() const noexcept { return dry_count_; }

  private:
    PageListPool() = default;
    struct SizeClass {
        std::uint32_t bytes = 0, count = 0;
        List<PageList, PageList> free;
    };
    SizeClass classes_[kClassesMax];
    std::uint32_t class_count_ = 0;
    std::unique_ptr<PageList[]> lists_;
    std::uint64_t dry_count_ = 0;
};

}  // namespace nfsrdma::pools
