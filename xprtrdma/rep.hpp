#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "pools/buffer_pool.hpp"
#include "pools/io.hpp"
#include "verbs/device.hpp"

namespace nfsrdma::xprtrdma {

class ReceiveQueue;

// One Receive (rpcrdma_rep): posted, or carrying a frame, or idle.
struct Rep : verbs::Cqe, ListHook<Rep> {
    ReceiveQueue* home = nullptr;
    pools::Lease<pools::Regbuf> buffer;  // for life
    verbs::RecvWr wr;
    verbs::Sge sge;
    verbs::Wc wc;
    std::span<std::byte> frame() const noexcept;
};

// The Receives of one connection.
//
// Ownership. A Rep is in one place: idle here, posted to the device, or with whoever took it from
// `received` and gives it back. posted() is exact.
class ReceiveQueue {
  public:
    struct Sink {
        void (*received)(void* arg, Rep& rep) noexcept = nullptr;  // from CompletionQueue::poll
        void (*failed)(void* arg) noexcept = nullptr;              // flushed, or an error
        void* arg = nullptr;
    };
    static Result<std::unique_ptr<ReceiveQueue>> create(pools::BufferPool& buffers,
                                                        const pools::Io& io, std::uint32_t count,
                                                        const Sink& sink);
    void set_qp(verbs::QueuePair* qp) noexcept { qp_ = qp; }
    void give_back(Rep& rep) noexcept { idle_.push_back(rep); }
    // Posts everything that is idle, in one call, once `batch` of them are (facts R10). False: the
    // queue pair takes none.
    bool top_up(std::uint32_t batch) noexcept;
    std::uint32_t posted() const noexcept { return posted_; }
    bool full() const noexcept { return idle_.size() == count_; }

  private:
    ReceiveQueue() = default;
    static void on_done(verbs::Cqe& cqe, const verbs::Wc& wc) noexcept;
    Sink sink_;
    verbs::QueuePair* qp_ = nullptr;
    std::uint32_t count_ = 0, posted_ = 0;
    std::unique_ptr<Rep[]> reps_;
    List<Rep, Rep> idle_;
};

}  // namespace nfsrdma::xprtrdma
