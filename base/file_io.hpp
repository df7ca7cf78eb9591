#pragma once
#include <cstdint>

#include "base/loop.hpp"

namespace nfsrdma {

// Moves what is left of `op` (`op.result` bytes are moved already) with pread, pwrite, fsync or
// fdatasync, or reads from its mapping; blocks. Returns the bytes moved in all, or -errno when
// there were none.
std::int64_t run_file_op(FileOp& op) noexcept;

// A read answered from the page cache without blocking. True when it is done, with the result in
// `op.result` (bytes, or -errno); false when it would block or the file cannot tell.
bool read_cached(FileOp& op) noexcept;

// False for an offset that the system calls would misread; `op.result` then holds -EINVAL.
bool check_file_op(FileOp& op) noexcept;

}  // namespace nfsrdma
