#include "verbs/rdmacore/device.hpp"

#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <system_error>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/cm.hpp"
#include "verbs/rdmacore/cq.hpp"
#include "verbs/rdmacore/find.hpp"
#include "verbs/rdmacore/memlock.hpp"
#include "verbs/rdmacore/mr.hpp"
#include "verbs/rdmacore/probe.hpp"
#include "verbs/rdmacore/qp.hpp"

// Operation. The loop watches three descriptors: the completion channel that its queues arm before
// it sleeps, the device's asynchronous events, and connection management's events.
//
// Ownership. What is made from a device dies before it; the device's list of queue pairs is for
// telling them that it is gone.
//
// Errors. A fatal event of the device, or its removal, fails every queue pair; one of a completion
// queue fails those that use it; one of a queue pair fails that one. The descriptors of a device
// that is gone are ready for good: they are not watched any more.
namespace nfsrdma::verbs::rdmacore {

namespace {
constexpr std::uint32_t kEventsMax = 64;  // in one go

// After a read of events that failed with `error`: no more are there now, or none ever will be.
bool is_end(int error) noexcept {
    return error != EAGAIN && error != EWOULDBLOCK && error != EINTR;
}
}  // namespace

Result<void> set_nonblocking(int fd) noexcept {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return Error{Errc::system, errno, "set a descriptor to not block"};
    return {};
}

Result<std::unique_ptr<Device>> open_device(Loop& loop, const Options& options) {
    NR_TRY_ASSIGN(std::unique_ptr<RdmaDevice> device, RdmaDevice::open(loop, options));
    return std::unique_ptr<Device>(std::move(device));
}

Strategy strategy_of(const Device& device) noexcept {
    return static_cast<const RdmaDevice&>(device).strategy();
}

RdmaDevice::RdmaDevice(Loop& loop, const Options& options) noexcept
    : loop_(loop),
      options_(options),
      comp_watch_([](FdWatch& watch, std::uint32_t) noexcept {
          static_cast<Watch&>(watch).device->on_completion_events();
      }),
      async_watch_([](FdWatch& watch, std::uint32_t) noexcept {
          static_cast<Watch&>(watch).device->on_async_events();
      }) {
    comp_watch_.device = async_watch_.device = this;
}

Result<std::unique_ptr<RdmaDevice>> RdmaDevice::open(Loop& loop, const Options& options) {
    constexpr std::uint8_t kTimeoutMax = 31;
    if (options.ack_timeout_exp > kTimeoutMax)
        return Error{Errc::invalid_argument, 0, "RDMA device options"};
    std::unique_ptr<RdmaDevice> device(new RdmaDevice(loop, options));
    NR_TRY_ASSIGN(Found found, find_device(options.device, options.strategy));
    device->source_ = found.source;
    NR_TRY(device->start(std::move(found.context)));
    return device;
}

Result<void> RdmaDevice::start(ContextHandle context) {
    context_ = std::move(context);
    name_ = ibv_get_device_name(context_->device);
    ibv_device_attr attr{};
    if (const int error = ibv_query_device(context_.get(), &attr); error != 0)
        return Error{Errc::system, error, "query the RDMA device"};
    quirks_ = quirks_of(attr.vendor_id);
    NR_TRY_ASSIGN(const Probed probed, probe(*context_, attr, options_.strategy));
    strategy_ = probed.strategy;
    caps_ = probed.caps;
    max_cqe_ = attr.max_cqe > 0 ? static_cast<std::uint32_t>(attr.max_cqe) : 0;
    first_port_ = first_active_port(*context_, attr);
    comp_channel_.reset(ibv_create_comp_channel(context_.get()));
    if (comp_channel_ == nullptr) return Error{Errc::system, errno, "create completion channel"};
    NR_TRY_ASSIGN(cm_, Cm::create(*this));
    NR_TRY(start_watches());
    say_what_was_taken(probed);
    return {};
}

Result<void> RdmaDevice::start_watches() {
    NR_TRY(set_nonblocking(comp_channel_->fd));
    NR_TRY(set_nonblocking(context_->async_fd));
    comp_watch_.fd = comp_channel_->fd;
    async_watch_.fd = context_->async_fd;
    comp_watch_.events = async_watch_.events = POLLIN;
    NR_TRY(loop_.watch(comp_watch_));
    return loop_.watch(async_watch_);
}

void RdmaDevice::say_what_was_taken(const Probed& probed) const noexcept {
    if (probed.window_error != 0) {
        log::warn("RDMA device {}: it says that it has memory windows, but makes none: {}", name_,
                  std::generic_category().message(probed.window_error));
    }
    if (probed.memory_error != 0) {
        log::warn("RDMA device {}: queues have {} and {} places: {}", name_, caps_.max_send_wr,
                  caps_.max_recv_wr, memory_sentence("make longer ones", memlock_limit()));
    }
    switch (strategy_) {
        case Strategy::windows:
            log::info("RDMA device {}: keys are memory windows, bound by the device", name_);
            break;
        case Strategy::umr:
            log::info("RDMA device {}: keys are made by UMR, bound by the device", name_);
            break;
        case Strategy::register_each:
        case Strategy::automatic:
            log::warn(
                "RDMA device {}: every call registers its memory with the kernel (some 130 us a "
                "MiB, where a memory window costs a few), and peers cannot invalidate its keys",
                name_);
            break;
    }
}

RdmaDevice::~RdmaDevice() {
    cm_.reset();
    NR_ASSERT(qps_.empty());
    unwatch();
}

void RdmaDevice::unwatch() noexcept {
    for (Watch* const watch : {&comp_watch_, &async_watch_}) {
        if (watch->linked()) loop_.unwatch(*watch);
    }
}

Result<std::unique_ptr<ProtectionDomain>> RdmaDevice::alloc_pd() {
    PdHandle pd(ibv_alloc_pd(context_.get()));
    if (pd == nullptr) return Error{Errc::system, errno, "allocate protection domain"};
    return std::unique_ptr<ProtectionDomain>(std::make_unique<RdmaPd>(*this, std::move(pd)));
}

Result<std::unique_ptr<CompletionQueue>> RdmaDevice::create_cq(std::uint32_t entries) {
    NR_TRY_ASSIGN(std::unique_ptr<RdmaCq> cq, RdmaCq::create(*this, entries));
    return std::unique_ptr<CompletionQueue>(std::move(cq));
}

Result<std::unique_ptr<CmId>> RdmaDevice::create_id(CmHandler& handler) {
    return cm_->create_id(handler);
}

Result<std::unique_ptr<Listener>> RdmaDevice::listen(const SockAddr& local,
                                                     ListenHandler& handler) {
    return cm_->listen(local, handler);
}

// The queues are polled in any case: an event only has to wake the loop, and to be asked for again.
void RdmaDevice::on_completion_events() noexcept {
    for (std::uint32_t i = 0; i < kEventsMax; ++i) {
        ibv_cq* cq = nullptr;
        void* owner = nullptr;
        if (ibv_get_cq_event(comp_channel_.get(), &cq, &owner) != 0) {
            if (is_end(errno)) on_gone();
            return;
        }
        ibv_ack_cq_events(cq, 1);
        static_cast<RdmaCq*>(owner)->on_event();
    }
}

void RdmaDevice::on_async_events() noexcept {
    for (std::uint32_t i = 0; i < kEventsMax; ++i) {
        ibv_async_event event{};
        if (ibv_get_async_event(context_.get(), &event) != 0) {
            if (is_end(errno)) on_gone();
            return;
        }
        // Before it is handled: that may destroy a queue pair, which waits until all of its events
        // are acknowledged.
        ibv_ack_async_event(&event);
        on_async_event(event);
    }
}

void RdmaDevice::on_async_event(const ibv_async_event& event) noexcept {
    switch (event.event_type) {
        case IBV_EVENT_QP_FATAL:
        case IBV_EVENT_QP_REQ_ERR:
        case IBV_EVENT_QP_ACCESS_ERR:
        case IBV_EVENT_PATH_MIG_ERR:
            static_cast<RdmaQp*>(event.element.qp->qp_context)
                ->on_async_error(event.event_type == IBV_EVENT_QP_REQ_ERR ||
                                 event.event_type == IBV_EVENT_QP_ACCESS_ERR);
            break;
        case IBV_EVENT_CQ_ERR:
            static_cast<RdmaCq*>(event.element.cq->cq_context)->on_error();
            break;
        case IBV_EVENT_DEVICE_FATAL:
            on_gone();
            break;
        case IBV_EVENT_COMM_EST:
        case IBV_EVENT_SQ_DRAINED:
        case IBV_EVENT_PATH_MIG:
        case IBV_EVENT_PORT_ACTIVE:
        case IBV_EVENT_PORT_ERR:
        case IBV_EVENT_LID_CHANGE:
        case IBV_EVENT_PKEY_CHANGE:
        case IBV_EVENT_SM_CHANGE:
        case IBV_EVENT_SRQ_ERR:
        case IBV_EVENT_SRQ_LIMIT_REACHED:
        case IBV_EVENT_QP_LAST_WQE_REACHED:
        case IBV_EVENT_CLIENT_REREGISTER:
        case IBV_EVENT_GID_CHANGE:
        case IBV_EVENT_WQ_FATAL:
            break;
    }
}

void RdmaDevice::add(RdmaQp& qp) noexcept {
    qps_.push_back(qp);
}

void RdmaDevice::remove(RdmaQp& qp) noexcept {
    qps_.erase(qp);
}

void RdmaDevice::on_gone() noexcept {
    if (std::exchange(gone_, true)) return;
    log::error("RDMA device {}: it is gone; its connections end", name_);
    unwatch();
    for (RdmaQp& qp : qps_)
        qp.abandon();
}

}  // namespace nfsrdma::verbs::rdmacore
