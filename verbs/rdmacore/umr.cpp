#include "verbs/rdmacore/umr.hpp"

#include <algorithm>
#include <cerrno>

#if NR_WITH_MLX5DV
#include <dlfcn.h>

#include <infiniband/mlx5dv.h>
#endif

#include "base/assert.hpp"
#include "base/bytes.hpp"

// Operation. A chain is built between ibv_wr_start and ibv_wr_complete: one doorbell, as by
// ibv_post_send, which knows no UMR.
//
// Ownership. A key belongs to whoever made it. The runs of a bind live until `post` has returned.
// The library stays loaded to the end of the process.
//
// Errors. A chain that cannot be built is not posted at all. Without the library no device is one
// of mlx5.
namespace nfsrdma::verbs::rdmacore::umr {

Result<std::uint32_t> runs_of(const PageSpan& list, std::span<ibv_sge> out) noexcept {
    std::uint32_t count = 0, left = list.length, offset = list.offset;
    for (std::byte* const page : list.pages) {
        if (left == 0) break;
        const std::uint32_t here = std::min(left, list.page_size - offset);
        const std::uint64_t addr = address_of(page) + offset;
        if (count > 0 && out[count - 1].addr + out[count - 1].length == addr) {
            out[count - 1].length += here;
        } else {
            if (count == out.size())
                return Error{Errc::too_big, 0, "map: more runs of memory than a UMR takes"};
            out[count++] = {addr, here, 0};
        }
        left -= here;
        offset = 0;
    }
    return count;
}

std::uint32_t next_rkey(std::uint32_t rkey) noexcept {
    return ibv_inc_rkey(rkey);
}

std::uint32_t inline_bytes(std::uint32_t runs) noexcept {
    constexpr std::uint32_t kRunBytes = 16;
    return runs * kRunBytes;
}

#if NR_WITH_MLX5DV

namespace {

// What is needed of it but for inline functions of its header. Loaded, not linked: a program of
// ours is to start on a machine without it.
struct Library {
    decltype(&mlx5dv_is_supported) is_supported = nullptr;
    decltype(&mlx5dv_open_device) open_device = nullptr;
    decltype(&mlx5dv_create_mkey) create_mkey = nullptr;
    decltype(&mlx5dv_destroy_mkey) destroy_mkey = nullptr;
    decltype(&mlx5dv_create_qp) create_qp = nullptr;
    decltype(&mlx5dv_qp_ex_from_ibv_qp_ex) qp_ex = nullptr;
    bool complete = false;
};

template <class Function>
bool find(void* library, const char* name, Function& out) noexcept {
    out = reinterpret_cast<Function>(::dlsym(library, name));
    return out != nullptr;
}

Library load() noexcept {
    Library out;
    // The name that goes with the header, not that of the development package. Where the device is
    // one of mlx5, libibverbs has loaded it already.
    void* const library = ::dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return out;
    out.complete = find(library, "mlx5dv_is_supported", out.is_supported) &&
                   find(library, "mlx5dv_open_device", out.open_device) &&
                   find(library, "mlx5dv_create_mkey", out.create_mkey) &&
                   find(library, "mlx5dv_destroy_mkey", out.destroy_mkey) &&
                   find(library, "mlx5dv_create_qp", out.create_qp) &&
                   find(library, "mlx5dv_qp_ex_from_ibv_qp_ex", out.qp_ex);
    return out;
}

const Library& mlx5() noexcept {
    static const Library library = load();
    return library;
}

struct KeyDestroyer {
    void operator()(mlx5dv_mkey* key) const noexcept { static_cast<void>(destroy_key(key)); }
};

// Our bind travels through ibv_send_wr, which has no room for such a key but in the window's place.
ibv_mw* in_window_place(mlx5dv_mkey& key) noexcept {
    return reinterpret_cast<ibv_mw*>(&key);
}
mlx5dv_mkey& from_window_place(ibv_mw* key) noexcept {
    return *reinterpret_cast<mlx5dv_mkey*>(key);
}

void build_bind(ibv_qp_ex& qp, const ibv_send_wr& wr) noexcept {
    NR_ASSERT(mlx5().qp_ex != nullptr);  // or there was no key
    mlx5dv_qp_ex* const mlx = mlx5().qp_ex(&qp);
    mlx5dv_mkey& key = from_window_place(wr.bind_mw.mw);
    key.lkey = key.rkey = wr.bind_mw.rkey;
    qp.wr_flags |= IBV_SEND_INLINE;  // of the list, not of the data
    mlx5dv_mkey_conf_attr attr{};
    constexpr std::uint8_t kSetters = 2;
    mlx5dv_wr_mkey_configure(mlx, &key, kSetters, &attr);
    mlx5dv_wr_set_mkey_access_flags(mlx, wr.bind_mw.bind_info.mw_access_flags);
    mlx5dv_wr_set_mkey_layout_list(mlx, static_cast<std::uint16_t>(wr.num_sge), wr.sg_list);
}

// 0, or EINVAL: not one of ours.
int build(ibv_qp_ex& qp, const ibv_send_wr& wr) noexcept {
    qp.wr_id = wr.wr_id;
    qp.wr_flags = wr.send_flags;
    const auto sges = static_cast<std::size_t>(wr.num_sge);
    if (wr.opcode == IBV_WR_SEND) {
        ibv_wr_send(&qp);
        ibv_wr_set_sge_list(&qp, sges, wr.sg_list);
    } else if (wr.opcode == IBV_WR_SEND_WITH_INV) {
        ibv_wr_send_inv(&qp, wr.invalidate_rkey);
        ibv_wr_set_sge_list(&qp, sges, wr.sg_list);
    } else if (wr.opcode == IBV_WR_RDMA_READ) {
        ibv_wr_rdma_read(&qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        ibv_wr_set_sge_list(&qp, sges, wr.sg_list);
    } else if (wr.opcode == IBV_WR_RDMA_WRITE) {
        ibv_wr_rdma_write(&qp, wr.wr.rdma.rkey, wr.wr.rdma.remote_addr);
        ibv_wr_set_sge_list(&qp, sges, wr.sg_list);
    } else if (wr.opcode == IBV_WR_LOCAL_INV) {
        ibv_wr_local_inv(&qp, wr.invalidate_rkey);
    } else if (wr.opcode == IBV_WR_DRIVER1) {
        build_bind(qp, wr);
    } else {
        return EINVAL;
    }
    return 0;
}

}  // namespace

bool is_loaded() noexcept {
    return mlx5().complete;
}

ContextHandle open_context(ibv_device& device) noexcept {
    if (is_loaded() && mlx5().is_supported(&device)) {
        mlx5dv_context_attr attr{};
        attr.flags = MLX5DV_CONTEXT_FLAGS_DEVX;
        if (ContextHandle context(mlx5().open_device(&device, &attr)); context != nullptr)
            return context;
    }
    return ContextHandle(ibv_open_device(&device));
}

bool works(ibv_pd& pd, ibv_cq& cq) noexcept {
    if (!is_loaded() || !mlx5().is_supported(pd.context->device)) return false;
    const std::unique_ptr<mlx5dv_mkey, KeyDestroyer> key(create_key(pd));
    if (key == nullptr) return false;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = &cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {1, 1, 1, 1, 0};
    ibv_qp* const qp = create_qp(pd, init);
    return qp != nullptr && ibv_destroy_qp(qp) == 0;
}

mlx5dv_mkey* create_key(ibv_pd& pd) noexcept {
    mlx5dv_mkey_init_attr attr{};
    attr.pd = &pd;
    attr.create_flags = MLX5DV_MKEY_INIT_ATTR_FLAGS_INDIRECT |
                        MLX5DV_MKEY_INIT_ATTR_FLAGS_UPDATE_TAG |
                        MLX5DV_MKEY_INIT_ATTR_FLAGS_REMOTE_INVALIDATE;
    attr.max_entries = kRunsMax;
    return mlx5().create_mkey(&attr);
}

int destroy_key(mlx5dv_mkey* key) noexcept {
    return mlx5().destroy_mkey(key);
}

std::uint32_t rkey_of(const mlx5dv_mkey& key) noexcept {
    return key.rkey;
}

ibv_qp* create_qp(ibv_pd& pd, const ibv_qp_init_attr& init) noexcept {
    ibv_qp_init_attr_ex attr{};
    attr.qp_context = init.qp_context;
    attr.send_cq = init.send_cq;
    attr.recv_cq = init.recv_cq;
    attr.cap = init.cap;
    attr.cap.max_inline_data = std::max(attr.cap.max_inline_data, inline_bytes(kRunsMax));
    attr.qp_type = init.qp_type;
    attr.pd = &pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_INV |
                          IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
                          IBV_QP_EX_WITH_LOCAL_INV;
    mlx5dv_qp_init_attr mlx{};
    mlx.comp_mask =
        MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS;
    // Such a key cannot work with data in completions (mlx5dv_create_mkey(3)).
    mlx.create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE;
    mlx.send_ops_flags = MLX5DV_QP_EX_WITH_MKEY_CONFIGURE;
    return mlx5().create_qp(pd.context, &attr, &mlx);
}

void make_bind(ibv_send_wr& out, mlx5dv_mkey& key, std::uint32_t rkey, unsigned access,
               std::span<ibv_sge> runs) noexcept {
    out.opcode = IBV_WR_DRIVER1;
    out.sg_list = runs.data();
    out.num_sge = static_cast<int>(runs.size());
    out.bind_mw.mw = in_window_place(key);
    out.bind_mw.rkey = rkey;
    out.bind_mw.bind_info.mw_access_flags = access;
}

int post(ibv_qp& qp, ibv_send_wr* first, ibv_send_wr** refused) noexcept {
    ibv_qp_ex* const ex = ibv_qp_to_qp_ex(&qp);
    ibv_wr_start(ex);
    int error = 0;
    for (const ibv_send_wr* wr = first; wr != nullptr && error == 0; wr = wr->next)
        error = build(*ex, *wr);
    if (error != 0) {
        ibv_wr_abort(ex);
    } else {
        error = ibv_wr_complete(ex);
    }
    if (error != 0) *refused = first;
    return error;
}

#else

bool is_loaded() noexcept {
    return false;
}

ContextHandle open_context(ibv_device& device) noexcept {
    return ContextHandle(ibv_open_device(&device));
}

bool works(ibv_pd&, ibv_cq&) noexcept {
    return false;
}

mlx5dv_mkey* create_key(ibv_pd&) noexcept {
    errno = EOPNOTSUPP;
    return nullptr;
}

int destroy_key(mlx5dv_mkey*) noexcept {
    return EOPNOTSUPP;
}

std::uint32_t rkey_of(const mlx5dv_mkey&) noexcept {
    return 0;
}

ibv_qp* create_qp(ibv_pd&, const ibv_qp_init_attr&) noexcept {
    errno = EOPNOTSUPP;
    return nullptr;
}

void make_bind(ibv_send_wr&, mlx5dv_mkey&, std::uint32_t, unsigned, std::span<ibv_sge>) noexcept {}

int post(ibv_qp&, ibv_send_wr* first, ibv_send_wr** refused) noexcept {
    *refused = first;
    return EOPNOTSUPP;
}

#endif

}  // namespace nfsrdma::verbs::rdmacore::umr
