#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "pools/lease.hpp"
#include "pools/page_list.hpp"

namespace nfsrdma::pools {

class BufferPool;

// One inline send or receive buffer: a slice of arena memory of the pool's size (rpcrdma_regbuf).
class Regbuf : public ListHook<Regbuf> {
  public:
    std::span<std::byte> bytes() const noexcept { return memory_; }
    BufferPool& pool() const noexcept { return *home_; }

  private:
    friend class BufferPool;
    std::span<std::byte> memory_;
    BufferPool* home_ = nullptr;
};

class BufferPool {
  public:
    static Result<std::unique_ptr<BufferPool>> create(Arena& arena, std::uint32_t count,
                                                      std::uint32_t bytes_each);
    ~BufferPool();  // asserts full()
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;
    Result<Lease<Regbuf>> get() noexcept;  // Errc::again when dry
    void put(Regbuf& buffer) noexcept;
    bool full() const noexcept { return free_.size() == count_; }
    std::uint32_t available() const noexcept { return free_.size(); }
    std::uint32_t bytes_each() const noexcept { return bytes_each_; }

  private:
    BufferPool() = default;
    List<Regbuf, Regbuf> free_;
    std::unique_ptr<Regbuf[]> buffers_;
    std::uint32_t count_ = 0, bytes_each_ = 0;
};

}  // namespace nfsrdma::pools
