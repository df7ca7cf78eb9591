#pragma once
#include <cstdint>
#include <mutex>
#include <sys/uio.h>
#include <unordered_map>

#include "tools/mount_nfsrdma/fuse3.hpp"

namespace nfsrdma::mount {

// By which descriptor of /dev/fuse a request came, where there are several: its answer has to go
// back by the same one. Any thread.
class Routes {
  public:
    // With more than one descriptor; `first` is the session's own, for all that is no answer.
    // Returns 0 or an errno.
    int take_over(fuse_session* session, int first);
    void note(std::uint64_t unique, std::uint32_t opcode, int fd);
    // Where its answer goes, and it is known no more; negative: there is but one descriptor.
    int take(std::uint64_t unique) noexcept;

  private:
    static ssize_t write(int fd, iovec* parts, int count, void* mount);
    static ssize_t read(int fd, void* buffer, std::size_t size, void* mount);
    std::mutex lock_;
    int first_ = -1;
    std::unordered_map<std::uint64_t, int> by_request_;  // those of other descriptors
};

}  // namespace nfsrdma::mount
