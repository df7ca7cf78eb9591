#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/mount_nfsrdma/options.hpp"

// The options behind -o by one table: the name of each, and what it does.
namespace nfsrdma::mount {

// What has been said so far, beside what is in `out`.
struct State {
    MountOptions& out;
    bool as_root;
    std::optional<double> reg_min, reg_max, dir_min, dir_max, retry_minutes;
    std::optional<bool> permissions;  // default_permissions, or that with "no_"
    bool suid = true, dev = true, exec = true, atime = true, sync = false, dirsync = false;
};

struct Option {
    enum class Value : std::uint8_t { none, needed };
    std::string_view name;
    Value value;
    // Returns what is wrong, without the option's name; empty: nothing. `value` is what stands
    // behind '='.
    std::string (*apply)(State& state, std::string_view value);
};

std::span<const Option> option_table() noexcept;

}  // namespace nfsrdma::mount
