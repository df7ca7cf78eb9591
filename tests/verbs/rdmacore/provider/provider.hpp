#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "base/unique_fd.hpp"

// A device driver for libibverbs without a device: it does what the test says, among that what
// drivers are allowed to do and rxe never does. The program that links provider.cpp has no other
// device.
namespace nfsrdma::verbs::rdmacore::test {

struct FakeCq : ibv_cq {
    std::deque<ibv_wc> waiting;
};

struct FakeQp : ibv_qp {
    std::vector<std::uint64_t> sends, recvs;  // ids of what was posted and is not completed
    std::vector<ibv_wr_opcode> opcodes;       // of the sends, ever
    std::vector<ibv_send_wr> wrs;             // the same, without their chain and SGE lists
    std::vector<std::vector<ibv_sge>> sges;   // of each
    std::uint32_t unacknowledged = 0;         // asynchronous events that were read
};

// How the next post goes wrong, once: `taken` work requests are taken, then it fails.
struct PostFault {
    int error = 0;  // 0: it does not
    std::uint32_t taken = 0;
    bool says_which = true;  // sets bad_wr
};

struct FakeId : rdma_cm_id {
    bool listens = false;
};

class Provider {
  public:
    static Provider& get() noexcept;
    void reset();
    void forget();  // what was done, with no queue pair alive

    // What the device is.
    ibv_device_attr attr{};
    bool can_resize = true;
    std::uint32_t cqe_unit = 1;  // a queue has a multiple of this
    // What goes wrong.
    PostFault send_fault, recv_fault;
    int notify_error = 0, modify_error = 0, reg_error = 0;
    int qp_error = 0;              // of queue pairs with more than `qp_wrs_max` sends
    std::uint32_t qp_wrs_max = 0;  // only with `qp_error`
    bool removed = false;          // reads of events end in EIO

    // What was done.
    std::vector<int> cqes;  // asked of create and resize
    std::uint32_t resizes = 0, notifies = 0, qps_destroyed = 0, async_reads = 0, comp_reads = 0;
    std::uint32_t destroyed_too_early = 0;  // queue pairs: a real one would wait for ever
    std::uint32_t regions = 0;              // registered now
    unsigned last_access = 0;               // of the region that was registered last
    std::uint32_t listening = 0;            // ids that listen now

    // The oldest send, or receive, of `qp` ends.
    void end_send(FakeQp& qp, ibv_wc_status status = IBV_WC_SUCCESS);
    void end_last_send(FakeQp& qp, ibv_wc_status status = IBV_WC_SUCCESS);
    void end_recv(FakeQp& qp, ibv_wc_status status = IBV_WC_SUCCESS);
    void push(ibv_cq& cq, std::uint64_t wr_id, ibv_wc_status status);
    void raise(const ibv_async_event& event);
    void remove();  // the device goes away

    ibv_device device{};
    ibv_context context{};
    ibv_comp_channel channel{};
    UniqueFd async_fd, comp_fd, cm_fd;
    std::deque<ibv_async_event> events;
    std::deque<ibv_cq*> comp_events;
    std::deque<FakeCq> cqs;
    std::deque<FakeQp> qps;
    std::deque<ibv_mr> mrs;
    std::deque<ibv_pd> pds;
    std::deque<FakeId> ids;
};

}  // namespace nfsrdma::verbs::rdmacore::test
