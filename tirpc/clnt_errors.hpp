#pragma once
#include <cstdint>

#include <rpc/rpc.h>

// What clnt_geterr tells: of the calling thread's own last call on a CLIENT, though other threads
// use it meanwhile.
namespace nfsrdma::tirpc {

// `client` is a number that no other CLIENT of the process ever has. A thread remembers as many
// CLIENTs as it used last; allocates nothing.
inline constexpr unsigned kErrorsOfThread = 16;
void note_error(std::uint64_t client, const rpc_err& error) noexcept;
// nullptr: this thread made no call on it, or has forgotten.
const rpc_err* find_error(std::uint64_t client) noexcept;

}  // namespace nfsrdma::tirpc
