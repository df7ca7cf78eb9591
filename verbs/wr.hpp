#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.hpp"

// Work requests and their completions: the vocabulary that every device speaks (InfiniBand volume
// 1, chapter 10).
namespace nfsrdma::verbs {

enum class Lkey : std::uint32_t {};
enum class Rkey : std::uint32_t {};

// What a key allows its holder to do; a set.
enum class Access : std::uint8_t { none = 0, local_write = 1, remote_read = 2, remote_write = 4 };
constexpr Access operator|(Access a, Access b) noexcept {
    return static_cast<Access>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}
constexpr bool has(Access set, Access right) noexcept {
    return (static_cast<std::uint8_t>(set) & static_cast<std::uint8_t>(right)) ==
           static_cast<std::uint8_t>(right);
}

enum class WcStatus : std::uint8_t {
    success,
    flushed,         // the queue pair was already in error
    local_error,     // our own work request was wrong: length, key, protection
    mr_error,        // REG_MR or LOCAL_INV in a state that does not allow it
    remote_access,   // the peer refused the key
    remote_invalid,  // the peer could not make sense of the request (too long for its Receive ...)
    remote_error,    // the peer failed
    retry_exceeded,  // no answer
    rnr_exceeded,    // the peer had no Receive
};

struct Sge {
    std::uint64_t addr = 0;
    std::uint32_t length = 0;
    Lkey lkey{};
};

// One completion. Only `status` is valid unless it is success.
struct Wc {
    WcStatus status = WcStatus::success;
    std::uint32_t byte_len = 0;    // Receives and RDMA READs
    bool with_invalidate = false;  // Receives: the peer's SEND_WITH_INV freed `invalidated`
    Rkey invalidated{};
};

// Completion entry: the object whose work completes inherits from it, so that a handler reaches its
// object with static_cast and no lookup (ib_cqe). `done` runs from CompletionQueue::poll on the
// loop's thread.
struct Cqe {
    using Done = void (*)(Cqe&, const Wc&) noexcept;
    Done done = nullptr;
};

class FastMr;
enum class SendOp : std::uint8_t { send, send_with_inv, rdma_read, rdma_write, reg_mr, local_inv };

// One send-queue work request. The device copies what it needs of it and of `sgl` during post_send;
// the memory that the SGEs name is lent until the completion of this or of a later signaled work
// request.
struct SendWr {
    SendWr* next = nullptr;
    Cqe* cqe = nullptr;  // told of the completion if signaled, and of any error
    SendOp op = SendOp::send;
    bool signaled = false;  // unsignaled: silent on success, loud on error (flushed too)
    bool fenced = false;  // starts after earlier RDMA READs and local operations of this queue pair
    std::span<const Sge> sgl;
    std::uint64_t remote_addr = 0;
    Rkey rkey{};           // remote key; send_with_inv: the key to invalidate; local_inv: the key
    FastMr* mr = nullptr;  // reg_mr, local_inv
    // Written by QueuePair::post_send: the device reports the success of this unsignaled request to
    // the send queue ledger, and to nobody else.
    bool ledger_signal = false;
};

struct RecvWr {
    RecvWr* next = nullptr;
    Cqe* cqe = nullptr;
    std::span<const Sge> sgl;
};

// A chain of work requests posted by one doorbell: REG_MR .. REG_MR, SEND. A view: the requests
// belong to their owners.
class WrChain {
  public:
    void push_front(SendWr& wr) noexcept {
        wr.next = first_;
        first_ = &wr;
        if (last_ == nullptr) last_ = &wr;
        ++size_;
    }
    void push_back(SendWr& wr) noexcept {
        wr.next = nullptr;
        if (last_ == nullptr) {
            first_ = &wr;
        } else {
            last_->next = &wr;
        }
        last_ = &wr;
        ++size_;
    }
    SendWr* first() const noexcept { return first_; }
    SendWr* last() const noexcept { return last_; }
    std::uint32_t size() const noexcept { return size_; }
    bool empty() const noexcept { return first_ == nullptr; }

  private:
    SendWr* first_ = nullptr;
    SendWr* last_ = nullptr;
    std::uint32_t size_ = 0;
};

const char* to_string(WcStatus status) noexcept;
const char* to_string(SendOp op) noexcept;

}  // namespace nfsrdma::verbs
