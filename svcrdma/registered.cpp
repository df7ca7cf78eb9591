#include "svcrdma/registered.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "svcrdma/payload_runs.hpp"
#include "svcrdma/server.hpp"

namespace nfsrdma::svcrdma {

std::size_t slab_bytes(const ServerOptions& options, std::uint32_t count) noexcept {
    return align_up(std::size_t{count} * options.demand.inline_size, std::size_t{pools::kPageSize});
}

// One slab for the first credits, one each time that they double (Server::more_credits).
std::size_t slabs_bytes(const ServerOptions& options, const pools::Provision& provision) noexcept {
    const std::uint32_t most = provision.credits;
    std::uint32_t credits =
        options.first_credits == 0 ? most : std::min(options.first_credits, most);
    std::size_t bytes = slab_bytes(options, Server::receives(credits));
    while (credits < most) {
        const std::uint32_t more = std::min(2 * credits, most);
        bytes += slab_bytes(options, Server::receives(more) - Server::receives(credits));
        credits = more;
    }
    return bytes;
}

std::size_t backward_bytes(const ServerOptions& options) noexcept {
    return 2 * slab_bytes(options, options.backward_credits);
}

std::size_t shared_bytes(const ServerOptions& options) noexcept {
    return PayloadRuns::arena_bytes(options) + pools::kPageSize;
}

Result<std::uint64_t> registered_bytes(const ServerOptions& options,
                                       const verbs::DeviceCaps& caps) noexcept {
    NR_TRY_ASSIGN(const pools::Provision provision,
                  pools::Provision::for_server(options.demand, caps));
    const std::size_t each = slabs_bytes(options, provision) + backward_bytes(options);
    return shared_bytes(options) + std::uint64_t{each} * options.connections_max;
}

}  // namespace nfsrdma::svcrdma
