#include "devices/memory.hpp"

#include "svcrdma/registered.hpp"

namespace nfsrdma::devices {
namespace {

std::string mib(std::uint64_t bytes) {
    constexpr std::uint64_t kMiB = 1u << 20, kKiB = 1u << 10;
    if (bytes >= kMiB) return std::to_string((bytes + kMiB - 1) / kMiB) + " MiB";
    return std::to_string((bytes + kKiB - 1) / kKiB) + " KiB";
}

}  // namespace

std::uint64_t client_bytes(const pools::Demand& demand, const verbs::DeviceCaps& caps) noexcept {
    auto provision = pools::Provision::for_client(demand, caps);
    return provision ? provision->arena_bytes : 0;
}

std::uint64_t server_bytes(const svcrdma::ServerOptions& options,
                           const verbs::DeviceCaps& caps) noexcept {
    auto bytes = svcrdma::registered_bytes(options, caps);
    return bytes ? *bytes : 0;
}

svcrdma::ServerOptions nfsrdmad_options() noexcept {
    constexpr std::uint32_t kConnections = 1024, kFirstCredits = 4,
                            kCredits = 64;  // as many calls as a Linux client has under way
    svcrdma::ServerOptions options;
    options.connections_max = kConnections;
    options.first_credits = kFirstCredits;
    options.demand.credits = kCredits;
    return options;
}

bool may_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes) noexcept {
    return limit.exempt || limit.soft >= bytes;
}

std::string cannot_lock(const verbs::rdmacore::MemlockLimit& limit, std::uint64_t bytes,
                        const std::string& who) {
    return "RLIMIT_MEMLOCK is " + mib(limit.soft) + ", below the " + mib(bytes) + " that " + who +
           " registers (ulimit -l)";
}

}  // namespace nfsrdma::devices
