#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "base/loop.hpp"
#include "svcrdma/ctxt.hpp"

namespace nfsrdma::svcrdma {

// The small replies of one turn, posted together: first the RDMA WRITEs of all of them, then their
// SENDs, each so behind its own WRITEs. One doorbell for many; and what is alike lies side by side,
// so that a device which sends packets of one size together (softroce) makes two messages of it
// where it made one a reply. A large reply goes alone: its peer does not wait for others' data.
// Empty between turns, but for one that waits for send-queue room.
class ReplyBatch : pools::Posting, Task {
  public:
    explicit ReplyBatch(SvcTransport& transport) noexcept;
    ~ReplyBatch();
    ReplyBatch(const ReplyBatch&) = delete;
    ReplyBatch& operator=(const ReplyBatch&) = delete;

    // A reply whose requests are formed. Posts when it is full, or large, else at the end of the
    // loop's turn.
    void add(SendCtxt& reply) noexcept;
    void flush() noexcept;

    static constexpr std::uint32_t kRepliesMax = 16;
    // What goes by RDMA WRITE; a batch of packets of the device takes some 60 KiB.
    static constexpr std::uint32_t kPushedBytesMax = 60 * 1024;

  private:
    void post_alone(SendCtxt& reply) noexcept;
    static void on_batch_posted(pools::Posting& posting, Result<void> result) noexcept;

    SvcTransport& transport_;
    std::array<SendCtxt*, kRepliesMax> replies_{};
    std::uint32_t count_ = 0, slots_ = 0, pushed_bytes_ = 0;
    bool waits_ = false;  // for send-queue room; until then others are posted one by one behind it
};

}  // namespace nfsrdma::svcrdma
