#pragma once
#include <cstdio>
#include <cstdlib>

// NR_ASSERT is for our own bugs and is always on; what a peer or a device says never asserts, it
// returns an Error. NR_DCHECK is the same for checks too dear for a release build.
namespace nfsrdma {
[[noreturn]] inline void assert_failed(const char* expr, const char* file, int line) noexcept {
    (void)std::fprintf(stderr, "nfsrdma: assertion failed: %s (%s:%d)\n", expr, file, line);
    std::abort();
}
}  // namespace nfsrdma

#define NR_ASSERT(expr) \
    (static_cast<bool>(expr) ? void(0) : ::nfsrdma::assert_failed(#expr, __FILE__, __LINE__))
#ifdef NDEBUG
#define NR_DCHECK(expr) void(0)
#else
#define NR_DCHECK(expr) NR_ASSERT(expr)
#endif
