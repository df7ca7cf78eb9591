#include "verbs/rdmacore/probe.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>

#include "verbs/rdmacore/find.hpp"
#include "verbs/rdmacore/handles.hpp"
#include "verbs/rdmacore/memlock.hpp"
#include "verbs/rdmacore/umr.hpp"

// Operation. Windows: one is made. Queue pairs: the largest that could be asked for is made, then
// ever smaller ones until one is granted; of which size is the device's limit from then on, so that
// whoever shares it out (credits) shares out what there is.
//
// Ownership. All that is made here dies here.
//
// Errors. A device without windows is no error; one without queue pairs is.
namespace nfsrdma::verbs::rdmacore {

namespace {

using CqHandle = std::unique_ptr<ibv_cq, Destroyer<&ibv_destroy_cq>>;
using QpHandle = std::unique_ptr<ibv_qp, Destroyer<&ibv_destroy_qp>>;
using MwHandle = std::unique_ptr<ibv_mw, Destroyer<&ibv_dealloc_mw>>;

// Of one queue pair: what the transports ask for at most, and one more for the last work request.
constexpr std::uint32_t kSges = 5, kDrainWrs = 1;

int window_error(ibv_pd& pd) noexcept {
    errno = 0;
    const MwHandle window(ibv_alloc_mw(&pd, IBV_MW_TYPE_2));
    if (window != nullptr) return 0;
    return errno != 0 ? errno : EOPNOTSUPP;
}

int qp_error(ibv_pd& pd, ibv_cq& cq, const Probed& probed, const QueueSizes& sizes) noexcept {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = &cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {sizes.send_wrs + kDrainWrs, sizes.recv_wrs,
                std::min(probed.caps.max_send_sge, kSges), 1, 0};
    errno = 0;
    const QpHandle qp(probed.strategy == Strategy::umr ? umr::create_qp(pd, init)
                                                       : ibv_create_qp(&pd, &init));
    if (qp != nullptr) return 0;
    return errno != 0 ? errno : EINVAL;
}

Error unmade(int error, const char* step, const char* what) noexcept {
    explain_memory(what, error);
    return {Errc::system, error, step};
}

}  // namespace

QueueSizes fewer(const QueueSizes& last) noexcept {
    return {std::max(last.send_wrs / 2, 1u), std::max(last.recv_wrs / 2, 1u)};
}

Result<Probed> probe(ibv_context& context, const ibv_device_attr& attr, Strategy wanted) {
    const ibv_device& device = *context.device;
    if (!has_reliable_connections(device.node_type, device.transport_type))
        return Error{Errc::unsupported, 0, kNoReliableConnections};
    const PdHandle pd(ibv_alloc_pd(&context));
    if (pd == nullptr) return Error{Errc::system, errno, "allocate protection domain"};
    const CqHandle cq(ibv_create_cq(&context, 1, nullptr, nullptr, 0));
    if (cq == nullptr) return unmade(errno, "create completion queue", "make a completion queue");
    Probed out;
    Abilities can;
    if (claims_windows(attr)) {
        out.window_error = window_error(*pd);
        can.windows = out.window_error == 0;
    }
    if (wanted == Strategy::umr) can.umr = umr::works(*pd, *cq);
    NR_TRY_ASSIGN(out.strategy, choose_strategy(can, wanted));
    out.caps = caps_of(attr, transport_of(context), out.strategy);
    auto granted =
        largest_granted({out.caps.max_send_wr, out.caps.max_recv_wr},
                        [&](const QueueSizes& sizes) { return qp_error(*pd, *cq, out, sizes); });
    if (!granted) return unmade(granted.error().sys, granted.error().what, "make a queue pair");
    out.caps.max_send_wr = granted->sizes.send_wrs;
    out.caps.max_recv_wr = granted->sizes.recv_wrs;
    if (is_memory_error(granted->refusal)) out.memory_error = granted->refusal;
    return out;
}

}  // namespace nfsrdma::verbs::rdmacore
