#pragma once

// Where the log of the process goes to; apart from base/log.hpp, for programs alone.
namespace nfsrdma::log {

// To syslog(3), as `ident` (which lives on) and of the facility daemon, instead of stderr. Any
// thread.
void to_syslog(const char* ident) noexcept;

}  // namespace nfsrdma::log
