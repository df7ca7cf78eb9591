#pragma once
#include <string>

#include "verbs/rdmacore/rdmacore.hpp"

// Memory that a device works with, and the queues that it reads, are locked by the kernel: what it
// says when it may not is ENOMEM, and nothing of the limit.
namespace nfsrdma::verbs::rdmacore {

// Whether `error`, of something that locks memory, may come of too little memory to lock.
bool is_memory_error(int error) noexcept;
// For people: that `what` ("register 64 KiB of memory") cannot be done, why, and what to do about
// it. Pure.
std::string memory_sentence(const std::string& what, const MemlockLimit& limit);
// The sentence, in the log at level error, where `error` may come of it; else nothing.
void explain_memory(const std::string& what, int error) noexcept;

}  // namespace nfsrdma::verbs::rdmacore
