#include "tests/support/alloc_counter.hpp"

#ifdef NR_ALLOC_COUNTER
#include "tools/rpcrdma_bench/alloc_counts.hpp"
#endif

namespace nfsrdma::test {

namespace {

#ifdef NR_ALLOC_COUNTER
constexpr bool kCounts = true;
std::uint64_t allocations() noexcept {
    return bench::own_allocations();
}
#else
constexpr bool kCounts = false;
std::uint64_t allocations() noexcept {
    return 0;
}
#endif

}  // namespace

const bool kAllocCounterWorks = kCounts;

AllocCounter::AllocCounter() noexcept : start_(allocations()) {}

std::uint64_t AllocCounter::count() const noexcept {
    return allocations() - start_;
}

}  // namespace nfsrdma::test
