#pragma once
#include <cstdint>
#include <span>

#include <infiniband/verbs.h>

#include "base/result.hpp"
#include "verbs/rdmacore/handles.hpp"

struct mlx5dv_mkey;

// UMR of mlx5: a key that a posted work request lays over a list of runs of registered memory. The
// peer addresses it from zero. Compiled where rdma-core has infiniband/mlx5dv.h; elsewhere no
// device can do it. The library itself, libmlx5.so.1, is loaded when UMR is asked for first: where
// it is missing, only UMR is. It has not been run on a card of mlx5: `automatic` does not take it.
namespace nfsrdma::verbs::rdmacore::umr {

// The list is part of the work request, of every place of the send queue, in blocks of 64 bytes:
// four runs. Memory of the pools is one.
inline constexpr std::uint32_t kRunsMax = 4;

// A page list, as of FastMr::map.
struct PageSpan {
    std::span<std::byte* const> pages;
    std::uint32_t page_size = 0, offset = 0, length = 0;
};
// The page list as runs of adjacent pages, without their local keys; `length` is at least 1 and
// fits the pages. How many, or Errc::too_big: more than `out` holds. Pure.
Result<std::uint32_t> runs_of(const PageSpan& list, std::span<ibv_sge> out) noexcept;
// The key with the next low byte in place of its last one.
std::uint32_t next_rkey(std::uint32_t rkey) noexcept;
// Bytes of inline data that a queue pair needs for a list of so many runs.
std::uint32_t inline_bytes(std::uint32_t runs) noexcept;

// Whether the library is there; loads it.
bool is_loaded() noexcept;
// Opens the device such that UMR can be had of it, where it is one of mlx5; else plainly.
ContextHandle open_context(ibv_device& device) noexcept;
// A key and a queue pair for it can be made.
bool works(ibv_pd& pd, ibv_cq& cq) noexcept;

// nullptr with errno. Room for kRunsMax runs, remotely invalidatable, its low byte ours.
mlx5dv_mkey* create_key(ibv_pd& pd) noexcept;
int destroy_key(mlx5dv_mkey* key) noexcept;
std::uint32_t rkey_of(const mlx5dv_mkey& key) noexcept;

// As ibv_create_qp, for a queue pair whose work requests are posted by `post`.
ibv_qp* create_qp(ibv_pd& pd, const ibv_qp_init_attr& init) noexcept;

// A work request of ours, IBV_WR_DRIVER1: lays `key`, as `rkey`, over the runs of its SGE list.
void make_bind(ibv_send_wr& out, mlx5dv_mkey& key, std::uint32_t rkey, unsigned access,
               std::span<ibv_sge> runs) noexcept;
// As ibv_post_send, all of the chain or nothing.
int post(ibv_qp& qp, ibv_send_wr* first, ibv_send_wr** refused) noexcept;

}  // namespace nfsrdma::verbs::rdmacore::umr
