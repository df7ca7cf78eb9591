#include "svcrdma/server.hpp"

#include <algorithm>

#include "base/bytes.hpp"

namespace nfsrdma::svcrdma {

std::uint32_t Server::receive_batch() const noexcept {
    return std::clamp(provision.credits / 4, 1u, 8u);
}

// Fewer than a batch are idle at any time, so that posted and unanswered ones together never fall
// below the credits.
std::uint32_t Server::receives() const noexcept {
    return provision.credits + receive_batch();
}

// One a credit, and some whose answer the peer already has while its acknowledgement has not come
// here.
std::uint32_t Server::contexts() const noexcept {
    return provision.credits + std::max(4u, provision.credits / 4);
}

std::size_t Server::slab_bytes() const noexcept {
    return align_up(std::size_t{receives()} * options.demand.inline_size,
                    std::size_t{pools::kPageSize});
}

Result<std::span<std::byte>> Server::get_slab() {
    if (slabs.empty()) return arena->carve(slab_bytes());
    const std::span<std::byte> slab = slabs.back();
    slabs.pop_back();
    return slab;
}

}  // namespace nfsrdma::svcrdma
