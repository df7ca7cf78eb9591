#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/result.hpp"
#include "nfs/handle_key.hpp"
#include "nfs/nfs3_types.hpp"

// File handles. Opaque to clients; 40 to 64 bytes, big-endian:
//
//   0  1  version
//   1  1  K: bytes of the kernel's own handle, 0 where there is none or it is too long
//   2  2  the kernel's type of it
//   4  4  export id: of the export's fsid= or name, so that other exports may come and go
//   8  8  fileid: the backend's inode number
//  16  8  generation: tells a reused fileid from the one it was
//  24  K  the kernel's handle (open_by_handle_at)
// 24+K 16  tag: a MAC under the server's key over all of the above
//
// Nothing in it depends on the server's process or privilege, so that servers that share a file
// system and a key make the same handle of the same object. Only they can make one: what a client
// holds was once found in the export.
namespace nfsrdma::nfs {

// What name_to_handle_at says of an object; of no meaning to us but for its bytes.
struct KernelHandle {
    static constexpr std::size_t kMax = 24;  // ext4 8, XFS and tmpfs 12, CephFS 16, btrfs 20
    std::uint16_t type = 0;
    std::uint8_t size = 0;  // 0: none
    std::array<std::byte, kMax> bytes{};
};

// One object of one backend. `kernel` is one more way to the same object and no part of its
// identity.
struct NodeId {
    std::uint64_t fileid = 0;
    std::uint64_t generation = 0;
    KernelHandle kernel{};
    bool operator==(const NodeId& other) const noexcept {
        return fileid == other.fileid && generation == other.generation;
    }
};

struct FhFields {
    std::uint32_t export_id = 0;
    NodeId node;
    bool operator==(const FhFields&) const = default;
};

inline constexpr std::uint32_t kFhFixedBytes = 24 + sizeof(SipTag);
inline constexpr std::uint32_t kFhBytesMax = kFhFixedBytes + KernelHandle::kMax;
static_assert(kFhBytesMax <= NFS3_FHSIZE);

struct FhBytes {
    std::array<std::byte, kFhBytesMax> bytes{};
    std::uint32_t size = 0;
    std::span<const std::byte> span() const noexcept { return std::span(bytes).first(size); }
};

FhBytes encode_fh(const HandleKey& key, const FhFields& fields) noexcept;
// False when it is none that encode_fh makes with this key: NFS3ERR_BADHANDLE. Looks at nothing but
// the bytes.
bool decode_fh(const HandleKey& key, std::span<const std::byte> bytes, FhFields& out) noexcept;

// Deterministic and the same on every machine.
std::uint32_t export_id_of(std::string_view name) noexcept;
// Of an export's fsid= option: a decimal number (of 64 bits), "root" (0, as in exports(5)) or a
// UUID (32 hexadecimal digits, any case, with or without '-'). Errc::invalid_argument.
Result<std::uint32_t> export_id_of_fsid(std::string_view text);

// The handle as a peer sent it.
std::span<const std::byte> bytes_of(const nfs_fh3& fh) noexcept;
// A result's handle over `bytes`, which outlives the reply's encoding.
nfs_fh3 to_fh3(FhBytes& bytes) noexcept;

}  // namespace nfsrdma::nfs
