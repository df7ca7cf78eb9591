#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "nfs/nfs3_types.hpp"

// What people write for modes, owners, sizes and times.
namespace nfsrdma::tool {

// A mode in octal, or changes as in chmod(1): "u+rwx,go-w,a=r,+X". Applied to `mode` of an object;
// nothing when it is none.
std::optional<std::uint32_t> changed_mode(std::string_view text, std::uint32_t mode,
                                          bool directory);
struct Owner {
    std::optional<std::uint32_t> uid, gid;
};
// "UID", "UID:GID", ":GID"; names are those of this machine. Nothing when one is not known.
std::optional<Owner> parse_owner(std::string_view text);
// "1000", "64K", "1M", "10G", "2T" (powers of 1024); nothing when it is none or too large.
std::optional<std::uint64_t> parse_size(std::string_view text);
// "@SECONDS[.NANOSECONDS]" or local "YYYY-MM-DD[ HH:MM[:SS]]".
std::optional<nfstime3> parse_time(std::string_view text);

}  // namespace nfsrdma::tool
