#pragma once
#include <cstdint>
#include <string_view>

// Whether a thread that waits in a system call is to die: as the kernel's own NFS client, a mount
// lets only such signals end what changes something. Programs do not expect that close(2) or
// write(2) fails because a timer of theirs has run out.
namespace nfsrdma::mount {

enum class Fate : std::uint8_t {
    lives,
    dies,     // of SIGKILL, as which the kernel hands on every signal that ends a process
    unknown,  // of another pid namespace, or gone
};

// `thread`: of fuse_ctx::pid, which is a thread's. Reads /proc: not with Mount::lock held.
Fate fate_of(std::int32_t thread) noexcept;
// The same of the text of /proc/PID/status.
Fate fate_in(std::string_view status) noexcept;

}  // namespace nfsrdma::mount
