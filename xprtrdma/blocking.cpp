#include <optional>

#include "xprtrdma/transport.hpp"

// For programs that wait for one thing at a time.
namespace nfsrdma::xprtrdma {

Result<std::unique_ptr<Transport>> Transport::connect(verbs::Device& device, const SockAddr& server,
                                                      const TransportOptions& options) {
    std::optional<Result<void>> outcome;
    const Connected told = [](void* arg, Result<void> result) noexcept {
        static_cast<std::optional<Result<void>>*>(arg)->emplace(result);
    };
    NR_TRY_ASSIGN(std::unique_ptr<Transport> transport,
                  create(device, server, options, told, &outcome));
    while (!outcome)
        (void)device.loop().run_once(kNsPerSec);
    if (*outcome) return transport;
    transport->finish();
    return outcome->error();
}

void Transport::finish() noexcept {
    close();
    while (!idle())
        (void)loop().run_once(kNsPerSec);
}

}  // namespace nfsrdma::xprtrdma
