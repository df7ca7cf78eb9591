#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "nfs/nfs3_types.hpp"

// File handles. Opaque to clients; 40 bytes, big-endian:
//
//   0  1  version
//   1  3  zero
//   4  4  export id: of the export's name, so that a restart with exports in another order keeps
//   handles 8  8  fileid: the backend's inode number
//  16  8  generation: tells a reused fileid from the one it was
//  24 16  tag: zero; the place of a keyed MAC over what precedes it
//
// A handle names an object and grants nothing: whoever forges one reaches objects of the export
// that it could have looked up.
namespace nfsrdma::nfs {

// One object of one backend.
struct NodeId {
    std::uint64_t fileid = 0;
    std::uint64_t generation = 0;
    bool operator==(const NodeId&) const = default;
};

struct FhFields {
    std::uint32_t export_id = 0;
    NodeId node;
    bool operator==(const FhFields&) const = default;
};

inline constexpr std::uint32_t kFhBytes = 40;
using FhBytes = std::array<std::byte, kFhBytes>;

FhBytes encode_fh(const FhFields& fields) noexcept;
// False when it is none that encode_fh makes: NFS3ERR_BADHANDLE.
bool decode_fh(std::span<const std::byte> bytes, FhFields& out) noexcept;
// Deterministic and the same on every machine.
std::uint32_t export_id_of(std::string_view name) noexcept;

// The handle as a peer sent it.
std::span<const std::byte> bytes_of(const nfs_fh3& fh) noexcept;
// A result's handle over `bytes`, which outlives the reply's encoding.
nfs_fh3 to_fh3(FhBytes& bytes) noexcept;

}  // namespace nfsrdma::nfs
