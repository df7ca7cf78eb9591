#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/list.hpp"
#include "base/loop.hpp"
#include "verbs/cm.hpp"
#include "verbs/softroce/cm_mad.hpp"
#include "verbs/softroce/qp.hpp"
#include "verbs/softroce/qp_attr.hpp"

// One end of a connection of the soft device, and its listener. See cm.hpp for operation and
// ownership.
namespace nfsrdma::verbs::softroce {

class Cm;
class SoftListener;

// Tag of the Cm's list of requests that are not yet established connections.
struct HalfOpen;

class SoftCmId final : public verbs::CmId,
                       public QpOwner,
                       public ListHook<>,
                       public ListHook<HalfOpen> {
  public:
    enum class State : std::uint8_t {
        idle,          // active side before connect
        req_sent,      // active: waits for REP or REJ
        req_received,  // passive: waits for accept or reject
        rep_sent,      // passive: waits for RTU or data
        established,
        closed,
    };

    SoftCmId(Cm& cm, CmHandler* handler) noexcept;
    ~SoftCmId() override;
    SoftCmId(const SoftCmId&) = delete;
    SoftCmId& operator=(const SoftCmId&) = delete;

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

    void on_first_packet(SoftQp& qp) noexcept override;
    void on_fatal(SoftQp& qp) noexcept override;

    // The rest is for the Cm.
    State state() const noexcept { return state_; }
    const Path& path() const noexcept { return path_; }
    std::uint32_t local_comm() const noexcept { return local_comm_; }
    std::uint32_t remote_comm() const noexcept { return remote_comm_; }
    std::uint32_t remote_qpn() const noexcept { return remote_qpn_; }
    void set_local_comm(std::uint32_t comm) noexcept { local_comm_ = comm; }
    SoftListener* listener() const noexcept { return listener_; }
    ConnectRequest request() const noexcept;
    void take_request(const Path& path, const MadHeader& header, const CmReq& req,
                      SoftListener& listener) noexcept;
    void refuse_unseen() noexcept;  // its listener died
    void on_req_again() noexcept;
    void on_rep(const MadHeader& header, const CmRep& rep) noexcept;
    void on_rtu(const CmIds& ids) noexcept;
    void on_rej(const MadHeader& header, const CmRej& rej) noexcept;
    void on_mra(const CmMra& mra) noexcept;
    // True when it is about this connection, and is to be answered.
    bool on_dreq(const CmDreq& dreq) noexcept;
    void on_stale() noexcept;         // the peer has forgotten this connection
    void tell() noexcept;             // the next event, to the handler, which may destroy this
    SoftCmId* remote_next = nullptr;  // in the Cm's buckets by remote QPN
    bool remote_indexed = false;

  private:
    class RetryTimer : public Timer {
      public:
        RetryTimer(SoftCmId& owner, Fire f) noexcept : Timer(f), id(owner) {}
        SoftCmId& id;
    };

    void move_to(State state) noexcept;
    Result<void> make_path(const SockAddr& peer) noexcept;
    Mad make_req() const noexcept;
    Result<void> connect_qp(std::uint32_t starting_psn, std::uint8_t rnr_retry_count) noexcept;
    void start_retries(std::uint64_t timeout_ns) noexcept;
    void on_retry_timer() noexcept;
    void set_outcome(CmEventType type, std::uint16_t reason,
                     std::span<const std::byte> private_data) noexcept;
    void establish() noexcept;
    void give_up() noexcept;                   // no answer, or the user does not want one
    void close_down(bool tell_peer) noexcept;  // from established
    void send_dreq() noexcept;
    void send_rej(CmMessage rejected, RejReason reason,
                  std::span<const std::byte> private_data) noexcept;
    CmIds ids() const noexcept { return {local_comm_, remote_comm_}; }

    Cm& cm_;
    CmHandler* handler_;
    SoftListener* listener_ = nullptr;  // passive; nullptr when it died before it saw the request
    std::unique_ptr<SoftQp> qp_;
    State state_ = State::idle;
    bool unseen_ = false, outcome_waits_ = false, disconnected_waits_ = false;
    Path path_;
    SockAddr local_, peer_;
    std::uint32_t local_comm_ = 0, remote_comm_ = 0, remote_qpn_ = 0;
    std::uint64_t tid_ = 0;
    std::uint32_t pmtu_ = 0, remote_psn_ = 0;
    std::uint8_t read_depth_ = 0, read_responses_ = 0;  // as offered, then as agreed
    std::uint8_t retry_count_ = 7, rnr_retry_count_ = 7;
    Mad mad_{};  // what is retried: REQ or REP; its private data until then
    std::uint64_t deadline_ns_ = 0, interval_ns_ = 0;
    RetryTimer timer_;
    CmEvent outcome_{.type = CmEventType::unreachable, .private_data = {}};
    std::array<std::byte, kRepPrivateBytes> outcome_data_{};
    std::size_t outcome_size_ = 0;
    std::array<std::byte, kReqUserBytes> request_data_{};
};

class SoftListener final : public verbs::Listener {
  public:
    SoftListener(Cm& cm, const SockAddr& local, ListenHandler& handler) noexcept
        : cm_(cm), local_(local), handler_(handler) {}
    ~SoftListener() override;
    SoftListener(const SoftListener&) = delete;
    SoftListener& operator=(const SoftListener&) = delete;
    SockAddr local() const noexcept override { return local_; }
    ListenHandler& handler() noexcept { return handler_; }
    // Listens at this address and port.
    bool covers(const SockAddr& address, std::uint16_t port) const noexcept;

  private:
    Cm& cm_;
    SockAddr local_;
    ListenHandler& handler_;
};

}  // namespace nfsrdma::verbs::softroce
