#include "base/log.hpp"

#include <array>
#include <memory>
#include <spdlog/logger.h>
#include <spdlog/sinks/dist_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>

#include "base/log_target.hpp"

namespace nfsrdma::log {

namespace {

constexpr std::size_t kLineMax = 2000;  // bytes of text; PIPE_BUF keeps a line in one piece
constexpr std::array<const char*, 4> kNames{"error", "warn", "info", "debug"};

spdlog::level::level_enum to_spdlog(Level level) noexcept {
    switch (level) {
        case Level::error:
            return spdlog::level::err;
        case Level::warn:
            return spdlog::level::warn;
        case Level::info:
            return spdlog::level::info;
        case Level::debug:
            return spdlog::level::debug;
    }
    return spdlog::level::err;
}

using Sink = spdlog::sinks::dist_sink_mt;  // whose sinks can be changed while others log

// Made at first use and never destroyed: other threads may log until the very end.
spdlog::logger& logger() {
    static spdlog::logger* const the_logger = [] {
        auto sink = std::make_shared<Sink>();
        sink->add_sink(std::make_shared<spdlog::sinks::stderr_sink_mt>());
        auto made = std::make_unique<spdlog::logger>("nfsrdma", std::move(sink));
        made->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l [%P/%t] %v");
        made->set_level(spdlog::level::warn);
        made->set_error_handler([](const std::string&) {});
        return made.release();
    }();
    return *the_logger;
}

bool is_control(char c) noexcept {
    const auto u = static_cast<unsigned char>(c);
    return u < 0x20 || u == 0x7f;
}

void append_escaped(fmt::memory_buffer& line, std::string_view text) {
    for (const char c : text) {
        if (line.size() >= kLineMax) {
            line.append(std::string_view("..."));
            return;
        }
        if (is_control(c)) {
            fmt::format_to(std::back_inserter(line), "\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            line.push_back(c);
        }
    }
}

}  // namespace

Result<Level> parse_level(std::string_view name) {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        if (name == kNames[i]) return static_cast<Level>(i);
    }
    return Error{Errc::invalid_argument, 0, "log level is not error, warn, info or debug"};
}

const char* to_string(Level level) noexcept {
    return kNames[static_cast<std::size_t>(level)];
}

void set_level(Level level) noexcept {
    logger().set_level(to_spdlog(level));
}

Level level() noexcept {
    for (const Level at : {Level::debug, Level::info, Level::warn}) {
        if (enabled(at)) return at;
    }
    return Level::error;
}

bool enabled(Level level) noexcept {
    return logger().should_log(to_spdlog(level));
}

void write(Level level, fmt::string_view format, fmt::format_args args) noexcept {
    if (!enabled(level)) return;
    try {
        fmt::memory_buffer text;
        fmt::vformat_to(std::back_inserter(text), format, args);
        fmt::memory_buffer line;
        append_escaped(line, std::string_view(text.data(), text.size()));
        logger().log(to_spdlog(level), std::string_view(line.data(), line.size()));
    } catch (const std::exception&) {
        // Out of memory, or a formatter of an argument failed: the line is lost, not the process.
        return;
    }
}

void to_syslog(const char* ident) noexcept {
    try {
        // syslog tells the time and the process itself.
        static_cast<Sink&>(*logger().sinks().front())
            .set_sinks({std::make_shared<spdlog::sinks::syslog_sink_mt>(ident, LOG_PID, LOG_DAEMON,
                                                                        false)});
    } catch (const std::exception&) {
        return;  // out of memory: it stays where it was
    }
}

}  // namespace nfsrdma::log
