#include "verbs/rdmacore/cm_id.hpp"

#include <algorithm>
#include <cerrno>

#include "base/assert.hpp"
#include "base/log.hpp"
#include "verbs/rdmacore/device.hpp"

// Operation. The active side resolves address and route, connects, moves its queue pair to ready
// when the answer comes, and says so to the peer. The passive side moves its queue pair before it
// accepts; the peer's word, or its first data, makes the connection.
//
// Ownership. 1. The rdma_cm_id lives as long as this, but for one whose device was removed: the
// kernel waits for it. 2. The handler is told from a task, never from inside a call, and this is
// not touched afterwards: the handler may destroy it.
//
// Errors. Every way in which an attempt can fail is one `unreachable` or `rejected`; every way in
// which a connection can end is one `disconnected`.
namespace nfsrdma::verbs::rdmacore {

namespace {

constexpr std::uint64_t kResolveMaxNs = 5 * kNsPerSec;
// What we tell the peer to wait when we have no Receive for it: 640 us (InfiniBand volume 1, table
// 45). The default of connection management, 0, is 655 ms.
constexpr std::uint8_t kMinRnrTimer = 12;
constexpr std::uint16_t kRejectConsumer = 28;

int to_ms(std::uint64_t ns) noexcept {
    return static_cast<int>(std::min<std::uint64_t>(ns, kResolveMaxNs) / kNsPerMs) + 1;
}

std::uint8_t smaller(std::uint8_t a, std::uint32_t b) noexcept {
    return static_cast<std::uint8_t>(std::min<std::uint32_t>(a, b));
}

}  // namespace

RdmaCmId::RdmaCmId(Cm& cm, CmHandler* handler, CmIdHandle id) noexcept
    : cm_(cm),
      handler_(handler),
      id_(std::move(id)),
      state_(id_ == nullptr ? State::idle : State::requested),
      timer_([](Timer& timer) noexcept {
          static_cast<AttemptTimer&>(timer).id->fail_attempt("no answer", ETIMEDOUT);
      }),
      tell_task_([](Task& task) noexcept { static_cast<TellTask&>(task).id->tell(); }) {
    timer_.id = this;
    tell_task_.id = this;
    ++cm_.ids;
    if (id_ == nullptr) return;
    id_->context = static_cast<EventSink*>(this);
    cm_.set_ack_timeout(*id_);
    local_ = SockAddr::from(rdma_get_local_addr(id_.get()));
    peer_ = SockAddr::from(rdma_get_peer_addr(id_.get()));
    ++cm_.half_open;
}

RdmaCmId::~RdmaCmId() {
    if (tell_task_.linked()) cm_.loop().cancel(tell_task_);
    if (state_ == State::requested && id_ != nullptr)
        static_cast<void>(rdma_reject(id_.get(), nullptr, 0));
    if (state_ == State::established) static_cast<void>(rdma_disconnect(id_.get()));
    move_to(State::closed);
    qp_.reset();
    id_.reset();
    --cm_.ids;
}

bool RdmaCmId::attempting() const noexcept {
    return state_ == State::resolving_address || state_ == State::resolving_route ||
           state_ == State::connecting || state_ == State::accepted;
}

void RdmaCmId::move_to(State state) noexcept {
    const auto half_open = [](State s) { return s == State::requested || s == State::accepted; };
    if (half_open(state_) && !half_open(state)) --cm_.half_open;
    state_ = state;
    if (!attempting() && timer_.armed()) cm_.loop().disarm(timer_);
}

Result<QueuePair*> RdmaCmId::create_qp(ProtectionDomain& pd, CompletionQueue& cq,
                                       const QpOptions& options) {
    if (cm_.device().gone()) return Error{Errc::system, ENODEV, "create queue pair"};
    if (state_ == State::closed)
        return Error{Errc::reconnect, 0, "create queue pair: the peer gave up"};
    if (qp_ != nullptr || (state_ != State::idle && state_ != State::requested))
        return Error{Errc::invalid_argument, 0, "create queue pair: too late, or twice"};
    NR_TRY_ASSIGN(qp_, RdmaQp::create(cm_.device(), static_cast<RdmaPd&>(pd),
                                      static_cast<RdmaCq&>(cq), options));
    qp_->set_owner(this);
    if (state_ == State::requested) {
        if (auto moved = move_qp(IBV_QPS_INIT); !moved) {
            qp_.reset();
            return moved.error();
        }
    }
    return static_cast<QueuePair*>(qp_.get());
}

Result<void> RdmaCmId::connect(const SockAddr& peer, const ConnParams& params) noexcept {
    if (state_ != State::idle || qp_ == nullptr)
        return Error{Errc::invalid_argument, 0, "connect: no queue pair, or connected before"};
    if (params.private_data.size() > request_data_.size() || peer.port() == 0)
        return Error{Errc::invalid_argument, 0, "connect: private data too long, or no port"};
    const DeviceCaps& caps = cm_.device().caps();
    read_depth_ = smaller(params.initiator_depth, caps.max_read_depth);
    read_responses_ = smaller(params.responder_resources, caps.max_read_responses);
    retry_count_ = std::min<std::uint8_t>(params.retry_count, 7);
    rnr_retry_count_ = std::min<std::uint8_t>(params.rnr_retry_count, 7);
    std::copy(params.private_data.begin(), params.private_data.end(), request_data_.begin());
    request_size_ = params.private_data.size();
    peer_ = peer;
    NR_TRY_ASSIGN(id_, cm_.make_id(*this));
    const SockAddr& named = cm_.device().source();
    const bool bind = named.family() == peer.family();
    // The library takes pointers to what it only reads.
    auto* const source = bind ? const_cast<sockaddr*>(named.sa()) : nullptr;
    auto* const target = const_cast<sockaddr*>(peer.sa());
    if (rdma_resolve_addr(id_.get(), source, target, to_ms(params.timeout_ns)) != 0) {
        const int error = errno;
        id_.reset();
        return Error{Errc::system, error, "connect: resolve the address"};
    }
    move_to(State::resolving_address);
    start_timer(params.timeout_ns);
    return {};
}

void RdmaCmId::start_timer(std::uint64_t timeout_ns) noexcept {
    deadline_ns_ = cm_.loop().now_ns() + timeout_ns;
    cm_.loop().arm(timer_, deadline_ns_);
}

void RdmaCmId::on_address() noexcept {
    if (state_ != State::resolving_address) return;
    if (!cm_.ours(*id_)) {
        log::warn("{} is reached over the device {}, not over {}", peer_.to_string(),
                  id_->verbs == nullptr ? "?" : ibv_get_device_name(id_->verbs->device),
                  cm_.device().name());
        return fail_attempt("route", ENETUNREACH);
    }
    local_ = SockAddr::from(rdma_get_local_addr(id_.get()));
    const std::uint64_t now = cm_.loop().now_ns();
    move_to(State::resolving_route);
    if (rdma_resolve_route(id_.get(), to_ms(deadline_ns_ > now ? deadline_ns_ - now : 0)) != 0)
        fail_attempt("resolve the route", errno);
}

void RdmaCmId::on_route() noexcept {
    if (state_ != State::resolving_route) return;
    if (auto moved = move_qp(IBV_QPS_INIT); !moved)
        return fail_attempt(moved.error().what, moved.error().sys);
    rdma_conn_param param{};
    param.private_data = request_data_.data();
    param.private_data_len = static_cast<std::uint8_t>(request_size_);
    param.responder_resources = read_responses_;
    param.initiator_depth = read_depth_;
    param.retry_count = retry_count_;
    param.rnr_retry_count = rnr_retry_count_;
    param.qp_num = qp_->qpn();
    move_to(State::connecting);
    if (rdma_connect(id_.get(), &param) != 0) fail_attempt("connect", errno);
}

void RdmaCmId::on_response(const RawEvent& event) noexcept {
    if (state_ != State::connecting) return;
    read_depth_ = smaller(read_depth_, event.initiator_depth);
    read_responses_ = smaller(read_responses_, event.responder_resources);
    rnr_retry_count_ = std::max(rnr_retry_count_, event.rnr_retry_count);
    if (auto moved = ready_qp(); !moved) return fail_attempt(moved.error().what, moved.error().sys);
    if (rdma_establish(id_.get()) != 0) return fail_attempt("establish", errno);
    establish(&event);
}

ConnectRequest RdmaCmId::take_request(const RawEvent& event, const DeviceCaps& caps) noexcept {
    read_depth_ = smaller(event.initiator_depth, caps.max_read_depth);
    read_responses_ = smaller(event.responder_resources, caps.max_read_responses);
    rnr_retry_count_ = event.rnr_retry_count;
    const auto data = event.private_data();
    request_size_ = std::min(data.size(), request_data_.size());
    std::copy_n(data.begin(), request_size_, request_data_.begin());
    return {request_data_, read_depth_, read_responses_};
}

Result<void> RdmaCmId::accept(const ConnParams& params) noexcept {
    if (state_ == State::closed) return Error{Errc::reconnect, 0, "accept: the peer gave up"};
    if (state_ != State::requested || qp_ == nullptr || handler_ == nullptr)
        return Error{Errc::invalid_argument, 0, "accept: no request, queue pair or handler"};
    if (params.private_data.size() > kAcceptPrivateDataMax)
        return Error{Errc::invalid_argument, 0, "accept: private data too long"};
    read_depth_ = smaller(read_depth_, params.initiator_depth);
    read_responses_ = smaller(read_responses_, params.responder_resources);
    retry_count_ = std::min<std::uint8_t>(params.retry_count, 7);
    rnr_retry_count_ =
        std::max(rnr_retry_count_, std::min<std::uint8_t>(params.rnr_retry_count, 7));
    NR_TRY(ready_qp());
    rdma_conn_param param{};
    param.private_data = params.private_data.data();
    param.private_data_len = static_cast<std::uint8_t>(params.private_data.size());
    param.responder_resources = read_responses_;
    param.initiator_depth = read_depth_;
    param.rnr_retry_count = std::min<std::uint8_t>(params.rnr_retry_count, 7);
    param.qp_num = qp_->qpn();
    if (rdma_accept(id_.get(), &param) != 0) return Error{Errc::system, errno, "accept"};
    move_to(State::accepted);
    start_timer(params.timeout_ns);
    return {};
}

Result<void> RdmaCmId::ready_qp() noexcept {
    NR_TRY(move_qp(IBV_QPS_RTR));
    NR_TRY(move_qp(IBV_QPS_RTS));
    qp_->set_ready();
    return {};
}

Result<void> RdmaCmId::move_qp(ibv_qp_state state) noexcept {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    if (rdma_init_qp_attr(id_.get(), &attr, &mask) != 0)
        return Error{Errc::system, errno, "queue pair attributes of the connection"};
    // iWARP: the kernel moves the queue pair with the connection.
    if ((mask & IBV_QP_STATE) == 0) return {};
    if (state == IBV_QPS_INIT)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    attr.max_dest_rd_atomic = read_responses_;
    attr.max_rd_atomic = read_depth_;
    attr.min_rnr_timer = kMinRnrTimer;
    attr.timeout = cm_.device().options().ack_timeout_exp;
    attr.retry_cnt = retry_count_;
    attr.rnr_retry = rnr_retry_count_;
    return qp_->modify(attr, mask);
}

Result<void> RdmaCmId::reject(std::span<const std::byte> private_data) noexcept {
    if (state_ == State::closed) return {};  // the peer gave up meanwhile
    if (state_ != State::requested || private_data.size() > kRejectPrivateDataMax)
        return Error{Errc::invalid_argument, 0, "reject: no request, or private data too long"};
    move_to(State::closed);
    if (rdma_reject(id_.get(), private_data.data(),
                    static_cast<std::uint8_t>(private_data.size())) != 0)
        return Error{Errc::system, errno, "reject"};
    return {};
}

void RdmaCmId::disconnect() noexcept {
    if (state_ == State::established) {
        close_down(true);
    } else if (attempting()) {
        end_attempt(CmEventType::unreachable, 0, {});
    }
}

void RdmaCmId::on_event(const RawEvent& event) noexcept {
    switch (event.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            return on_address();
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            return on_route();
        case RDMA_CM_EVENT_CONNECT_RESPONSE:
            return on_response(event);
        case RDMA_CM_EVENT_ESTABLISHED:
            return on_established(event);
        case RDMA_CM_EVENT_REJECTED:
            return on_rejected(event);
        case RDMA_CM_EVENT_ADDR_ERROR:
        case RDMA_CM_EVENT_ROUTE_ERROR:
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
            // The peer never heard that we are ready, or has gone: to it there is no connection.
            if (state_ == State::established) return close_down(false);
            return fail_attempt(rdma_event_str(event.type), -event.status);
        case RDMA_CM_EVENT_DISCONNECTED:
            return on_disconnected();
        case RDMA_CM_EVENT_ADDR_CHANGE:
            if (state_ == State::established) return close_down(true);
            if (state_ == State::requested) return move_to(State::closed);
            return fail_attempt("the local address changed", 0);
        case RDMA_CM_EVENT_DEVICE_REMOVAL:
            return on_device_removal();
        case RDMA_CM_EVENT_CONNECT_REQUEST:
        case RDMA_CM_EVENT_MULTICAST_JOIN:
        case RDMA_CM_EVENT_MULTICAST_ERROR:
        case RDMA_CM_EVENT_TIMEWAIT_EXIT:
            return;
    }
}

void RdmaCmId::on_established(const RawEvent& event) noexcept {
    if (state_ == State::connecting) {
        qp_->set_ready();  // iWARP: the answer and its confirmation are one
        read_depth_ = smaller(read_depth_, event.initiator_depth);
        read_responses_ = smaller(read_responses_, event.responder_resources);
        establish(&event);
    } else if (state_ == State::accepted) {
        establish(nullptr);
    }
}

void RdmaCmId::on_rejected(const RawEvent& event) noexcept {
    switch (state_) {
        case State::resolving_address:
        case State::resolving_route:
        case State::connecting:
            return end_attempt(
                CmEventType::rejected,
                event.status > 0 ? static_cast<std::uint16_t>(event.status) : kRejectConsumer,
                event.private_data());
        case State::requested:
            return move_to(State::closed);
        case State::accepted:
            return fail_attempt("the peer withdrew", 0);
        case State::established:  // on our word alone: the peer did not agree in the end
            return close_down(false);
        case State::idle:
        case State::closed:
            return;
    }
}

void RdmaCmId::on_disconnected() noexcept {
    if (state_ == State::accepted) establish(nullptr);  // only its confirmation was lost
    if (state_ == State::established) return close_down(true);
    fail_attempt("disconnected", 0);
}

void RdmaCmId::on_device_removal() noexcept {
    cm_.device().on_gone();
    if (state_ == State::established) {
        close_down(false);
    } else if (attempting()) {
        end_attempt(CmEventType::unreachable, 0, {});
    } else {
        move_to(State::closed);
    }
    id_.reset();
}

void RdmaCmId::on_first_receive() noexcept {
    if (state_ != State::accepted) return;
    static_cast<void>(rdma_notify(id_.get(), IBV_EVENT_COMM_EST));
    establish(nullptr);
}

void RdmaCmId::on_fatal() noexcept {
    if (state_ == State::established) {
        close_down(true);
    } else if (attempting()) {
        fail_attempt("the queue pair failed", 0);
    }
}

void RdmaCmId::set_outcome(CmEventType type, std::uint16_t reason,
                           std::span<const std::byte> private_data) noexcept {
    outcome_ = {type, reason, {}, 0, 0};
    outcome_size_ = private_data.size();
    std::copy(private_data.begin(), private_data.end(), outcome_data_.begin());
    outcome_waits_ = true;
}

void RdmaCmId::establish(const RawEvent* event) noexcept {
    set_outcome(CmEventType::established, 0,
                event == nullptr ? std::span<const std::byte>{} : event->private_data());
    outcome_.initiator_depth = read_depth_;
    outcome_.responder_resources = read_responses_;
    move_to(State::established);
    tell_later();
}

void RdmaCmId::fail_attempt(const char* step, int error) noexcept {
    if (!attempting()) return;
    log::info("{}: connection with {}: {}", cm_.device().name(), peer_.to_string(),
              nfsrdma::to_string(Error{Errc::system, error > 0 ? error : 0, step}));
    end_attempt(CmEventType::unreachable, 0, {});
}

void RdmaCmId::end_attempt(CmEventType type, std::uint16_t reason,
                           std::span<const std::byte> private_data) noexcept {
    set_outcome(type, reason, private_data);
    move_to(State::closed);
    qp_->set_error();
    id_.reset();  // tells the peer, if it is still there, and ignores what it may yet answer
    tell_later();
}

void RdmaCmId::close_down(bool tell_peer) noexcept {
    // To the peer's request to disconnect this is the answer.
    if (tell_peer) static_cast<void>(rdma_disconnect(id_.get()));
    move_to(State::closed);
    qp_->set_error();
    disconnected_waits_ = true;
    tell_later();
}

void RdmaCmId::tell_later() noexcept {
    if (!tell_task_.linked()) cm_.loop().ready(tell_task_);
}

void RdmaCmId::tell() noexcept {
    if (handler_ == nullptr) return;
    if (std::exchange(outcome_waits_, false)) {
        if (disconnected_waits_) tell_later();
        const auto data = outcome_data_;
        CmEvent event = outcome_;
        event.private_data = std::span(data).first(outcome_size_);
        handler_->on_cm_event(*this, event);  // may destroy this
    } else if (std::exchange(disconnected_waits_, false)) {
        handler_->on_cm_event(*this,
                              CmEvent{.type = CmEventType::disconnected, .private_data = {}});
    }
}

}  // namespace nfsrdma::verbs::rdmacore
