#pragma once
#include <cstdint>

// RFC 8166 numbers. Header sizes are sums of named items, never a running variable.
namespace nfsrdma::rpcrdma {

inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint16_t kPort = 20049;  // NFS/RDMA, IANA

enum class Proc : std::uint32_t { msg = 0, nomsg = 1, msgp = 2, done = 3, error = 4 };
enum class ErrorCode : std::uint32_t { vers = 1, chunk = 2 };

// RFC 8166 s3.4.2: a piece of registered memory.
struct Segment {
    std::uint32_t handle = 0;
    std::uint32_t length = 0;
    std::uint64_t offset = 0;
    bool operator==(const Segment&) const = default;
};

inline constexpr std::uint32_t kXdrUnit = 4;
inline constexpr std::uint32_t kFixedSize = 4 * kXdrUnit;       // xid, vers, credits, proc
inline constexpr std::uint32_t kEmptyListsSize = 3 * kXdrUnit;  // three absent discriminators
inline constexpr std::uint32_t kMinHeaderSize = kFixedSize + kEmptyListsSize;
inline constexpr std::uint32_t kSegmentSize = 4 * kXdrUnit;  // handle, length, offset(64)
inline constexpr std::uint32_t kReadSegmentSize = 2 * kXdrUnit + kSegmentSize;  // present, position
inline constexpr std::uint32_t kWriteChunkSize = 2 * kXdrUnit;  // present, count; plus segments
inline constexpr std::uint32_t kReplyChunkSize =
    kXdrUnit;  // count (its present word is in kEmptyListsSize)
inline constexpr std::uint32_t kErrVersSize = kFixedSize + 3 * kXdrUnit;  // error, low, high
inline constexpr std::uint32_t kErrChunkSize = kFixedSize + kXdrUnit;     // error
static_assert(kMinHeaderSize == 28 && kReadSegmentSize == 24 && kErrChunkSize == 20);

// Inline thresholds (RFC 8166 s3.3.2): bytes of one Send, transport header included.
inline constexpr std::uint32_t kDefaultInline = 1024;
inline constexpr std::uint32_t kOurInline = 4096;

// What each end of a connection may send inline, once agreed.
struct InlineLimits {
    std::uint32_t send = kDefaultInline;
    std::uint32_t recv = kDefaultInline;
};

}  // namespace nfsrdma::rpcrdma
