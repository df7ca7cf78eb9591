#include "pools/buffer_pool.hpp"

namespace nfsrdma::pools {

Result<std::unique_ptr<BufferPool>> BufferPool::create(Arena& arena, std::uint32_t count,
                                                       std::uint32_t bytes_each) {
    if (bytes_each == 0) return Error{Errc::invalid_argument, 0, "inline buffers of no bytes"};
    std::unique_ptr<BufferPool> pool(new BufferPool);  // NOLINT(cppcoreguidelines-owning-memory)
    NR_TRY_ASSIGN(std::span<std::byte> memory, arena.carve(std::size_t{count} * bytes_each));
    pool->buffers_ = std::make_unique<Regbuf[]>(count);
    pool->bytes_each_ = bytes_each;
    pool->count_ = count;
    for (std::uint32_t i = 0; i < count; ++i) {
        Regbuf& buffer = pool->buffers_[i];
        buffer.memory_ = memory.subspan(std::size_t{i} * bytes_each, bytes_each);
        buffer.home_ = pool.get();
        pool->free_.push_back(buffer);
    }
    return pool;
}

BufferPool::~BufferPool() {
    NR_ASSERT(full());
    free_.clear();
}

Result<Lease<Regbuf>> BufferPool::get() noexcept {
    if (free_.empty()) return Error{Errc::again, 0, "no inline buffer is free"};
    return Lease<Regbuf>::reclaim(free_.pop_front());
}

void BufferPool::put(Regbuf& buffer) noexcept {
    NR_ASSERT(buffer.home_ == this);
    free_.push_front(buffer);
}

}  // namespace nfsrdma::pools
