#include "verbs/softroce/cm_id.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "verbs/softroce/cm.hpp"
#include "verbs/softroce/device.hpp"

namespace nfsrdma::verbs::softroce {
namespace {

// First repetition of a REQ or REP: a fraction of the time that its caller gave, so that doubling
// gives four of them.
constexpr std::uint64_t kRetryFraction = 31;
constexpr std::uint64_t kRetryMinNs = 2 * kNsPerMs, kRetryMaxNs = 200 * kNsPerMs;
constexpr std::uint8_t kMraServiceTimeout = 19;  // 2.1 s
// For the peer's queue pair, 268 ms: with 6 repetitions it gives us up after 2 s of silence, as we
// do a peer. (One in user space may wait long for a processor.)
constexpr std::uint8_t kPeerAckTimeout = 16;
constexpr std::uint32_t kFirstSourcePort = 0x8000, kSourcePorts = 0x4000;

bool is_half_open(SoftCmId::State state) noexcept {
    return state == SoftCmId::State::req_received || state == SoftCmId::State::rep_sent;
}

std::uint8_t smaller(std::uint32_t a, std::uint32_t b) noexcept {
    return static_cast<std::uint8_t>(std::min({a, b, 255u}));
}

template <std::size_t N>
void fill(std::array<std::byte, N>& to, std::span<const std::byte> from) noexcept {
    to.fill(std::byte{0});
    std::copy(from.begin(), from.end(), to.begin());
}

}  // namespace

SoftCmId::SoftCmId(Cm& cm, CmHandler* handler) noexcept
    : cm_(cm),
      handler_(handler),
      timer_(*this, [](Timer& t) noexcept { static_cast<RetryTimer&>(t).id.on_retry_timer(); }) {}

SoftCmId::~SoftCmId() {
    switch (state_) {
        case State::req_sent:
            send_rej(CmMessage::other, RejReason::timeout, {});
            break;
        case State::req_received:
            send_rej(CmMessage::req, RejReason::consumer, {});
            break;
        case State::rep_sent:  // the peer may have taken the connection for made
        case State::established:
            send_dreq();
            break;
        case State::idle:
        case State::closed:
            break;
    }
    move_to(State::closed);
    if (qp_ != nullptr) qp_->set_owner(nullptr);
    cm_.forget(*this);
}

Result<QueuePair*> SoftCmId::create_qp(ProtectionDomain& pd, CompletionQueue& cq,
                                       const QpOptions& options) {
    if (state_ == State::closed)
        return Error{Errc::reconnect, 0, "create queue pair: the peer gave up"};
    if (qp_ != nullptr || (state_ != State::idle && state_ != State::req_received)) {
        return Error{Errc::invalid_argument, 0, "create queue pair: too late, or twice"};
    }
    NR_TRY_ASSIGN(qp_, cm_.device().create_qp(pd, cq, options));
    qp_->set_owner(this);
    return static_cast<QueuePair*>(qp_.get());
}

Result<void> SoftCmId::connect(const SockAddr& peer, const ConnParams& params) noexcept {
    if (state_ != State::idle || qp_ == nullptr) {
        return Error{Errc::invalid_argument, 0, "connect: no queue pair, or connected before"};
    }
    if (params.private_data.size() > kConnectPrivateDataMax || peer.port() == 0) {
        return Error{Errc::invalid_argument, 0, "connect: private data too long, or no port"};
    }
    NR_TRY(make_path(peer));
    const DeviceCaps& caps = cm_.device().caps();
    read_depth_ = smaller(params.initiator_depth, caps.max_read_depth);
    read_responses_ = smaller(params.responder_resources, caps.max_read_responses);
    retry_count_ = params.retry_count;
    rnr_retry_count_ = params.rnr_retry_count;
    pmtu_ = cm_.device().wire().mtu();
    tid_ = cm_.new_tid();
    fill(request_data_, params.private_data);
    mad_ = make_req();
    move_to(State::req_sent);
    cm_.send(path_, mad_);
    start_retries(params.timeout_ns);
    return {};
}

Result<void> SoftCmId::make_path(const SockAddr& peer) noexcept {
    SoftDevice& device = cm_.device();
    NR_TRY_ASSIGN(const SockAddr local, device.wire().local_towards(peer));
    path_ = {local.with_port(device.wire().port()), peer.with_port(device.options().peer_port)};
    const std::uint64_t port = kFirstSourcePort + device.random() % kSourcePorts;
    local_ = local.with_port(static_cast<std::uint16_t>(port));
    peer_ = peer;
    return {};
}

Mad SoftCmId::make_req() const noexcept {
    CmReq req;
    req.local_comm = local_comm_;
    req.service_id = kServiceIdTcp + peer_.port();
    req.ca_guid = cm_.ca_guid();
    req.qpn = qp_->qpn();
    req.starting_psn = qp_->initial_psn();
    req.responder_resources = read_responses_;
    req.initiator_depth = read_depth_;
    req.retry_count = std::min<std::uint8_t>(retry_count_, 7);
    req.rnr_retry_count = std::min<std::uint8_t>(rnr_retry_count_, 7);
    req.pmtu_code = pmtu_code(pmtu_);
    req.ack_timeout_exp = std::max(cm_.device().options().ack_timeout_exp, kPeerAckTimeout);
    req.local_gid = local_.gid();
    req.remote_gid = peer_.gid();
    req.source = local_;
    req.destination = peer_;
    req.private_data = request_data_;
    return encode(req, tid_);
}

void SoftCmId::take_request(const Path& path, const MadHeader& header, const CmReq& req,
                            SoftListener& listener) noexcept {
    const DeviceCaps& caps = cm_.device().caps();
    path_ = path;
    local_ = path.local.with_port(static_cast<std::uint16_t>(req.service_id));
    peer_ = path.peer.with_port(req.source.port());
    remote_comm_ = req.local_comm;
    remote_qpn_ = req.qpn;
    remote_psn_ = req.starting_psn;
    tid_ = header.tid;
    pmtu_ = pmtu_bytes(req.pmtu_code);
    rnr_retry_count_ = req.rnr_retry_count;
    read_depth_ = smaller(req.responder_resources, caps.max_read_depth);
    read_responses_ = smaller(req.initiator_depth, caps.max_read_responses);
    request_data_ = req.private_data;
    listener_ = &listener;
    unseen_ = true;
    move_to(State::req_received);
    cm_.index_remote(*this);
}

ConnectRequest SoftCmId::request() const noexcept {
    return {request_data_, read_depth_, read_responses_};
}

void SoftCmId::refuse_unseen() noexcept {
    listener_ = nullptr;
    send_rej(CmMessage::req, RejReason::invalid_service_id, {});
    move_to(State::closed);
}

Result<void> SoftCmId::accept(const ConnParams& params) noexcept {
    if (state_ == State::closed) return Error{Errc::reconnect, 0, "accept: the peer gave up"};
    if (state_ != State::req_received || qp_ == nullptr || handler_ == nullptr) {
        return Error{Errc::invalid_argument, 0, "accept: no request, queue pair or handler"};
    }
    if (params.private_data.size() > kAcceptPrivateDataMax) {
        return Error{Errc::invalid_argument, 0, "accept: private data too long"};
    }
    read_depth_ = smaller(read_depth_, params.initiator_depth);
    read_responses_ = smaller(read_responses_, params.responder_resources);
    retry_count_ = params.retry_count;
    NR_TRY(connect_qp(remote_psn_, std::max(params.rnr_retry_count, rnr_retry_count_)));
    CmRep rep;
    rep.ids = ids();
    rep.ca_guid = cm_.ca_guid();
    rep.qpn = qp_->qpn();
    rep.starting_psn = qp_->initial_psn();
    rep.responder_resources = read_responses_;
    rep.initiator_depth = read_depth_;
    rep.rnr_retry_count = std::min<std::uint8_t>(params.rnr_retry_count, 7);
    fill(rep.private_data, params.private_data);
    mad_ = encode(rep, tid_);
    move_to(State::rep_sent);
    cm_.send(path_, mad_);
    start_retries(params.timeout_ns);
    return {};
}

Result<void> SoftCmId::connect_qp(std::uint32_t starting_psn,
                                  std::uint8_t rnr_retry_count) noexcept {
    QpAttr attr;
    attr.path = path_;
    attr.dest_qpn = remote_qpn_;
    // A starting PSN in REQ or REP is the one at which its receiver begins (IBTA volume
    // 1, 12.7.31).
    attr.sq_psn = starting_psn;
    attr.rq_psn = qp_->initial_psn();
    attr.pmtu = pmtu_;
    attr.ack_timeout_exp = cm_.device().options().ack_timeout_exp;
    attr.retry_count = std::min<std::uint8_t>(retry_count_, 7);
    attr.rnr_retry_count = std::min<std::uint8_t>(rnr_retry_count, 7);
    attr.read_depth = read_depth_;
    attr.read_responses = read_responses_;
    return qp_->connect(attr);
}

Result<void> SoftCmId::reject(std::span<const std::byte> private_data) noexcept {
    if (state_ == State::closed) return {};  // the peer gave up meanwhile
    if (state_ != State::req_received || private_data.size() > kRejectPrivateDataMax) {
        return Error{Errc::invalid_argument, 0, "reject: no request, or private data too long"};
    }
    send_rej(CmMessage::req, RejReason::consumer, private_data);
    move_to(State::closed);
    return {};
}

void SoftCmId::disconnect() noexcept {
    switch (state_) {
        case State::established:
            return close_down(true);
        case State::req_sent:
        case State::rep_sent:
            return give_up();
        case State::idle:
        case State::req_received:
        case State::closed:
            return;
    }
}

void SoftCmId::on_first_packet(SoftQp&) noexcept {
    if (state_ == State::rep_sent) establish();
}

void SoftCmId::on_fatal(SoftQp&) noexcept {
    if (state_ == State::established) {
        close_down(true);
    } else if (state_ == State::req_sent || state_ == State::rep_sent) {
        give_up();
    }
}

void SoftCmId::on_req_again() noexcept {
    if (state_ == State::req_received) {
        cm_.send(path_, encode(CmMra{ids(), CmMessage::req, kMraServiceTimeout}, tid_));
    } else if (state_ == State::rep_sent) {
        cm_.send(path_, mad_);
    }
}

void SoftCmId::on_rep(const MadHeader& header, const CmRep& rep) noexcept {
    if (state_ == State::established && rep.ids.local == remote_comm_) {
        ++cm_.mutable_counters().duplicates;
        cm_.send(path_, encode_rtu(ids(), tid_));
        return;
    }
    if (state_ != State::req_sent || header.tid != tid_) {
        ++cm_.mutable_counters().stray;
        return;
    }
    remote_comm_ = rep.ids.local;
    remote_qpn_ = rep.qpn;
    cm_.index_remote(*this);
    read_depth_ = smaller(read_depth_, rep.responder_resources);
    read_responses_ = smaller(read_responses_, rep.initiator_depth);
    if (!connect_qp(rep.starting_psn, std::max(rep.rnr_retry_count, rnr_retry_count_))) {
        return give_up();
    }
    set_outcome(CmEventType::established, 0, rep.private_data);
    cm_.send(path_, encode_rtu(ids(), tid_));
    establish();
}

void SoftCmId::on_rtu(const CmIds& ids) noexcept {
    if (ids.local != remote_comm_ || state_ != State::rep_sent) {
        ++cm_.mutable_counters().duplicates;
        return;
    }
    establish();
}

void SoftCmId::on_rej(const MadHeader& header, const CmRej& rej) noexcept {
    const bool same = rej.ids.local == remote_comm_;
    switch (state_) {
        case State::req_sent:
            if (header.tid != tid_) break;
            if (rej.pmtu_code != 0 && pmtu_bytes(rej.pmtu_code) < pmtu_) {
                pmtu_ = pmtu_bytes(rej.pmtu_code);
                mad_ = make_req();
                return cm_.send(path_, mad_);
            }
            ++cm_.mutable_counters().rejects_received;
            set_outcome(CmEventType::rejected, rej.reason, rej.private_data);
            move_to(State::closed);
            return cm_.tell_later(*this);
        case State::req_received:
            if (same) move_to(State::closed);
            return;
        case State::rep_sent:
            if (!same) break;
            ++cm_.mutable_counters().rejects_received;
            set_outcome(CmEventType::unreachable, rej.reason, {});
            move_to(State::closed);
            qp_->set_error();
            return cm_.tell_later(*this);
        case State::established:
            if (same) return close_down(false);
            break;
        case State::idle:
        case State::closed:
            break;
    }
    ++cm_.mutable_counters().stray;
}

void SoftCmId::on_mra(const CmMra& mra) noexcept {
    const bool awaited =
        mra.answered == CmMessage::req ? state_ == State::req_sent : state_ == State::rep_sent;
    if (!awaited) return;
    // The peer is slow but alive: no repetition before its time, and no longer than our caller
    // allows.
    const std::uint64_t wait_ns = std::uint64_t{4096} << mra.service_timeout;
    const std::uint64_t next_ns = cm_.loop().now_ns() + wait_ns;
    cm_.loop().arm(timer_, std::min(next_ns, deadline_ns_));
}

bool SoftCmId::on_dreq(const CmDreq& dreq) noexcept {
    if (qp_ == nullptr || dreq.remote_qpn != qp_->qpn()) return false;
    switch (state_) {
        case State::req_sent:  // its acceptance was withdrawn before we saw it
            ++cm_.mutable_counters().rejects_received;
            set_outcome(CmEventType::rejected, static_cast<std::uint16_t>(RejReason::consumer), {});
            move_to(State::closed);
            cm_.tell_later(*this);
            return true;
        case State::rep_sent:  // it took the connection for made; only its RTU was lost
        case State::established:
            if (dreq.ids.local != remote_comm_) return false;
            if (state_ == State::rep_sent) establish();
            close_down(false);
            return true;
        case State::closed:
            return dreq.ids.local == remote_comm_;
        case State::idle:
        case State::req_received:
            return false;
    }
    return false;
}

void SoftCmId::on_stale() noexcept {
    if (state_ == State::established) {
        close_down(false);
    } else if (state_ == State::rep_sent) {
        give_up();
    } else {
        move_to(State::closed);
    }
}

void SoftCmId::tell() noexcept {
    if (unseen_) {
        unseen_ = false;
        return cm_.show(*this);  // may destroy this
    }
    if (handler_ == nullptr) return;
    if (outcome_waits_) {
        outcome_waits_ = false;
        if (disconnected_waits_) cm_.tell_later(*this);
        const std::array<std::byte, kRepPrivateBytes> data = outcome_data_;
        CmEvent event = outcome_;
        event.private_data = std::span(data).first(outcome_size_);
        handler_->on_cm_event(*this, event);  // may destroy this
    } else if (disconnected_waits_) {
        disconnected_waits_ = false;
        handler_->on_cm_event(*this,
                              CmEvent{.type = CmEventType::disconnected, .private_data = {}});
    }
}

void SoftCmId::move_to(State state) noexcept {
    if (is_half_open(state_) != is_half_open(state))
        cm_.half_open_changed(*this, is_half_open(state));
    state_ = state;
    if (state == State::established || state == State::closed) cm_.loop().disarm(timer_);
}

void SoftCmId::start_retries(std::uint64_t timeout_ns) noexcept {
    const std::uint64_t now = cm_.loop().now_ns();
    deadline_ns_ = now + timeout_ns;
    interval_ns_ = std::clamp(timeout_ns / kRetryFraction, kRetryMinNs, kRetryMaxNs);
    cm_.loop().arm(timer_, std::min(now + interval_ns_, deadline_ns_));
}

void SoftCmId::on_retry_timer() noexcept {
    const std::uint64_t now = cm_.loop().now_ns();
    if (now >= deadline_ns_) {
        ++cm_.mutable_counters().timeouts;
        return give_up();
    }
    ++cm_.mutable_counters().retries;
    cm_.send(path_, mad_);
    interval_ns_ *= 2;
    cm_.loop().arm(timer_, std::min(now + interval_ns_, deadline_ns_));
}

void SoftCmId::set_outcome(CmEventType type, std::uint16_t reason,
                           std::span<const std::byte> private_data) noexcept {
    outcome_ = {type, reason, {}, 0, 0};
    outcome_size_ = private_data.size();
    std::copy(private_data.begin(), private_data.end(), outcome_data_.begin());
    outcome_waits_ = true;
}

void SoftCmId::establish() noexcept {
    // The passive side has no private data of the peer to show.
    if (state_ == State::rep_sent) set_outcome(CmEventType::established, 0, {});
    outcome_.initiator_depth = read_depth_;
    outcome_.responder_resources = read_responses_;
    ++cm_.mutable_counters().established;
    move_to(State::established);
    cm_.tell_later(*this);
}

void SoftCmId::give_up() noexcept {
    const bool passive = state_ == State::rep_sent;
    send_rej(passive ? CmMessage::rep : CmMessage::other, RejReason::timeout, {});
    set_outcome(CmEventType::unreachable, 0, {});
    move_to(State::closed);
    qp_->set_error();
    cm_.tell_later(*this);
}

void SoftCmId::close_down(bool tell_peer) noexcept {
    ++cm_.mutable_counters().disconnects;
    if (tell_peer) send_dreq();
    move_to(State::closed);
    qp_->set_error();
    disconnected_waits_ = true;
    cm_.tell_later(*this);
}

void SoftCmId::send_dreq() noexcept {
    const Mad mad = encode(CmDreq{ids(), remote_qpn_}, cm_.new_tid());
    cm_.linger(Linger::Kind::disconnect, path_, ids(), mad);
}

void SoftCmId::send_rej(CmMessage rejected, RejReason reason,
                        std::span<const std::byte> private_data) noexcept {
    CmRej rej;
    rej.ids = ids();
    rej.rejected = rejected;
    rej.reason = static_cast<std::uint16_t>(reason);
    fill(rej.private_data, private_data);
    ++cm_.mutable_counters().rejects_sent;
    const Mad mad = encode(rej, tid_);
    // A refused request may be repeated; the answer must be the same.
    if (state_ == State::req_received) {
        cm_.linger(Linger::Kind::reject, path_, ids(), mad);
    } else {
        cm_.send(path_, mad);
    }
}

SoftListener::~SoftListener() {
    cm_.forget(*this);
}

bool SoftListener::covers(const SockAddr& address, std::uint16_t port) const noexcept {
    if (local_.port() != port || local_.family() != address.family()) return false;
    return local_.is_any() || local_.same_address(address);
}

}  // namespace nfsrdma::verbs::softroce
