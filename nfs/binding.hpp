#pragma once
#include <cstdint>
#include <span>

#include "sunrpc/binding.hpp"

// The upper-layer binding of NFSv3 and MOUNT v3 (RFC 8267 s4 and s6): one table for the client and
// the server. DDP-eligible are the data of READ and WRITE, the path of SYMLINK and the one of
// READLINK; nothing of MOUNT.
namespace nfsrdma::nfs {

// Indexed by procedure number. Immutable, static; `args_max`, `reply_max` and `result_item_max` are
// true upper bounds for arguments that the .x files allow (strings terminated by zero).
std::span<const sunrpc::ProcInfo>
nfs3_procs() noexcept;  // 22 of them, NFSPROC3_NULL to NFSPROC3_COMMIT
std::span<const sunrpc::ProcInfo>
mount3_procs() noexcept;  // 6 of them, MOUNTPROC3_NULL to MOUNTPROC3_EXPORT

// Encoded sizes of RFC 1813's common parts, in bytes.
inline constexpr std::uint32_t kFh3Bytes = 4 + 64;  // the most
inline constexpr std::uint32_t kFattr3Bytes = 5 * 4 + 2 * 8 + 2 * 4 + 2 * 8 + 3 * 8;
inline constexpr std::uint32_t kPostOpAttrBytes = 4 + kFattr3Bytes;
inline constexpr std::uint32_t kPreOpAttrBytes = 4 + 8 + 2 * 8;
inline constexpr std::uint32_t kWccDataBytes = kPreOpAttrBytes + kPostOpAttrBytes;
inline constexpr std::uint32_t kPostOpFhBytes = 4 + kFh3Bytes;
inline constexpr std::uint32_t kSattr3Bytes = 3 * 8 + 12 + 2 * 12;  // the most
// One entry of READDIR besides the name's bytes: the pointer word, fileid, length, cookie.
inline constexpr std::uint32_t kEntry3Bytes = 4 + 8 + 4 + 8;
inline constexpr std::uint32_t kEntryPlus3Bytes = kEntry3Bytes + kPostOpAttrBytes + kPostOpFhBytes;
// READDIR3resok and READDIRPLUS3resok without entries: attributes, verifier, end of list, eof.
inline constexpr std::uint32_t kDirListBytes = kPostOpAttrBytes + 8 + 4 + 4;

// DUMP and EXPORT have no bound of their own: a server of ours keeps to this, and a client makes
// room for it.
inline constexpr std::uint32_t kMountListBytes = 64 * 1024;

}  // namespace nfsrdma::nfs
