#include "xprtrdma/endpoint.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/assert.hpp"

namespace nfsrdma::xprtrdma {
namespace {

// How often a queue pair in error is asked whether it has flushed everything.
constexpr std::uint64_t kDrainPollNs = 10 * kNsPerUs;
// RFC 8166 s3.3: flow control is by credits, never by RNR; a late Receive of the peer must not end
// the connection.
constexpr std::uint8_t kRnrRetryForEver = 7;
constexpr std::uint32_t kDrainPollsMax = 1000;

Error error_of(const verbs::CmEvent& event) noexcept {
    switch (event.type) {
        case verbs::CmEventType::rejected:
            return {Errc::refused, 0, "the server refused the connection"};
        case verbs::CmEventType::unreachable:
            return {Errc::timed_out, 0, "the server does not answer"};
        case verbs::CmEventType::established:
        case verbs::CmEventType::disconnected:
            break;
    }
    return {Errc::reconnect, 0, "disconnected"};
}

}  // namespace

const char* to_string(Endpoint::State state) noexcept {
    switch (state) {
        case Endpoint::State::idle:
            return "idle";
        case Endpoint::State::connecting:
            return "connecting";
        case Endpoint::State::connected:
            return "connected";
        case Endpoint::State::draining:
            return "draining";
        case Endpoint::State::closed:
            return "closed";
    }
    return "unknown";
}

Endpoint::Endpoint(verbs::Device& device, const Events& events) noexcept
    : device_(device),
      events_(events),
      poll_timer_(&Endpoint::on_poll),
      connected_task_(&Endpoint::on_connected) {
    poll_timer_.endpoint = this;
    connected_task_.endpoint = this;
}

Endpoint::~Endpoint() {
    NR_ASSERT(state_ == State::idle || state_ == State::closed);
    drop_id();
    if (cq_ != nullptr) device_.loop().remove(*cq_);
}

Result<std::unique_ptr<Endpoint>> Endpoint::create(verbs::Device& device, const Events& events) {
    std::unique_ptr<Endpoint> endpoint(new Endpoint(device, events));
    NR_TRY_ASSIGN(endpoint->pd_, device.alloc_pd());
    return endpoint;
}

Result<verbs::QueuePair*> Endpoint::make_queues(const Parameters& parameters) {
    NR_ASSERT(state_ == State::idle && cq_ == nullptr);
    parameters_ = parameters;
    NR_TRY_ASSIGN(cq_, device_.create_cq(parameters.cq_entries));
    device_.loop().add(*cq_);
    return make_id();
}

Result<verbs::QueuePair*> Endpoint::make_id() {
    NR_TRY_ASSIGN(id_, device_.create_id(*this));
    return id_->create_qp(*pd_, *cq_, parameters_.qp);
}

// A connection that was made may have ended before anybody was told of it.
void Endpoint::drop_id() noexcept {
    NR_ASSERT(id_ == nullptr || id_->qp() == nullptr || id_->qp()->outstanding() == 0);
    if (connected_task_.linked()) device_.loop().cancel(connected_task_);
    id_.reset();
}

Result<verbs::QueuePair*> Endpoint::renew() {
    NR_ASSERT(state_ == State::closed);
    drop_id();
    if (cq_->failed()) {  // else no attempt would ever succeed
        NR_TRY_ASSIGN(auto fresh, device_.create_cq(parameters_.cq_entries));
        device_.loop().remove(*cq_);
        cq_ = std::move(fresh);
        device_.loop().add(*cq_);
    }
    NR_TRY_ASSIGN(verbs::QueuePair* const qp, make_id());
    why_.reset();
    inline_limits_ = {};
    state_ = State::idle;
    return qp;
}

Result<void> Endpoint::start(const SockAddr& server, std::uint64_t timeout_ns) noexcept {
    NR_ASSERT(state_ == State::idle && id_ != nullptr);
    const auto private_data = rpcrdma::encode_private_data(parameters_.private_data);
    verbs::ConnParams params;
    params.private_data = private_data;
    params.responder_resources =
        static_cast<std::uint8_t>(std::min(pd_->caps().max_read_responses, std::uint32_t{255}));
    params.initiator_depth = 0;  // a client moves nothing by itself
    params.rnr_retry_count = kRnrRetryForEver;
    params.timeout_ns = timeout_ns;
    state_ = State::connecting;
    Result<void> asked = id_->connect(server, params);
    if (asked) return {};
    // No loop turn may be awaited here: the flushed Receives are polled in place.
    state_ = State::closed;
    id_->qp()->set_error();
    for (std::uint32_t i = 0; i < kDrainPollsMax && id_->qp()->outstanding() > 0; ++i)
        cq_->poll();
    return asked;
}

Result<std::unique_ptr<Probe>> Endpoint::probe(const SockAddr& server, const Probe::Told& told) {
    return Probe::create(device_, *pd_, *cq_, server, told);
}

void Endpoint::disconnect(const Error& why) noexcept {
    if (state_ != State::connecting && state_ != State::connected) return;
    if (state_ == State::connected) id_->disconnect();
    drain(why);
}

void Endpoint::on_cm_event(verbs::CmId&, const verbs::CmEvent& event) noexcept {
    switch (event.type) {
        case verbs::CmEventType::established:
            on_established(event);
            return;
        case verbs::CmEventType::rejected:
        case verbs::CmEventType::unreachable:
        case verbs::CmEventType::disconnected:
            drain(error_of(event));
            return;
    }
}

void Endpoint::on_established(const verbs::CmEvent& event) noexcept {
    if (state_ != State::connecting) return;
    inline_limits_ = rpcrdma::agree_inline(parameters_.private_data,
                                           rpcrdma::decode_private_data(event.private_data));
    state_ = State::connected;
    device_.loop().ready(connected_task_);
}

void Endpoint::on_connected(Task& task) noexcept {
    Endpoint& endpoint = *static_cast<ConnectedTask&>(task).endpoint;
    if (endpoint.connected()) endpoint.events_.connected(endpoint.events_.arg);
}

// The one way out. The queue pair may be in error already.
void Endpoint::drain(const Error& why) noexcept {
    if (state_ != State::connecting && state_ != State::connected) return;
    state_ = State::draining;
    why_ = why;
    if (!id_->qp()->in_error()) id_->qp()->set_error();
    device_.loop().arm(poll_timer_, device_.loop().now_ns());
}

void Endpoint::on_poll(Timer& timer) noexcept {
    Endpoint& endpoint = *static_cast<PollTimer&>(timer).endpoint;
    Loop& loop = endpoint.device_.loop();
    if (endpoint.id_->qp()->outstanding() > 0) {
        loop.arm(timer, loop.now_ns() + kDrainPollNs);
        return;
    }
    endpoint.state_ = State::closed;
    endpoint.events_.drained(endpoint.events_.arg, *endpoint.why_);
}

}  // namespace nfsrdma::xprtrdma
