#pragma once
#include <cstdint>

#include "tools/nfsrdma/options.hpp"
#include "xprtrdma/transport.hpp"

namespace CLI {  // NOLINT(readability-identifier-naming): the library's name
class App;
}

// What the command line says of a server that goes away: --hard, --soft, --fail-fast, --timeout.
namespace nfsrdma::tool {

// Far enough away, and nothing overflows that adds it to a time.
inline constexpr std::uint64_t kForEverNs = UINT64_MAX / 4;

std::uint64_t to_ns(double seconds) noexcept;

void add_patience_options(CLI::App& app, PatienceOptions& patience);

// How long a call, and a server that asks for patience, may take, the time without a server
// included.
std::uint64_t call_time_ns(const Options& options) noexcept;
// What becomes of a connection that ends, or cannot be made.
xprtrdma::RecoveryOptions recovery_of(const Options& options) noexcept;

}  // namespace nfsrdma::tool
