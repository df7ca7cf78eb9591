#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/assert.hpp"

namespace nfsrdma {

struct TracePoint {
    std::uint64_t time_ns = 0;
    std::uint32_t xid = 0;         // 0: of no RPC
    std::uint32_t connection = 0;  // the connection's id in its process
    const char* point = "";        // a string literal
};

// The last events of one loop, dumped when something failed. A fixed ring: adding is a few stores,
// allocates nothing and overwrites the oldest. One thread.
class TraceRing {
  public:
    // `capacity` is a power of two.
    explicit TraceRing(std::size_t capacity)
        : mask_(capacity - 1), points_(std::make_unique<TracePoint[]>(capacity)) {
        NR_ASSERT(capacity > 0 && (capacity & mask_) == 0);
    }
    void add(const TracePoint& point) noexcept { points_[added_++ & mask_] = point; }
    std::uint64_t added() const noexcept { return added_; }
    std::size_t capacity() const noexcept { return mask_ + 1; }
    // The last `count` points (or as many as there are), oldest first, one a line: microseconds
    // since the first of them, connection, XID in hex, point.
    std::string dump(std::size_t count = SIZE_MAX) const;

  private:
    const std::size_t mask_;
    const std::unique_ptr<TracePoint[]> points_;
    std::uint64_t added_ = 0;
};

}  // namespace nfsrdma
