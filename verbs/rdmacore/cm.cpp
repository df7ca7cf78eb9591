#include "verbs/rdmacore/cm.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/cm_id.hpp"
#include "verbs/rdmacore/device.hpp"
#include "verbs/rdmacore/group.hpp"

// Operation. The loop watches the event channel. An event is copied and acknowledged before anybody
// is told, so that whoever is told may destroy its id.
//
// Ownership. An id belongs to its user; the id of a request belongs to the event until its listener
// has taken it.
//
// Errors. Requests beyond kHalfOpenMax, or for another device, are rejected.
namespace nfsrdma::verbs::rdmacore {

namespace {
constexpr std::uint32_t kEventsMax = 64;  // in one go
constexpr int kBacklog = 128;
}  // namespace

RawEvent copy_event(const rdma_cm_event& event) noexcept {
    RawEvent out;
    out.type = event.event;
    out.status = event.status;
    switch (event.event) {
        case RDMA_CM_EVENT_CONNECT_REQUEST:
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
        case RDMA_CM_EVENT_ESTABLISHED:
        case RDMA_CM_EVENT_REJECTED:
            break;
        case RDMA_CM_EVENT_ADDR_RESOLVED:
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
        case RDMA_CM_EVENT_ROUTE_ERROR:
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
        case RDMA_CM_EVENT_MULTICAST_JOIN:
        case RDMA_CM_EVENT_MULTICAST_ERROR:
        case RDMA_CM_EVENT_ADDR_CHANGE:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            return out;
    }
    const rdma_conn_param& conn = event.param.conn;
    out.responder_resources = conn.responder_resources;
    out.initiator_depth = conn.initiator_depth;
    out.rnr_retry_count = conn.rnr_retry_count;
    if (conn.private_data != nullptr) {
        out.private_size = conn.private_data_len;
        std::memcpy(out.private_bytes.data(), conn.private_data, conn.private_data_len);
    }
    return out;
}

Cm::Cm(RdmaDevice& device) noexcept
    : device_(device), watch_([](FdWatch& watch, std::uint32_t) noexcept {
          static_cast<Watch&>(watch).cm->on_events();
      }) {
    watch_.cm = this;
}

Result<std::unique_ptr<Cm>> Cm::create(RdmaDevice& device) {
    std::unique_ptr<Cm> cm(new Cm(device));
    cm->channel_.reset(rdma_create_event_channel());
    if (cm->channel_ == nullptr)
        return Error{Errc::system, errno, "open /dev/infiniband/rdma_cm (modprobe rdma_ucm?)"};
    NR_TRY(set_nonblocking(cm->channel_->fd));
    cm->watch_.fd = cm->channel_->fd;
    cm->watch_.events = POLLIN;
    NR_TRY(device.loop().watch(cm->watch_));
    return cm;
}

Cm::~Cm() {
    NR_ASSERT(ids == 0 && listeners_.empty());
    if (watch_.linked()) loop().unwatch(watch_);
}

Loop& Cm::loop() const noexcept {
    return device_.loop();
}

Result<CmIdHandle> Cm::make_id(EventSink& sink) noexcept {
    rdma_cm_id* id = nullptr;
    if (rdma_create_id(channel_.get(), &id, &sink, RDMA_PS_TCP) != 0)
        return Error{Errc::system, errno, "create a connection id"};
    set_ack_timeout(*id);
    return CmIdHandle(id);
}

// Kernels before 5.1 do not have the option; the queue pair's own timeout is ours in any case.
void Cm::set_ack_timeout(rdma_cm_id& id) const noexcept {
    std::uint8_t exponent = device_.options().ack_timeout_exp;
    static_cast<void>(
        rdma_set_option(&id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, 1));
}

bool Cm::ours(const rdma_cm_id& id) const noexcept {
    return id.verbs != nullptr &&
           std::strcmp(ibv_get_device_name(id.verbs->device), device_.name()) == 0;
}

Result<std::unique_ptr<verbs::CmId>> Cm::create_id(CmHandler& handler) {
    if (device_.gone()) return Error{Errc::system, ENODEV, "create id: the device is gone"};
    return std::unique_ptr<verbs::CmId>(std::make_unique<RdmaCmId>(*this, &handler, nullptr));
}

Result<std::unique_ptr<verbs::Listener>> Cm::listen(const SockAddr& local, ListenHandler& handler) {
    if (!local.is_v4() && !local.is_v6())
        return Error{Errc::invalid_argument, 0, "listen: not an IP address"};
    auto listener = std::make_unique<RdmaListener>(*this, handler);
    if (group_ != nullptr) {
        NR_TRY(group_->listen(*listener, local));
    } else {
        NR_TRY(listener->start(local));
    }
    return std::unique_ptr<verbs::Listener>(std::move(listener));
}

void Cm::forget(const RdmaListener& listener) noexcept {
    listeners_.erase(std::remove(listeners_.begin(), listeners_.end(), &listener),
                     listeners_.end());
}

bool Cm::listens(const RdmaListener& listener) const noexcept {
    return std::find(listeners_.begin(), listeners_.end(), &listener) != listeners_.end();
}

void Cm::on_events() noexcept {
    for (std::uint32_t i = 0; i < kEventsMax && next_event(); ++i) {
    }
}

bool Cm::next_event() noexcept {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) != 0) return false;
    const RawEvent raw = copy_event(*event);
    rdma_cm_id* const id = event->id;
    const bool request = raw.type == RDMA_CM_EVENT_CONNECT_REQUEST;
    auto* const sink =
        static_cast<EventSink*>(request ? event->listen_id->context : event->id->context);
    static_cast<void>(rdma_ack_cm_event(event));
    if (request) {
        id->context = nullptr;
        CmIdHandle owned(id);
        if (sink != nullptr) static_cast<RequestSink*>(sink)->on_request(std::move(owned), raw);
    } else if (sink != nullptr) {
        sink->on_event(raw);
    }
    return true;
}

