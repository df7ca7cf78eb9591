#include "nfs/fh.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/bytes.hpp"

namespace nfsrdma::nfs {
namespace {

constexpr std::uint8_t kVersion = 2;
constexpr std::size_t kSizeAt = 1, kTypeAt = 2, kExportAt = 4, kFileidAt = 8, kGenerationAt = 16,
                      kKernelAt = 24;

// "0123456789abcdef..." of a UUID's 32 digits, or nothing.
std::string uuid_digits(std::string_view text) {
    constexpr std::size_t kDigits = 32;
    std::string out;
    for (const char c : text) {
        if (c == '-') continue;
        const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
        const bool digit = (lower >= '0' && lower <= '9') || (lower >= 'a' && lower <= 'f');
        if (!digit || out.size() == kDigits) return {};
        out.push_back(lower);
    }
    return out.size() == kDigits ? out : std::string{};
}

}  // namespace

FhBytes encode_fh(const HandleKey& key, const FhFields& fields) noexcept {
    const KernelHandle& kernel = fields.node.kernel;
    FhBytes out;
    std::byte* const to = out.bytes.data();
    store_u8(to, kVersion);
    store_u8(to + kSizeAt, kernel.size);
    store_be16(to + kTypeAt, kernel.type);
    store_be32(to + kExportAt, fields.export_id);
    store_be64(to + kFileidAt, fields.node.fileid);
    store_be64(to + kGenerationAt, fields.node.generation);
    std::copy_n(kernel.bytes.begin(), kernel.size, to + kKernelAt);
    const std::size_t signed_bytes = kKernelAt + kernel.size;
    const SipTag tag = key.tag(std::span(out.bytes).first(signed_bytes));
    std::copy(tag.begin(), tag.end(), to + signed_bytes);
    out.size = kFhFixedBytes + kernel.size;
    return out;
}

bool decode_fh(const HandleKey& key, std::span<const std::byte> bytes, FhFields& out) noexcept {
    if (bytes.size() < kFhFixedBytes || bytes.size() > kFhBytesMax) return false;
    const std::size_t signed_bytes = bytes.size() - sizeof(SipTag);
    const SipTag tag = key.tag(bytes.first(signed_bytes));
    if (!equal_tags(tag, bytes.subspan(signed_bytes))) return false;
    const std::byte* const from = bytes.data();
    const std::size_t kernel_size = load_u8(from + kSizeAt);
    if (load_u8(from) != kVersion || kernel_size != signed_bytes - kKernelAt) return false;
    out = FhFields{};
    out.export_id = load_be32(from + kExportAt);
    out.node.fileid = load_be64(from + kFileidAt);
    out.node.generation = load_be64(from + kGenerationAt);
    out.node.kernel.type = load_be16(from + kTypeAt);
    out.node.kernel.size = static_cast<std::uint8_t>(kernel_size);
    std::copy_n(from + kKernelAt, kernel_size, out.node.kernel.bytes.begin());
    return true;
}

std::uint32_t export_id_of(std::string_view name) noexcept {
    std::uint32_t hash = 2166136261u;  // FNV-1a
    for (const char c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    return hash;
}

Result<std::uint32_t> export_id_of_fsid(std::string_view text) {
    if (text == "root") text = "0";
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size()) {
        return export_id_of("fsid=" + std::to_string(number));
    }
    const std::string digits = uuid_digits(text);
    if (digits.empty()) {
        return Error{Errc::invalid_argument, 0, "fsid= is neither a number nor a UUID"};
    }
    return export_id_of("uuid=" + digits);
}

std::span<const std::byte> bytes_of(const nfs_fh3& fh) noexcept {
    if (fh.data.data_val == nullptr) return {};
    return {as_bytes(fh.data.data_val), fh.data.data_len};
}

nfs_fh3 to_fh3(FhBytes& bytes) noexcept {
    nfs_fh3 fh{};
    fh.data.data_len = bytes.size;
    fh.data.data_val = as_chars(bytes.bytes.data());
    return fh;
}

}  // namespace nfsrdma::nfs
