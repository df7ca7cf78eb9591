#pragma once
#include <cstdint>

// Counts heap allocations of the whole process, of all threads, exactly. A test asserts
//     AllocCounter counter; ...; EXPECT_EQ(counter.count(), 0u);
// Under a sanitizer, which brings its own malloc, nothing is counted: kAllocCounterWorks is false
// and such a test skips.
namespace nfsrdma::test {

extern const bool kAllocCounterWorks;

class AllocCounter {
  public:
    AllocCounter() noexcept;
    // malloc, calloc, realloc, aligned allocation and operator new since construction.
    std::uint64_t count() const noexcept;

  private:
    std::uint64_t start_;
};

}  // namespace nfsrdma::test