RdmaListener::RdmaListener(Cm& cm, ListenHandler& handler) : cm_(cm), handler_(handler) {
    cm_.add(*this);
}

RdmaListener::~RdmaListener() {
    if (cm_.group() != nullptr) cm_.group()->leave(*this);
    cm_.forget(*this);
}

Result<void> RdmaListener::start(const SockAddr& local) noexcept {
    NR_TRY_ASSIGN(id_, cm_.make_id(*this));
    int only = 1;  // as sockets of ours: each family has its own listener
    if (local.is_v6()) {
        static_cast<void>(
            rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only));
    }
    // The library takes a pointer to what it only reads.
    if (rdma_bind_addr(id_.get(), const_cast<sockaddr*>(local.sa())) != 0)
        return Error{Errc::system, errno, "listen: bind the address"};
    if (!local.is_any() && !cm_.ours(*id_))
        return Error{Errc::system, EADDRNOTAVAIL, "listen: the address is another device's"};
    if (rdma_listen(id_.get(), kBacklog) != 0) return Error{Errc::system, errno, "listen"};
    local_ = SockAddr::from(rdma_get_local_addr(id_.get()));
    return {};
}

// Of a listener only its device's removal, or a change of its address, is told.
void RdmaListener::on_event(const RawEvent& event) noexcept {
    switch (event.type) {
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            log::error("{}: the device went away; nothing listens at {} any more",
                       cm_.device().name(), local_.to_string());
            id_.reset();
            cm_.device().on_gone();
            return;
        case RDMA_CM_EVENT_ADDR_CHANGE: {
            id_.reset();
            const SockAddr local = local_;
            if (auto again = start(local); !again) {
                log::error("{}: cannot listen at {} again: {}", cm_.device().name(),
                           local.to_string(), nfsrdma::to_string(again.error()));
            }
            return;
        }
        case RDMA_CM_EVENT_ADDR_RESOLVED:
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
        case RDMA_CM_EVENT_ROUTE_ERROR:
        case RDMA_CM_EVENT_CONNECT_REQUEST:
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_REJECTED:
        case RDMA_CM_EVENT_ESTABLISHED:
        case RDMA_CM_EVENT_DISCONNECTED:
        case RDMA_CM_EVENT_MULTICAST_JOIN:
        case RDMA_CM_EVENT_MULTICAST_ERROR:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            return;
    }
}

void RdmaListener::on_request(CmIdHandle id, const RawEvent& event) noexcept {
    if (!cm_.ours(*id)) {
        NR_LOG_ONCE(warn, "connect requests that come in over another device than {} are rejected",
                    cm_.device().name());
        static_cast<void>(rdma_reject(id.get(), nullptr, 0));
        return;
    }
    if (cm_.group() != nullptr) return cm_.group()->steer(*this, std::move(id), event);
    show(std::move(id), event);
}

void RdmaListener::show(CmIdHandle id, const RawEvent& event) noexcept {
    if (cm_.half_open >= kHalfOpenMax || cm_.device().gone()) {
        static_cast<void>(rdma_reject(id.get(), nullptr, 0));
        return;
    }
    const DeviceCaps& caps = cm_.device().caps();
    auto taken = std::make_unique<RdmaCmId>(cm_, nullptr, std::move(id));
    const ConnectRequest request = taken->take_request(event, caps);
    handler_.on_connect_request(std::move(taken), request);
}

}  // namespace nfsrdma::verbs::rdmacore
