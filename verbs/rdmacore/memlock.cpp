#include "verbs/rdmacore/memlock.hpp"

#include <cerrno>

#include "base/log.hpp"

namespace nfsrdma::verbs::rdmacore {

bool is_memory_error(int error) noexcept {
    return error == ENOMEM || error == EPERM || error == EAGAIN;
}

std::string memory_sentence(const std::string& what, const MemlockLimit& limit) {
    if (limit.exempt || limit.soft == UINT64_MAX)
        return "cannot " + what + ": out of memory or of the device's tables";
    return "cannot " + what + ": RLIMIT_MEMLOCK is " + std::to_string(limit.soft >> 10) +
           " KiB. Raise it: `ulimit -l unlimited`, LimitMEMLOCK=infinity in the systemd unit, "
           "--ulimit memlock=-1 of the container, or give the program CAP_IPC_LOCK";
}

void explain_memory(const std::string& what, int error) noexcept {
    if (is_memory_error(error)) log::error("{}", memory_sentence(what, memlock_limit()));
}

}  // namespace nfsrdma::verbs::rdmacore
