#pragma once
#include <memory>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

// Owners of what the C libraries hand out.
namespace nfsrdma::verbs::rdmacore {

template <auto Destroy>
struct Destroyer {
    template <class T>
    void operator()(T* object) const noexcept {
        static_cast<void>(Destroy(object));
    }
};

inline int destroy_channel(rdma_event_channel* channel) noexcept {
    rdma_destroy_event_channel(channel);
    return 0;
}

using ContextHandle = std::unique_ptr<ibv_context, Destroyer<&ibv_close_device>>;
using PdHandle = std::unique_ptr<ibv_pd, Destroyer<&ibv_dealloc_pd>>;
using CompChannelHandle = std::unique_ptr<ibv_comp_channel, Destroyer<&ibv_destroy_comp_channel>>;
using EventChannelHandle = std::unique_ptr<rdma_event_channel, Destroyer<&destroy_channel>>;
using CmIdHandle = std::unique_ptr<rdma_cm_id, Destroyer<&rdma_destroy_id>>;

}  // namespace nfsrdma::verbs::rdmacore
