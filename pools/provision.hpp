#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "pools/io.hpp"
#include "pools/page_list.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::pools {

struct Demand {
    std::uint32_t credits = 32;  // calls in flight
    std::uint32_t backward_credits = 0;
    std::uint32_t max_payload = 1 << 20;   // bytes of one DDP-eligible item
    std::uint32_t max_message = 64 << 10;  // bytes of a long call or reply without such items
    std::uint32_t inline_size = 4096;      // bytes of a Send or Receive
};

// Every count that a connection needs, each the sum of named lines with a reason (provision.cpp).
struct Provision {
    std::uint32_t credits = 0;  // as asked, or fewer where the device's queues are too short
    std::uint32_t send_wrs = 0, recv_wrs = 0, cq_entries = 0;
    std::uint32_t keys = 0, pages_per_key = 0, transfers = 0;
    std::uint32_t send_buffers = 0, recv_buffers = 0;
    std::array<PageListPool::ClassSpec, PageListPool::kClassesMax> page_classes{};
    std::size_t arena_bytes = 0;  // page lists and inline buffers
    // Errc::unsupported when the device cannot hold even one credit.
    static Result<Provision> for_client(const Demand& demand,
                                        const verbs::DeviceCaps& caps) noexcept;
    static Result<Provision> for_server(const Demand& demand,
                                        const verbs::DeviceCaps& caps) noexcept;
};

}  // namespace nfsrdma::pools
