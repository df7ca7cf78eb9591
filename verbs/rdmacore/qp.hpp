#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <infiniband/verbs.h>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "verbs/device.hpp"
#include "verbs/rdmacore/cq.hpp"
#include "verbs/rdmacore/lower.hpp"
#include "verbs/rdmacore/mr.hpp"

namespace nfsrdma::verbs::rdmacore {

// Who is told what becomes of a queue pair. Told from a task of the loop, never from inside a call.
class QpOwner {
  public:
    virtual void on_first_receive() noexcept = 0;
    virtual void on_fatal() noexcept = 0;  // once

  protected:
    ~QpOwner() = default;
};

class RdmaQp final : public QueuePair, public ListHook<RdmaDevice>, public ListHook<FlushList> {
  public:
    // In the init state: Receives may be posted. `pd` and `cq` are of `device` and outlive it.
    static Result<std::unique_ptr<RdmaQp>> create(RdmaDevice& device, RdmaPd& pd, RdmaCq& cq,
                                                  const QpOptions& options);
    ~RdmaQp() override;
    RdmaQp(const RdmaQp&) = delete;
    RdmaQp& operator=(const RdmaQp&) = delete;

    void set_owner(QpOwner* owner) noexcept { owner_ = owner; }
    std::uint32_t qpn() const noexcept { return qp_->qp_num; }
    // To another port (init), to ready to receive, to ready to send: one ibv_modify_qp.
    Result<void> modify(ibv_qp_attr& attr, int mask) noexcept;
    void set_ready() noexcept;  // it may send from now on

    void set_error() noexcept override { fail(false); }
    bool in_error() const noexcept override { return state_ == State::error; }
    std::uint32_t outstanding() const noexcept override {
        return (send_tail_ - send_head_) + (recv_tail_ - recv_head_);
    }
    // The device cannot be relied on for its completions any more: they are ours from here on.
    void abandon() noexcept;
    // The device says that this queue pair is in error; `peer`: by what the peer asked for.
    void on_async_error(bool peer) noexcept {
        if (peer) ++counters_.peer_faults;
        fail(true);
    }

    // For the completion queue.
    void on_completion(const ibv_wc& wc, const WrId& id) noexcept;
    // Delivers one flushed completion of what the device will not tell about; linked on its list.
    void flush_one() noexcept;
    // Keys that are bound on this queue pair.
    List<KeyMr>& keys() noexcept { return keys_; }

  private:
    enum class State : std::uint8_t { init, ready, error };
    struct SendEntry {
        Cqe* cqe = nullptr;
        KeyMr* key = nullptr;
        SendOp op = SendOp::send;
        bool signaled = false;
        bool reported = false;  // the device tells of its success, to us if to nobody else
    };
    struct FlushTimer : Timer {
        using Timer::Timer;
        RdmaQp* qp = nullptr;
    };
    struct TellTask : Task {
        using Task::Task;
        RdmaQp* qp = nullptr;
    };

    RdmaQp(RdmaDevice& device, RdmaPd& pd, RdmaCq& cq, const QpOptions& options);
    Result<void> do_post_send(SendWr& first) noexcept override;
    Result<void> do_post_recv(RecvWr& first) noexcept override;
    Result<void> check(const SendWr& wr) noexcept;
    Result<void> stage(const SendWr& first) noexcept;
    ibv_send_wr* lower_chain(const SendWr& first) noexcept;
    static void roll_back(const SendWr& first, const SendWr* end) noexcept;
    void record(const SendWr& first) noexcept;
    std::uint64_t send_id(std::uint32_t index) const noexcept;
    void on_send(const ibv_wc& wc, std::uint32_t index) noexcept;
    void on_recv(const ibv_wc& wc, std::uint32_t index) noexcept;
    void on_drained() noexcept;
    void settle() noexcept;
    void retire_silently(std::uint32_t count) noexcept;
    void retire_unreported() noexcept;
    void enter_error(bool tell) noexcept;
    void fail(bool tell) noexcept;
    void wait_for_flush() noexcept;
    void on_flush_wait() noexcept;
    void destroy_handle() noexcept;
    bool post_drain() noexcept;
    int post(ibv_send_wr* first, ibv_send_wr** refused) noexcept;
    void tell() noexcept;
    void tell_later() noexcept;
    SendEntry& send_at(std::uint32_t index) noexcept { return sends_[index & send_mask_]; }

    RdmaDevice& device_;
    RdmaPd& pd_;
    RdmaCq& cq_;
    ibv_qp* qp_ = nullptr;
    QpOwner* owner_ = nullptr;
    State state_ = State::init;
    std::uint32_t send_wrs_, recv_wrs_, send_sges_, recv_sges_;
    WrId id_;
    bool attached_ = false;
    bool drained_ = false;  // the device will not tell about sends any more
    bool received_ = false;
    bool tell_first_ = false, tell_fatal_ = false;
    std::vector<SendEntry> sends_;
    std::vector<Cqe*> recvs_;
    std::uint32_t send_mask_, recv_mask_;
    std::uint32_t send_head_ = 0, send_tail_ = 0, recv_head_ = 0, recv_tail_ = 0;
    // What one post hands to the device.
    std::vector<ibv_send_wr> send_scratch_;
    std::vector<ibv_sge> sge_scratch_;
    std::vector<ibv_recv_wr> recv_scratch_;
    std::vector<ibv_sge> recv_sge_scratch_;
    List<KeyMr> keys_;
    FlushTimer flush_timer_;
    std::uint32_t left_at_last_look_ = 0;  // outstanding() when the flush timer ran last
    TellTask tell_task_;
};

}  // namespace nfsrdma::verbs::rdmacore
