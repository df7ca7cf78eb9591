#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <rdma/rdma_cma.h>

#include "base/loop.hpp"
#include "verbs/cm.hpp"
#include "verbs/rdmacore/handles.hpp"

// Connection management of one device, by librdmacm: one event channel, watched by the loop.
namespace nfsrdma::verbs::rdmacore {

class ListenGroup;
class RdmaCmId;
class RdmaDevice;
class RdmaListener;

inline constexpr std::uint32_t kHalfOpenMax = 512;  // requests without an established connection

// An event of librdmacm, copied so that it could be acknowledged.
struct RawEvent {
    rdma_cm_event_type type{};
    int status = 0;
    std::uint8_t responder_resources = 0, initiator_depth = 0;
    std::uint8_t rnr_retry_count = 0;
    std::uint8_t private_size = 0;
    std::array<std::byte, 256> private_bytes{};
    std::span<const std::byte> private_data() const noexcept {
        return std::span(private_bytes).first(private_size);
    }
};
RawEvent copy_event(const rdma_cm_event& event) noexcept;

// What the context of an rdma_cm_id points to.
class EventSink {
  public:
    virtual void on_event(const RawEvent& event) noexcept = 0;

  protected:
    ~EventSink() = default;
};

// What the context of an id that listens points to, as an EventSink.
class RequestSink : public EventSink {
  public:
    // A request that came on a new id.
    virtual void on_request(CmIdHandle id, const RawEvent& event) noexcept = 0;

  protected:
    ~RequestSink() = default;
};

class Cm {
  public:
    static Result<std::unique_ptr<Cm>> create(RdmaDevice& device);
    ~Cm();
    Cm(const Cm&) = delete;
    Cm& operator=(const Cm&) = delete;

    Result<std::unique_ptr<verbs::CmId>> create_id(CmHandler& handler);
    // Errc::system with EADDRINUSE, EADDRNOTAVAIL. Port 0 takes a free one.
    Result<std::unique_ptr<verbs::Listener>> listen(const SockAddr& local, ListenHandler& handler);
    void join(ListenGroup& group) noexcept { group_ = &group; }

    // For ids and listeners.
    RdmaDevice& device() const noexcept { return device_; }
    Loop& loop() const noexcept;
    ListenGroup* group() const noexcept { return group_; }
    // A new id whose events go to `sink`, with our ACK timeout.
    Result<CmIdHandle> make_id(EventSink& sink) noexcept;
    void set_ack_timeout(rdma_cm_id& id) const noexcept;
    bool ours(const rdma_cm_id& id) const noexcept;  // it is bound to this device
    rdma_event_channel& channel() const noexcept { return *channel_; }
    void add(RdmaListener& listener) { listeners_.push_back(&listener); }
    void forget(const RdmaListener& listener) noexcept;
    bool listens(const RdmaListener& listener) const noexcept;
    std::uint32_t half_open = 0;
    std::uint32_t ids = 0;

  private:
    struct Watch : FdWatch {
        using FdWatch::FdWatch;
        Cm* cm = nullptr;
    };
    explicit Cm(RdmaDevice& device) noexcept;
    void on_events() noexcept;
    bool next_event() noexcept;

    RdmaDevice& device_;
    ListenGroup* group_ = nullptr;
    EventChannelHandle channel_;
    Watch watch_;
    std::vector<RdmaListener*> listeners_;
};

class RdmaListener final : public verbs::Listener, public RequestSink {
  public:
    RdmaListener(Cm& cm, ListenHandler& handler);
    ~RdmaListener() override;
    RdmaListener(const RdmaListener&) = delete;
    RdmaListener& operator=(const RdmaListener&) = delete;
    SockAddr local() const noexcept override { return local_; }

    // Listens itself.
    Result<void> start(const SockAddr& local) noexcept;
    // Takes its share of what another listener of the group hears.
    void share(const SockAddr& local) noexcept { local_ = local; }
    Cm& cm() const noexcept { return cm_; }
    void on_event(const RawEvent& event) noexcept override;
    void on_request(CmIdHandle id, const RawEvent& event) noexcept override;
    // Shows the request to the handler; on its loop.
    void show(CmIdHandle id, const RawEvent& event) noexcept;

  private:
    Cm& cm_;
    ListenHandler& handler_;
    SockAddr local_;
    CmIdHandle id_;
};

}  // namespace nfsrdma::verbs::rdmacore
