#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/prng.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace nfsrdma::bench {

// The operations of NfsSession on the export itself, by system calls. Each is false when it failed.
class LocalOps {
  public:
    static Result<LocalOps> open(const std::string& folder, const std::string& file);
    bool read_random(std::uint32_t bytes);
    bool getattr();
    bool lookup(const char* name);
    bool create(const char* name);
    bool write(std::uint32_t bytes);
    bool remove(const char* name);
    std::uint64_t list(const char* name);

  private:
    UniqueFd folder_, file_, made_;
    std::uint64_t file_bytes_ = 0;
    std::vector<char> buffer_ = std::vector<char>(1u << 16);
    Prng prng_{1};
};

}  // namespace nfsrdma::bench
