#pragma once
#include <atomic>
#include <cstdint>
#include <spdlog/fmt/fmt.h>
#include <string_view>

#include "base/result.hpp"

// The log of the process, on stderr; any thread. One line is one event: control characters of what
// is logged (names come from peers) are escaped and long lines are cut. For what an operator has to
// know; the data path uses trace points and counters instead.
namespace nfsrdma::log {

enum class Level : std::uint8_t { error, warn, info, debug };

// "error", "warn", "info" or "debug"; else Errc::invalid_argument.
Result<Level> parse_level(std::string_view name);
const char* to_string(Level level) noexcept;

// What is less urgent is dropped. `warn` until set.
void set_level(Level level) noexcept;
Level level() noexcept;
bool enabled(Level level) noexcept;

// Formats and writes one line if `level` is enabled. Never fails and never throws.
void write(Level level, fmt::string_view format, fmt::format_args args) noexcept;

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) noexcept {
    write(Level::error, format, fmt::make_format_args(args...));
}
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) noexcept {
    write(Level::warn, format, fmt::make_format_args(args...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) noexcept {
    if (enabled(Level::info)) write(Level::info, format, fmt::make_format_args(args...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) noexcept {
    if (enabled(Level::debug)) write(Level::debug, format, fmt::make_format_args(args...));
}

// Lets an event through once in the life of its owner:
//     if (told_.first()) log::warn("...");
class Once {
  public:
    bool first() noexcept {
        return !done_.load(std::memory_order_relaxed) && !done_.exchange(true);
    }

  private:
    std::atomic<bool> done_{false};
};

// Lets an event through once an interval, and says how many were held back meanwhile, so that a
// peer cannot fill the disk:
//     if (limit_.pass(loop.now_ns())) log::warn("... ({} more)", limit_.held_back());
class RateLimit {
  public:
    explicit RateLimit(std::uint64_t interval_ns) noexcept : interval_ns_(interval_ns) {}
    bool pass(std::uint64_t now_ns) noexcept {
        std::uint64_t next = next_ns_.load(std::memory_order_relaxed);
        if (now_ns >= next && next_ns_.compare_exchange_strong(next, now_ns + interval_ns_)) {
            return true;
        }
        held_back_.fetch_add(1, std::memory_order_relaxed);
        return false;
    }
    // Since the last call.
    std::uint64_t held_back() noexcept { return held_back_.exchange(0); }

  private:
    const std::uint64_t interval_ns_;
    std::atomic<std::uint64_t> next_ns_{0};
    std::atomic<std::uint64_t> held_back_{0};
};

}  // namespace nfsrdma::log

// Once in the life of the process, for this place in the code: NR_LOG_ONCE(warn, "text {}", value).
#define NR_LOG_ONCE(level_name, ...)                                   \
    do {                                                               \
        static ::nfsrdma::log::Once nr_once_;                          \
        if (nr_once_.first()) ::nfsrdma::log::level_name(__VA_ARGS__); \
    } while (false)
