#pragma once
#include <cstdint>
#include <string>

#include "base/prng.hpp"

// What each worker does, step by step: a function of the seed, the worker and the options alone, so
// that a run can be repeated.
namespace nfsrdma::stress {

enum class Kind : std::uint8_t {
    null,
    getattr,
    set_size,
    set_mode,
    set_time,
    lookup,
    lookup_absent,
    access,
    read,
    write,
    commit,
    create,
    remove,
    rename,
    link,
    symlink,
    mkdir,
    mknod,
    readdir,
    readdirplus,
    fsstat,
    fsinfo,
    pathconf,
    read_common,
    write_common,
};
inline constexpr std::size_t kKinds = 25;
const char* to_string(Kind kind) noexcept;

struct PlanOptions {
    std::uint64_t seed = 1;
    std::uint32_t files = 3;                      // of each worker
    std::uint64_t file_bytes = 3u << 19;          // the largest
    std::uint32_t inline_bytes = 4096;            // sizes about it are drawn more often
    std::uint32_t common_bytes = 0;               // of a worker's stripe in the file of all
    double cancel_rate = 0, disconnect_rate = 0;  // of steps
};

struct Plan {
    std::uint64_t step = 0;
    Kind kind = Kind::null;
    std::uint32_t slot = 0;                // which file
    std::uint64_t offset = 0, length = 0;  // of data; `length` of set_size is the size
    std::uint32_t skew = 0;                // the data begins so far into its buffer
    std::uint32_t variant = 0;             // which way to do it: any number
    std::uint32_t connection = 0;          // any number; 0 three times of four: the worker's own
    bool cancel = false, disconnect = false;
    std::uint32_t after_us = 0;  // cancelled or disconnected
};

// `before`, and all that `plan` says: another number for another plan.
std::uint64_t fingerprint_with(std::uint64_t before, const Plan& plan) noexcept;

class Planner {
  public:
    Planner(const PlanOptions& options, std::uint32_t worker) noexcept;
    Plan next() noexcept;
    // Of all steps so far and all that is in them: equal for equal sequences.
    std::uint64_t fingerprint() const noexcept { return fingerprint_; }

  private:
    std::uint64_t draw_length() noexcept;
    PlanOptions options_;
    Prng prng_;
    std::uint64_t step_ = 0, fingerprint_ = 0;
};

}  // namespace nfsrdma::stress
