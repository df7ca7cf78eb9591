#include "pools/page_list.hpp"

#include "base/bytes.hpp"

namespace nfsrdma::pools {

Result<std::unique_ptr<PageListPool>> PageListPool::create(Arena& arena,
                                                           std::span<const ClassSpec> classes) {
    std::unique_ptr<PageListPool> pool(
        new PageListPool);  // NOLINT(cppcoreguidelines-owning-memory)
    std::uint32_t total = 0, used = 0;
    for (const ClassSpec& spec : classes) {
        if (spec.count == 0) continue;
        SizeClass& size_class = pool->classes_[used];
        if (used == kClassesMax || spec.bytes == 0 ||
            (used > 0 && spec.bytes <= pool->classes_[used - 1].bytes)) {
            return Error{Errc::invalid_argument, 0, "page list classes: at most four, ascending"};
        }
        size_class.bytes = align_up(spec.bytes, kPageSize);
        size_class.count = spec.count;
        total += spec.count;
        ++used;
    }
    pool->lists_ = std::make_unique<PageList[]>(total);
    PageList* next = pool->lists_.get();
    for (std::uint32_t c = 0; c < used; ++c) {
        SizeClass& size_class = pool->classes_[c];
        NR_TRY_ASSIGN(std::span<std::byte> memory,
                      arena.carve(std::size_t{size_class.bytes} * size_class.count));
        for (std::uint32_t i = 0; i < size_class.count; ++i, ++next) {
            next->memory_ = memory.subspan(std::size_t{i} * size_class.bytes, size_class.bytes);
            next->home_ = pool.get();
            next->size_class_ = c;
            size_class.free.push_back(*next);
        }
        pool->class_count_ = c + 1;
    }
    return pool;
}

PageListPool::~PageListPool() {
    NR_ASSERT(full());
    for (SizeClass& size_class : classes_)
        size_class.free.clear();
}

Result<Lease<PageList>> PageListPool::get(std::uint32_t bytes) noexcept {
    if (bytes > largest()) return Error{Errc::too_big, 0, "more than the largest page list"};
    for (std::uint32_t c = 0; c < class_count_; ++c) {
        SizeClass& size_class = classes_[c];
        if (size_class.bytes < bytes || size_class.free.empty()) continue;
        return Lease<PageList>::reclaim(size_class.free.pop_front());
    }
    ++dry_count_;
    return Error{Errc::again, 0, "no page list is free"};
}

// To the front: what was used last is most likely still in the cache.
void PageListPool::put(PageList& list) noexcept {
    NR_ASSERT(list.home_ == this);
    classes_[list.size_class_].free.push_front(list);
}

bool PageListPool::full() const noexcept {
    for (std::uint32_t c = 0; c < class_count_; ++c) {
        if (classes_[c].free.size() != classes_[c].count) return false;
    }
    return true;
}

std::uint32_t PageListPool::available(std::uint32_t bytes) const noexcept {
    std::uint32_t count = 0;
    for (std::uint32_t c = 0; c < class_count_; ++c) {
        if (classes_[c].bytes >= bytes) count += classes_[c].free.size();
    }
    return count;
}

std::uint32_t PageListPool::largest() const noexcept {
    return class_count_ == 0 ? 0 : classes_[class_count_ - 1].bytes;
}

}  // namespace nfsrdma::pools
