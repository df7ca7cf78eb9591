#include "tools/rpcrdma_bench/alloc_counts.hpp"

#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

namespace nfsrdma::bench {

PeerAllocations::PeerAllocations() {
    std::string name = "/dev/shm/nfsrdma-allocs.XXXXXX";
    const int fd = mkstemp(name.data());
    if (fd < 0) return;
    path_ = name;
    if (ftruncate(fd, 4096) == 0) {
        void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (shared != MAP_FAILED) shared_ = shared;
    }
    close(fd);
}

PeerAllocations::~PeerAllocations() {
    if (shared_ != nullptr) munmap(shared_, 4096);
    if (!path_.empty()) unlink(path_.c_str());
}

std::uint64_t PeerAllocations::count() const noexcept {
    return shared_ == nullptr ? 0 : static_cast<std::atomic<std::uint64_t>*>(shared_)->load();
}

}  // namespace nfsrdma::bench
