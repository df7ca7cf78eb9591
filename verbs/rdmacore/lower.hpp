#pragma once
#include <cstdint>
#include <span>

#include <infiniband/verbs.h>

#include "verbs/wr.hpp"

struct mlx5dv_mkey;

// From our work requests to those of libibverbs, and from its completions to ours. Pure.
namespace nfsrdma::verbs::rdmacore {

// What a REG_MR becomes.
struct BindTarget {
    ibv_mw* window = nullptr;
    ibv_mr* region = nullptr;
    std::uint32_t rkey = 0;  // the new key
    std::uint64_t addr = 0;
    std::uint32_t length = 0;
    Access access = Access::none;
    mlx5dv_mkey* umr_key = nullptr;  // in place of a window, over `runs`
    std::span<ibv_sge> runs{};
    // False: the key is registered already, nothing is to be bound.
    bool bound_by_device() const noexcept { return window != nullptr || umr_key != nullptr; }
};

// The access flags of a region that windows may be bound over, or of a static key.
int region_access(Access access, bool windows) noexcept;
unsigned window_access(Access access) noexcept;

// `bind` is the target of a reg_mr or local_inv, else nullptr. `sges` takes the SGEs and holds
// wr.sgl.size() at least; the result points into it.
ibv_send_wr lower_send(const SendWr& wr, const BindTarget* bind, std::uint64_t wr_id,
                       std::span<ibv_sge> sges) noexcept;
ibv_recv_wr lower_recv(const RecvWr& wr, std::uint64_t wr_id, std::span<ibv_sge> sges) noexcept;

WcStatus status_of(ibv_wc_status status, SendOp op) noexcept;
WcStatus status_of_recv(ibv_wc_status status) noexcept;

// What a work request id says: whose it is, and its place in that queue.
struct WrId {
    static constexpr std::uint32_t kIndexMask = 0x3FFFFFFF;
    static constexpr std::uint32_t kDrain = 0x7FFFFFFF;  // an index that no entry has

    std::uint16_t slot = 0, generation = 0;
    std::uint32_t index = 0;
    bool receive = false;
    std::uint64_t pack() const noexcept {
        return std::uint64_t{slot} | (std::uint64_t{generation} << 16) |
               (std::uint64_t{index & 0x7FFFFFFF} << 32) | (std::uint64_t{receive} << 63);
    }
    static WrId unpack(std::uint64_t id) noexcept {
        return {static_cast<std::uint16_t>(id), static_cast<std::uint16_t>(id >> 16),
                static_cast<std::uint32_t>(id >> 32) & 0x7FFFFFFF, (id >> 63) != 0};
    }
};

}  // namespace nfsrdma::verbs::rdmacore
