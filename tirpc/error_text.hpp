#pragma once
#include <string_view>

#include "base/result.hpp"

// What rpcrdma_strerror says: one line for people, of the last failing call of this thread.
namespace nfsrdma::tirpc {

// Kept up to kErrorTextBytes - 1 bytes; nothing is allocated.
inline constexpr unsigned kErrorTextBytes = 512;
void set_error_text(std::string_view text) noexcept;
// "STEP: WHAT", or "WHAT" without a step.
void set_error_text(std::string_view step, const Error& error) noexcept;
// Of this thread; "" at first.
const char* error_text() noexcept;

// The errno that tells a program most nearly what `error` is. Never 0.
int errno_of(const Error& error) noexcept;

}  // namespace nfsrdma::tirpc
