#include "verbs/rdmacore/lower.hpp"

#include "base/assert.hpp"
#include "verbs/rdmacore/umr.hpp"

namespace nfsrdma::verbs::rdmacore {

namespace {

int copy_sges(std::span<const Sge> from, std::span<ibv_sge> to) noexcept {
    NR_ASSERT(from.size() <= to.size());
    for (std::size_t i = 0; i < from.size(); ++i)
        to[i] = {from[i].addr, from[i].length, static_cast<std::uint32_t>(from[i].lkey)};
    return static_cast<int>(from.size());
}

// Something that goes through the send queue in order and changes nothing at the peer: an RDMA
// WRITE of no bytes, whose address and key nobody looks at (InfiniBand volume 1, 9.7.4.1).
void make_empty(ibv_send_wr& out) noexcept {
    out.opcode = IBV_WR_RDMA_WRITE;
    out.sg_list = nullptr;
    out.num_sge = 0;
    out.wr.rdma.remote_addr = 0;
    out.wr.rdma.rkey = 0;
}

void make_bind(ibv_send_wr& out, const BindTarget& bind) noexcept {
    out.opcode = IBV_WR_BIND_MW;
    out.bind_mw.mw = bind.window;
    out.bind_mw.rkey = bind.rkey;
    out.bind_mw.bind_info.mr = bind.region;
    out.bind_mw.bind_info.addr = bind.addr;
    out.bind_mw.bind_info.length = bind.length;
    out.bind_mw.bind_info.mw_access_flags = window_access(bind.access);
}

}  // namespace

int region_access(Access access, bool windows) noexcept {
    unsigned flags = 0;
    if (windows) flags |= IBV_ACCESS_MW_BIND;
    if (has(access, Access::local_write)) flags |= IBV_ACCESS_LOCAL_WRITE;
    if (has(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
    // A device refuses the remote right to write without the local one.
    if (has(access, Access::remote_write))
        flags |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
    return static_cast<int>(flags);
}

unsigned window_access(Access access) noexcept {
    unsigned flags = 0;
    if (has(access, Access::remote_read)) flags |= IBV_ACCESS_REMOTE_READ;
    if (has(access, Access::remote_write)) flags |= IBV_ACCESS_REMOTE_WRITE;
    return flags;
}

ibv_send_wr lower_send(const SendWr& wr, const BindTarget* bind, std::uint64_t wr_id,
                       std::span<ibv_sge> sges) noexcept {
    ibv_send_wr out{};
    out.wr_id = wr_id;
    out.num_sge = copy_sges(wr.sgl, sges);
    out.sg_list = sges.data();
    unsigned flags = 0;
    if (wr.signaled || wr.ledger_signal) flags |= IBV_SEND_SIGNALED;
    if (wr.fenced) flags |= IBV_SEND_FENCE;
    out.send_flags = flags;
    switch (wr.op) {
        case SendOp::send:
            out.opcode = IBV_WR_SEND;
            break;
        case SendOp::send_with_inv:
            out.opcode = IBV_WR_SEND_WITH_INV;
            out.invalidate_rkey = static_cast<std::uint32_t>(wr.rkey);
            break;
        case SendOp::rdma_read:
        case SendOp::rdma_write:
            out.opcode = wr.op == SendOp::rdma_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
            out.wr.rdma.remote_addr = wr.remote_addr;
            out.wr.rdma.rkey = static_cast<std::uint32_t>(wr.rkey);
            break;
        case SendOp::reg_mr:
        case SendOp::local_inv:
            NR_ASSERT(bind != nullptr);
            out.sg_list = nullptr;
            out.num_sge = 0;
            if (!bind->bound_by_device()) {
                make_empty(out);
            } else if (wr.op == SendOp::reg_mr && bind->umr_key != nullptr) {
                umr::make_bind(out, *bind->umr_key, bind->rkey, window_access(bind->access),
                               bind->runs);
            } else if (wr.op == SendOp::reg_mr) {
                make_bind(out, *bind);
            } else {
                out.opcode = IBV_WR_LOCAL_INV;
                out.invalidate_rkey = static_cast<std::uint32_t>(wr.rkey);
            }
            break;
    }
    return out;
}

ibv_recv_wr lower_recv(const RecvWr& wr, std::uint64_t wr_id, std::span<ibv_sge> sges) noexcept {
    ibv_recv_wr out{};
    out.wr_id = wr_id;
    out.num_sge = copy_sges(wr.sgl, sges);
    out.sg_list = sges.data();
    return out;
}

WcStatus status_of(ibv_wc_status status, SendOp op) noexcept {
    const bool local_op = op == SendOp::reg_mr || op == SendOp::local_inv;
    switch (status) {
        case IBV_WC_SUCCESS:
            return WcStatus::success;
        case IBV_WC_WR_FLUSH_ERR:
            return WcStatus::flushed;
        case IBV_WC_MW_BIND_ERR:
            return WcStatus::mr_error;
        case IBV_WC_REM_ACCESS_ERR:
            return WcStatus::remote_access;
        case IBV_WC_REM_INV_REQ_ERR:
        case IBV_WC_REM_INV_RD_REQ_ERR:
            return WcStatus::remote_invalid;
        case IBV_WC_REM_OP_ERR:
        case IBV_WC_REM_ABORT_ERR:
        case IBV_WC_BAD_RESP_ERR:
            return WcStatus::remote_error;
        case IBV_WC_RETRY_EXC_ERR:
        case IBV_WC_RESP_TIMEOUT_ERR:
            return WcStatus::retry_exceeded;
        case IBV_WC_RNR_RETRY_EXC_ERR:
            return WcStatus::rnr_exceeded;
        case IBV_WC_LOC_LEN_ERR:
        case IBV_WC_LOC_QP_OP_ERR:
        case IBV_WC_LOC_EEC_OP_ERR:
        case IBV_WC_LOC_PROT_ERR:
        case IBV_WC_LOC_ACCESS_ERR:
        case IBV_WC_LOC_RDD_VIOL_ERR:
        case IBV_WC_INV_EECN_ERR:
        case IBV_WC_INV_EEC_STATE_ERR:
        case IBV_WC_FATAL_ERR:
        case IBV_WC_GENERAL_ERR:
        case IBV_WC_TM_ERR:
        case IBV_WC_TM_RNDV_INCOMPLETE:
            break;
    }
    return local_op ? WcStatus::mr_error : WcStatus::local_error;
}

WcStatus status_of_recv(ibv_wc_status status) noexcept {
    return status_of(status, SendOp::send);
}

}  // namespace nfsrdma::verbs::rdmacore
