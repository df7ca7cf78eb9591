#include "svcrdma/server.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "svcrdma/ctxt.hpp"
#include "svcrdma/registered.hpp"

namespace nfsrdma::svcrdma {

std::uint32_t Server::receive_batch(std::uint32_t credits) noexcept {
    return std::clamp(credits / 4, 1u, 8u);
}

// Fewer than a batch are idle at any time, so that posted and unanswered ones together never fall
// below the credits.
std::uint32_t Server::receives(std::uint32_t credits) noexcept {
    return credits + receive_batch(credits);
}

// One a credit, and some whose answer the peer already has while its acknowledgement has not come
// here.
std::uint32_t Server::contexts(std::uint32_t credits) noexcept {
    return credits + std::max(4u, credits / 4);
}

std::uint32_t Server::first_credits() const noexcept {
    if (options.first_credits == 0) return provision.credits;
    return std::min(options.first_credits, provision.credits);
}

std::uint32_t Server::more_credits(std::uint32_t credits) const noexcept {
    return std::min(2 * credits, provision.credits);
}

// The longest reply, beside all others.
std::uint32_t Server::transfers() const noexcept {
    return provision.transfers + SendCtxt::kPushesMax;
}

std::uint32_t Server::first_transfers() const noexcept {
    constexpr std::uint32_t kPerCredit = 2;
    return options.first_credits == 0 ? transfers()
                                      : std::min(kPerCredit * first_credits(), transfers());
}

std::size_t Server::slab_bytes(std::uint32_t count) const noexcept {
    return svcrdma::slab_bytes(options, count);
}

std::size_t Server::slabs_bytes_max() const noexcept {
    return slabs_bytes(options, provision);
}

std::size_t Server::backward_bytes() const noexcept {
    return svcrdma::backward_bytes(options);
}

Result<std::span<std::byte>> Server::get_slab(std::uint32_t count) {
    const std::size_t bytes = slab_bytes(count);
    const auto used = std::find_if(slabs.begin(), slabs.end(),
                                   [bytes](const auto& slab) { return slab.size() == bytes; });
    if (used == slabs.end()) return arena->carve(bytes);
    const std::span<std::byte> slab = *used;
    *used = slabs.back();
    slabs.pop_back();
    return slab;
}

std::uint64_t Server::scratch_bytes() const noexcept {
    return sizeof(RecvCtxt) + align_up(service.scratch_bytes(), 64u);
}

// About what the device and pools::Io take for one connection of this size; measured on softroce.
std::uint64_t Server::connection_bytes() const noexcept {
    constexpr std::uint64_t kPerSendWr = 160, kPerReceive = 160, kRest = 48 << 10;
    return kPerSendWr * provision.send_wrs + kPerReceive * receives() + kRest;
}

}  // namespace nfsrdma::svcrdma
