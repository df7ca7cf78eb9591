#pragma once
#include <atomic>
#include <cstdint>
#include <string>

// Exact counts of heap allocations, of this process and of one that was started with the preloaded
// interposer.
namespace nfsrdma::bench {

std::uint64_t own_allocations() noexcept;

class PeerAllocations {
  public:
    PeerAllocations();  // makes the shared file
    ~PeerAllocations();
    PeerAllocations(const PeerAllocations&) = delete;
    PeerAllocations& operator=(const PeerAllocations&) = delete;
    const std::string& path() const noexcept { return path_; }  // for NR_ALLOC_COUNT_FILE
    std::uint64_t count() const noexcept;

  private:
    std::string path_;
    void* shared_ = nullptr;
};

}  // namespace nfsrdma::bench
