#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::bench {

// The exported file without a server: what the file system itself gives to one core.
class LocalFile {
  public:
    static Result<LocalFile> open(const std::string& path);
    LocalFile(LocalFile&& other) noexcept;
    LocalFile& operator=(LocalFile&&) = delete;
    LocalFile(const LocalFile&) = delete;
    LocalFile& operator=(const LocalFile&) = delete;
    ~LocalFile();

    // Bytes per second of 1 MiB preads one after the other into eight buffers in turn, on the
    // server's processor; negative after a failure.
    double read_rate(double seconds);

  private:
    LocalFile() = default;
    UniqueFd fd_;
    std::uint64_t bytes_ = 0;
    std::span<std::byte> memory_;
};

}  // namespace nfsrdma::bench
