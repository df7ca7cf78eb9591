#include "nfs/fh.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint8_t kVersion = 1;
constexpr std::size_t kExportAt = 4, kFileidAt = 8, kGenerationAt = 16, kTagAt = 24;

bool all_zero(std::span<const std::byte> bytes) noexcept {
    return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

FhBytes encode_fh(const FhFields& fields) noexcept {
    FhBytes out{};
    store_u8(out.data(), kVersion);
    store_be32(out.data() + kExportAt, fields.export_id);
    store_be64(out.data() + kFileidAt, fields.node.fileid);
    store_be64(out.data() + kGenerationAt, fields.node.generation);
    return out;
}

bool decode_fh(std::span<const std::byte> bytes, FhFields& out) noexcept {
    if (bytes.size() != kFhBytes || load_u8(bytes.data()) != kVersion) return false;
    if (!all_zero(bytes.subspan(1, kExportAt - 1)) || !all_zero(bytes.subspan(kTagAt)))
        return false;
    out.export_id = load_be32(bytes.data() + kExportAt);
    out.node.fileid = load_be64(bytes.data() + kFileidAt);
    out.node.generation = load_be64(bytes.data() + kGenerationAt);
    return true;
}

std::uint32_t export_id_of(std::string_view name) noexcept {
    std::uint32_t hash = 2166136261u;  // FNV-1a
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return hash;
}

std::span<const std::byte> bytes_of(const nfs_fh3& fh) noexcept {
    if (fh.data.data_val == nullptr) return {};
    return {as_bytes(fh.data.data_val), fh.data.data_len};
}

nfs_fh3 to_fh3(FhBytes& bytes) noexcept {
    nfs_fh3 fh{};
    fh.data.data_len = kFhBytes;
    fh.data.data_val = as_chars(bytes.data());
    return fh;
}

}  // namespace nfsrdma::nfs
