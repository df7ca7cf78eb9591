#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/loop.hpp"
#include "verbs/cm.hpp"
#include "verbs/rdmacore/cm.hpp"
#include "verbs/rdmacore/qp.hpp"

// One end of a connection. Its queue pair is ours, not librdmacm's: we move it through its states.
namespace nfsrdma::verbs::rdmacore {

class RdmaCmId final : public verbs::CmId, public EventSink, public QpOwner {
  public:
    enum class State : std::uint8_t {
        idle,               // active side before connect
        resolving_address,  // active
        resolving_route,    // active
        connecting,         // active: waits for the answer to its request
        requested,          // passive: waits for accept or reject
        accepted,           // passive: waits for the peer to be ready
        established,
        closed,
    };

    // `id` is that of a request, or nullptr: the active side.
    RdmaCmId(Cm& cm, CmHandler* handler, CmIdHandle id) noexcept;
    ~RdmaCmId() override;
    RdmaCmId(const RdmaCmId&) = delete;
    RdmaCmId& operator=(const RdmaCmId&) = delete;

    Result<QueuePair*> create_qp(ProtectionDomain& pd, CompletionQueue& cq,
                                 const QpOptions& options) override;
    QueuePair* qp() noexcept override { return qp_.get(); }
    Result<void> connect(const SockAddr& peer, const ConnParams& params) noexcept override;
    Result<void> accept(const ConnParams& params) noexcept override;
    Result<void> reject(std::span<const std::byte> private_data) noexcept override;
    void disconnect() noexcept override;
    void set_handler(CmHandler& handler) noexcept override { handler_ = &handler; }
    SockAddr local() const noexcept override { return local_; }
    SockAddr peer() const noexcept override { return peer_; }

    void on_event(const RawEvent& event) noexcept override;
    void on_first_receive() noexcept override;
    void on_fatal() noexcept override;
    // Of the request that it came with; valid while this lives.
    ConnectRequest take_request(const RawEvent& event, const DeviceCaps& caps) noexcept;

  private:
    struct AttemptTimer : Timer {
        using Timer::Timer;
        RdmaCmId* id = nullptr;
    };
    struct TellTask : Task {
        using Task::Task;
        RdmaCmId* id = nullptr;
    };
    bool attempting() const noexcept;
    void move_to(State state) noexcept;
    void on_address() noexcept;
    void on_route() noexcept;
    void on_response(const RawEvent& event) noexcept;
    void on_established(const RawEvent& event) noexcept;
    void on_rejected(const RawEvent& event) noexcept;
    void on_disconnected() noexcept;
    void on_device_removal() noexcept;
    // The queue pair to `state`, with what connection management knows and we agreed.
    Result<void> move_qp(ibv_qp_state state) noexcept;
    Result<void> ready_qp() noexcept;
    void start_timer(std::uint64_t timeout_ns) noexcept;
    void establish(const RawEvent* event) noexcept;
    void fail_attempt(const char* step, int error) noexcept;
    void end_attempt(CmEventType type, std::uint16_t reason,
                     std::span<const std::byte> private_data) noexcept;
    void close_down(bool tell_peer) noexcept;
    void set_outcome(CmEventType type, std::uint16_t reason,
                     std::span<const std::byte> private_data) noexcept;
    void tell_later() noexcept;
    void tell() noexcept;

    Cm& cm_;
    CmHandler* handler_;
    CmIdHandle id_;
    std::unique_ptr<RdmaQp> qp_;
    State state_;
    SockAddr local_, peer_;
    std::uint8_t read_depth_ = 0, read_responses_ = 0;
    std::uint8_t retry_count_ = 7, rnr_retry_count_ = 7;
    std::uint64_t deadline_ns_ = 0;
    std::array<std::byte, kConnectPrivateDataMax> request_data_{};  // sent, or received
    std::size_t request_size_ = 0;
    // What the handler is to be told.
    CmEvent outcome_{};
    std::array<std::byte, 256> outcome_data_{};
    std::size_t outcome_size_ = 0;
    bool outcome_waits_ = false, disconnected_waits_ = false;
    AttemptTimer timer_;
    TellTask tell_task_;
};

}  // namespace nfsrdma::verbs::rdmacore
