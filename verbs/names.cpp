#include "verbs/cm.hpp"
#include "verbs/wr.hpp"

namespace nfsrdma::verbs {

const char* to_string(WcStatus status) noexcept {
    switch (status) {
        case WcStatus::success:
            return "success";
        case WcStatus::flushed:
            return "flushed";
        case WcStatus::local_error:
            return "local error";
        case WcStatus::mr_error:
            return "memory region error";
        case WcStatus::remote_access:
            return "remote access error";
        case WcStatus::remote_invalid:
            return "remote invalid request";
        case WcStatus::remote_error:
            return "remote operation error";
        case WcStatus::retry_exceeded:
            return "retry count exceeded";
        case WcStatus::rnr_exceeded:
            return "RNR retry count exceeded";
    }
    return "unknown status";
}

const char* to_string(SendOp op) noexcept {
    switch (op) {
        case SendOp::send:
            return "SEND";
        case SendOp::send_with_inv:
            return "SEND_WITH_INV";
        case SendOp::rdma_read:
            return "RDMA_READ";
        case SendOp::rdma_write:
            return "RDMA_WRITE";
        case SendOp::reg_mr:
            return "REG_MR";
        case SendOp::local_inv:
            return "LOCAL_INV";
    }
    return "unknown operation";
}

const char* to_string(CmEventType type) noexcept {
    switch (type) {
        case CmEventType::established:
            return "established";
        case CmEventType::rejected:
            return "rejected";
        case CmEventType::unreachable:
            return "unreachable";
        case CmEventType::disconnected:
            return "disconnected";
    }
    return "unknown event";
}

}  // namespace nfsrdma::verbs
