#include "tools/nfsrdma/patience.hpp"

#include <CLI/CLI.hpp>

namespace nfsrdma::tool {
namespace {

double soft_seconds(const Options& options) noexcept {
    return options.patience.soft_s > 0 ? options.patience.soft_s : options.timeout_s;
}

}  // namespace

std::uint64_t to_ns(double seconds) noexcept {
    return static_cast<std::uint64_t>(seconds * static_cast<double>(kNsPerSec));
}

void add_patience_options(CLI::App& app, PatienceOptions& patience) {
    CLI::Option* const hard = app.add_flag(
        "--hard", patience.hard,
        "wait for a server that is gone for as long as it takes, and go on where it was");
    CLI::Option* const soft =
        app.add_option("--soft", patience.soft_s,
                       "wait so many seconds for a server that is gone, and go on where it was; "
                       "an error after that (default: as --timeout)")
            ->check(CLI::Range(0.001, 86400.0))
            ->type_name("SECONDS");
    CLI::Option* const fail_fast =
        app.add_flag("--fail-fast", patience.fail_fast, "a connection that is lost is an error");
    hard->excludes(soft)->excludes(fail_fast);
    soft->excludes(fail_fast);
}

std::uint64_t call_time_ns(const Options& options) noexcept {
    if (options.patience.hard) return kForEverNs;
    if (options.patience.fail_fast) return to_ns(options.timeout_s);
    // The connection may end when the answer is all but due, and its absence counts from then.
    return to_ns(options.timeout_s + soft_seconds(options));
}

xprtrdma::RecoveryOptions recovery_of(const Options& options) noexcept {
    xprtrdma::RecoveryOptions recovery;
    recovery.on = !options.patience.fail_fast;
    recovery.first_too = options.patience.hard;
    if (!options.patience.hard) recovery.give_up_ns = to_ns(soft_seconds(options));
    return recovery;
}

}  // namespace nfsrdma::tool
