#include "tools/mount_nfsrdma/fate.hpp"

#include <array>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <fcntl.h>
#include <optional>
#include <unistd.h>

#include "base/unique_fd.hpp"

namespace nfsrdma::mount {
namespace {

constexpr std::size_t kStatusMax = 4096;

// A line "NAME:\t0000000000000100": one bit for each signal, that of the first one lowest.
std::optional<std::uint64_t> mask_in(std::string_view status, std::string_view name) noexcept {
    const std::size_t at = status.find(name);
    if (at == std::string_view::npos) return std::nullopt;
    status.remove_prefix(at + name.size());
    while (!status.empty() && (status.front() == '\t' || status.front() == ' '))
        status.remove_prefix(1);
    std::uint64_t mask = 0;
    const auto parsed = std::from_chars(status.data(), status.data() + status.size(), mask, 16);
    if (parsed.ec != std::errc()) return std::nullopt;
    return mask;
}

}  // namespace

Fate fate_in(std::string_view status) noexcept {
    const auto own = mask_in(status, "\nSigPnd:"), shared = mask_in(status, "\nShdPnd:");
    if (!own || !shared) return Fate::unknown;
    constexpr std::uint64_t kKill = std::uint64_t{1} << (SIGKILL - 1);
    return ((*own | *shared) & kKill) != 0 ? Fate::dies : Fate::lives;
}

Fate fate_of(std::int32_t thread) noexcept {
    if (thread <= 0) return Fate::unknown;
    std::array<char, 32> path{};
    (void)std::snprintf(path.data(), path.size(), "/proc/%d/status", thread);
    const UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
    if (!file) return Fate::unknown;
    std::array<char, kStatusMax> text{};
    const ssize_t got = ::read(file.get(), text.data(), text.size());
    if (got <= 0) return Fate::unknown;
    return fate_in(std::string_view(text.data(), static_cast<std::size_t>(got)));
}

}  // namespace nfsrdma::mount
