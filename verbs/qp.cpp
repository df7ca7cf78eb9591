#include <algorithm>

#include "base/assert.hpp"
#include "verbs/device.hpp"

// Operation. Every send work request takes one place of the send queue when it is posted, signaled
// or not, and gives it back when a request that reports to the ledger completes: a signaled one, or
// one that this file picked.
//
// Ownership. 1. send_wrs_used_ <= send_wrs_max_ (asserted in credit_send). 2. Fewer than a quarter
// of the queue lies between two reporting requests, so that a full queue always holds one that will
// free it.
//
// Errors. A post that cannot be done whole is not done at all: Errc::again, and the ledger is as
// before.
namespace nfsrdma::verbs {

namespace {

void count_send(QpCounters& counters, const SendWr& wr) noexcept {
    ++counters.send_wrs;
    switch (wr.op) {
        case SendOp::reg_mr:
            ++counters.reg_mrs;
            break;
        case SendOp::local_inv:
            ++counters.local_invs;
            break;
        case SendOp::send_with_inv:
            ++counters.sends_with_inv;
            break;
        case SendOp::send:
        case SendOp::rdma_read:
        case SendOp::rdma_write:
            break;
    }
}

}  // namespace

QueuePair::QueuePair(std::uint32_t send_wrs_max, std::uint32_t recv_wrs_max) noexcept
    : send_wrs_max_(send_wrs_max), recv_wrs_max_(recv_wrs_max) {}

Result<void> QueuePair::post_send(const WrChain& chain) noexcept {
    if (in_error()) return Error{Errc::reconnect, 0, "post send"};
    if (chain.empty()) return {};
    if (chain.size() > send_room()) return Error{Errc::again, 0, "send queue"};
    const std::uint32_t run_max = std::max(send_wrs_max_ / 4, std::uint32_t{1});
    std::uint32_t run = unsignaled_run_;
    std::uint32_t count = 0;
    for (SendWr* wr = chain.first(); wr != nullptr; wr = wr->next) {
        ++count;
        ++run;
        wr->ledger_signal = !wr->signaled && run >= run_max;
        if (wr->signaled || wr->ledger_signal) run = 0;
    }
    NR_ASSERT(count == chain.size());
    send_wrs_used_ += count;
    if (auto posted = do_post_send(*chain.first()); !posted) {
        send_wrs_used_ -= count;
        return posted.error();
    }
    unsignaled_run_ = run;
    ++counters_.doorbells;
    for (const SendWr* wr = chain.first(); wr != nullptr; wr = wr->next)
        count_send(counters_, *wr);
    return {};
}

Result<void> QueuePair::post_recv(RecvWr& first) noexcept {
    if (in_error()) return Error{Errc::reconnect, 0, "post receive"};
    const std::uint32_t room = recv_wrs_max_ - recv_wrs_used_;
    std::uint32_t count = 0;
    RecvWr* last = nullptr;
    for (RecvWr* wr = &first; wr != nullptr && count < room; wr = wr->next) {
        last = wr;
        ++count;
    }
    if (last == nullptr) return Error{Errc::again, 0, "receive queue"};
    // The chain is cut where the queue is full, for the time of the call.
    RecvWr* const rest = last->next;
    last->next = nullptr;
    recv_wrs_used_ += count;
    auto posted = do_post_recv(first);
    last->next = rest;
    if (!posted) {
        recv_wrs_used_ -= count;
        return posted.error();
    }
    counters_.recv_wrs += count;
    if (rest != nullptr) return Error{Errc::again, 0, "receive queue"};
    return {};
}

void QueuePair::credit_send(std::uint32_t retired) noexcept {
    NR_ASSERT(retired <= send_wrs_used_);
    send_wrs_used_ -= retired;
}

void QueuePair::credit_recv() noexcept {
    NR_ASSERT(recv_wrs_used_ > 0);
    --recv_wrs_used_;
}

}  // namespace nfsrdma::verbs
