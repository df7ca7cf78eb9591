#include "xprtrdma/rep.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace nfsrdma::xprtrdma {

std::span<std::byte> Rep::frame() const noexcept {
    return buffer->bytes().first(std::min<std::size_t>(wc.byte_len, buffer->bytes().size()));
}

Result<std::unique_ptr<ReceiveQueue>> ReceiveQueue::create(pools::BufferPool& buffers,
                                                           const pools::Io& io, std::uint32_t count,
                                                           const Sink& sink) {
    std::unique_ptr<ReceiveQueue> queue(new ReceiveQueue());
    queue->sink_ = sink;
    queue->count_ = count;
    queue->reps_ = std::make_unique<Rep[]>(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        Rep& rep = queue->reps_[i];
        NR_TRY_ASSIGN(rep.buffer, buffers.get());
        rep.home = queue.get();
        rep.done = &ReceiveQueue::on_done;
        rep.sge = io.sge(rep.buffer->bytes());
        rep.wr.cqe = &rep;
        rep.wr.sgl = {&rep.sge, 1};
        queue->idle_.push_back(rep);
    }
    return queue;
}

bool ReceiveQueue::top_up(std::uint32_t batch) noexcept {
    if (idle_.size() < std::max(batch, 1u)) return true;
    if (qp_ == nullptr || qp_->in_error()) return false;
    // One chain. The device has room for all Receives of the connection, so that it takes all or,
    // in error, none.
    verbs::RecvWr* first = nullptr;
    for (Rep& rep : idle_) {
        rep.wr.next = first;
        first = &rep.wr;
    }
    if (!qp_->post_recv(*first)) return false;
    while (!idle_.empty()) {
        idle_.pop_front();
        ++posted_;
    }
    return true;
}

void ReceiveQueue::on_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept {
    Rep& rep = static_cast<Rep&>(cqe);
    ReceiveQueue& queue = *rep.home;
    NR_ASSERT(queue.posted_ > 0);
    --queue.posted_;
    if (wc.status != verbs::WcStatus::success) {
        queue.idle_.push_back(rep);
        queue.sink_.failed(queue.sink_.arg);
        return;
    }
    rep.wc = wc;
    queue.sink_.received(queue.sink_.arg, rep);
}

}  // namespace nfsrdma::xprtrdma
