#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/sock_addr.hpp"

// Connection management as librdmacm has it: addresses and ports of RDMA_PS_TCP, private data both
// ways, RC queue pairs.
namespace nfsrdma::verbs {

class CompletionQueue;
class ProtectionDomain;
class QueuePair;
struct QpOptions;

inline constexpr std::uint32_t kConnectPrivateDataMax = 56;
inline constexpr std::uint32_t kAcceptPrivateDataMax = 196;
inline constexpr std::uint32_t kRejectPrivateDataMax = 148;

struct ConnParams {
    std::span<const std::byte> private_data;
    // RDMA READs that we serve for the peer (responder) and that we keep in flight (initiator); the
    // device clamps them, and the smaller of what both ends say holds.
    std::uint8_t responder_resources = 16, initiator_depth = 16;
    // Both ends use the request's. Not 7: soft-RoCE of Linux takes that for "for ever", and all
    // threads of its NFS server then wait for clients that were killed.
    std::uint8_t retry_count = 6;
    std::uint8_t rnr_retry_count = 7;  // 7: for ever
    std::uint64_t timeout_ns =
        5 * kNsPerSec;  // active side: until established or the attempt fails
};

enum class CmEventType : std::uint8_t {
    established,
    rejected,      // the peer said no: private_data, reason
    unreachable,   // no answer
    disconnected,  // DREQ from the peer, or the queue pair failed; comes once after `established`
};

struct CmEvent {
    CmEventType type;
    std::uint16_t reason = 0;  // rejected: the IBA reason code (28: consumer)
    std::span<const std::byte>
        private_data;                  // valid during the call; padded by zeros as the wire has it
    std::uint8_t initiator_depth = 0;  // established: RDMA READs that we may keep in flight
    std::uint8_t responder_resources = 0;
};

const char* to_string(CmEventType type) noexcept;

class CmId;
class CmHandler {
  public:
    virtual void on_cm_event(CmId& id, const CmEvent& event) noexcept = 0;

  protected:
    ~CmHandler() = default;
};

// One end of a connection, or of one being made. Its destructor disconnects silently; its queue
// pair's flushed completions must have been polled first (QueuePair::outstanding() == 0 after
// set_error()).
class CmId {
  public:
    virtual ~CmId() = default;
    // Makes the queue pair, once, before connect or accept; owned by the id.
    virtual Result<QueuePair*> create_qp(ProtectionDomain& pd, CompletionQueue& cq,
                                         const QpOptions& options) = 0;
    virtual QueuePair* qp() noexcept = 0;
    // Active side. The outcome is one event: established, rejected or unreachable. Errc::system
    // when no local address leads to `peer`.
    virtual Result<void> connect(const SockAddr& peer, const ConnParams& params) noexcept = 0;
    // Passive side, for an id that came with a connect request; the outcome is `established` (RTU
    // or first data) or `unreachable`. Receives may complete before `established`.
    virtual Result<void> accept(const ConnParams& params) noexcept = 0;
    virtual Result<void> reject(std::span<const std::byte> private_data) noexcept = 0;
    // DREQ, and the queue pair to the error state. `disconnected` follows, once.
    virtual void disconnect() noexcept = 0;
    virtual void set_handler(CmHandler& handler) noexcept = 0;
    virtual SockAddr local() const noexcept = 0;
    virtual SockAddr peer() const noexcept = 0;
};

struct ConnectRequest {
    std::span<const std::byte> private_data;  // 56 bytes, valid during the call
    std::uint8_t initiator_depth = 0;  // RDMA READs that we may keep in flight towards this peer
    std::uint8_t responder_resources = 0;  // that it will keep in flight towards us
};

class ListenHandler {
  public:
    // The handler takes `id` and calls accept or reject, now or later; dropping it rejects. Called
    // on the loop of the device that the connection was steered to.
    virtual void on_connect_request(std::unique_ptr<CmId> id,
                                    const ConnectRequest& request) noexcept = 0;

  protected:
    ~ListenHandler() = default;
};

// Stops listening when it dies; connections that were accepted live on.
class Listener {
  public:
    virtual ~Listener() = default;
    virtual SockAddr local() const noexcept = 0;
};

}  // namespace nfsrdma::verbs
