#include "xprtrdma/probe.hpp"

namespace nfsrdma::xprtrdma {
namespace {

// TCP's discard port, whose number RDMA_PS_TCP shares: nobody serves it. Should somebody, then that
// is an answer as well.
constexpr std::uint16_t kNobodysPort = 9;
constexpr std::uint64_t kTimeoutNs = 2 * kNsPerSec;

}  // namespace

Result<std::unique_ptr<Probe>> Probe::create(verbs::Device& device, verbs::ProtectionDomain& pd,
                                             verbs::CompletionQueue& cq, const SockAddr& server,
                                             const Told& told) {
    std::unique_ptr<Probe> probe(new Probe(told));
    NR_TRY_ASSIGN(probe->id_, device.create_id(*probe));
    const verbs::QpOptions smallest{.send_wrs = 1, .recv_wrs = 1, .send_sges = 1, .recv_sges = 1};
    NR_TRY(probe->id_->create_qp(pd, cq, smallest));
    verbs::ConnParams params;
    params.responder_resources = 1;
    params.initiator_depth = 0;
    params.timeout_ns = kTimeoutNs;
    NR_TRY(probe->id_->connect(server.with_port(kNobodysPort), params));
    return probe;
}

void Probe::on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept {
    if (over_) return;
    over_ = true;
    switch (event.type) {
        case verbs::CmEventType::rejected:
        case verbs::CmEventType::established:
            told_.answered(told_.arg);
            return;
        case verbs::CmEventType::unreachable:
        case verbs::CmEventType::disconnected:
            return;
    }
}

}  // namespace nfsrdma::xprtrdma
