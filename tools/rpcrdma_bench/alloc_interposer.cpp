// Counts every malloc, calloc, realloc and aligned allocation of a process (operator new comes
// through malloc). Linked into rpcrdma-bench, and made a shared object that is preloaded into the
// server. Where NR_ALLOC_COUNT_FILE names a file, the count is kept there, shared, so that another
// process can read it at any moment.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/rpcrdma_bench/alloc_counts.hpp"

// glibc's own names.
// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" {
void* __libc_malloc(std::size_t size);
void* __libc_calloc(std::size_t count, std::size_t size);
void* __libc_realloc(void* old, std::size_t size);
void* __libc_memalign(std::size_t alignment, std::size_t size);
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace nfsrdma::bench {
namespace {

using Count = std::atomic<std::uint64_t>;
constinit Count own_count{0};
constinit std::atomic<Count*> where{&own_count};

[[maybe_unused]] void count_one() noexcept {
    where.load(std::memory_order_relaxed)->fetch_add(1, std::memory_order_relaxed);
}

__attribute__((constructor)) void attach() noexcept {
    const char* path = std::getenv("NR_ALLOC_COUNT_FILE");  // NOLINT(concurrency-mt-unsafe)
    if (path == nullptr) return;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void* shared = mmap(nullptr, sizeof(Count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (shared != MAP_FAILED) where.store(static_cast<Count*>(shared), std::memory_order_relaxed);
}

}  // namespace

std::uint64_t own_allocations() noexcept {
    return where.load(std::memory_order_relaxed)->load();
}

}  // namespace nfsrdma::bench

#ifndef NR_SANITIZED
extern "C" {
void* malloc(std::size_t size) {
    nfsrdma::bench::count_one();
    return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
    nfsrdma::bench::count_one();
    return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
    nfsrdma::bench::count_one();
    return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size) {
    nfsrdma::bench::count_one();
    return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    return memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
    void* memory = memalign(alignment, size);
    if (memory == nullptr) return ENOMEM;
    *out = memory;
    return 0;
}
}
#endif
