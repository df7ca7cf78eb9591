#include "tools/device/memory.hpp"

#include "pools/provision.hpp"

namespace nfsrdma::devices {
namespace {

std::string mib(std::uint64_t bytes) {
    constexpr std::uint64_t kMiB = 1u << 20, kKiB = 1u << 10;
    if (bytes >= kMiB) return std::to_string((bytes + kMiB - 1) / kMiB) + " MiB";
    return std::to_string((bytes + kKiB - 1) / kKiB) + " KiB";
}

}  // namespace

std::uint64_t connection_bytes(const verbs::DeviceCaps& caps) noexcept {
    auto provision = pools::Provision::for_client(pools::Demand{}, caps);
    return provision ? provision->arena_bytes : 0;
}

bool may_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes) noexcept {
    return limit.exempt || limit.soft >= bytes;
}

std::string cannot_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes) {
    return "RLIMIT_MEMLOCK is " + mib(limit.soft) + ", below the " + mib(bytes) +
           " that a connection registers (ulimit -l)";
}

}  // namespace nfsrdma::devices
