#include "verbs/softroce/qp.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.hpp"
#include "verbs/softroce/cq.hpp"
#include "verbs/softroce/device.hpp"

// Operation. Posting copies a work request and its SGEs into a ring and puts the queue pair on its
// device's work list; packets go out when the loop flushes. Incoming packets are checked for their
// source and shape here and go to the responder or completer.
//
// Ownership. 1. Every posted work request ends exactly once, in order: silently, or as one
// completion. 2. `outstanding_` counts those that have not ended; a completion ends one when it is
// delivered. 3. At most one completion per posted request is in the ring of the completion queue,
// which reserves a place for each (asserted in SoftCq::push).
//
// Errors. The first error ends the connection: its work request says why, all others are flushed,
// the owner is told once.
namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint32_t kPmtuMin = 256, kPmtuMax = 4096;
constexpr std::uint64_t kWindowMin = std::uint64_t{16} * 1024;
constexpr std::uint8_t kAckTurnsMax = 2;
}  // namespace

template <class Wqe>
WorkQueue<Wqe>::WorkQueue(std::uint32_t wqes, std::uint32_t sges)
    : wqes_(std::bit_ceil(wqes)),
      sges_(std::size_t{std::bit_ceil(wqes)} * sges),
      mask_(std::bit_ceil(wqes) - 1),
      sges_max_(sges) {}

SoftQp::SoftQp(SoftDevice& device, SoftPd& pd, SoftCq& cq, std::uint32_t qpn,
               const QpOptions& options)
    : QueuePair(options.send_wrs, options.recv_wrs),
      device_(device),
      pd_(pd),
      cq_(cq),
      qpn_(qpn),
      initial_psn_(static_cast<std::uint32_t>(device.random()) & kPsnMask),
      wrs_max_(options.send_wrs + options.recv_wrs),
      sq_(options.send_wrs, options.send_sges),
      rq_(options.recv_wrs, options.recv_sges),
      timer_([](Timer& timer) noexcept { static_cast<QpTimer&>(timer).qp.on_timer(); }, *this) {
    ++pd_.users_;
    cq_.attach(wrs_max_);
}

SoftQp::~SoftQp() {
    drop_reads_from(0);
    cq_.detach(*this, wrs_max_);
    --pd_.users_;
    device_.remove(*this);
}

Result<void> SoftQp::connect(const QpAttr& attr) noexcept {
    constexpr Error kBad{Errc::invalid_argument, 0, "connect queue pair"};
    if (state_ != State::init) return kBad;
    if (!std::has_single_bit(attr.pmtu) || attr.pmtu < kPmtuMin || attr.pmtu > kPmtuMax)
        return kBad;
    if (attr.dest_qpn == 0 || attr.dest_qpn > kQpnMask || attr.ack_timeout_exp > 31) return kBad;
    attr_ = attr;
    attr_.read_depth =
        static_cast<std::uint8_t>(std::min<std::uint32_t>(attr.read_depth, kReadDepthMax));
    attr_.read_responses =
        static_cast<std::uint8_t>(std::min<std::uint32_t>(attr.read_responses, kReadDepthMax));
    req_.unacked_psn = req_.cursor_psn = req_.sent_psn = req_.next_psn = first_psn(attr.sq_psn);
    req_.window_max = std::max<std::uint64_t>(device_.wire().receive_window() / 2, kWindowMin);
    req_.window = req_.window_max;
    req_.progress_ns = device_.loop().now_ns();
    resp_.expected_psn = first_psn(attr.rq_psn);
    state_ = State::ready;
    return {};
}

Result<void> SoftQp::do_post_send(SendWr& first) noexcept {
    if (state_ != State::ready) return Error{Errc::reconnect, 0, "queue pair not connected"};
    for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
        if (wr->sgl.size() > sq_.sges_max()) return Error{Errc::invalid_argument, 0, "send SGEs"};
        const bool local = wr->op == SendOp::reg_mr || wr->op == SendOp::local_inv;
        if (local && wr->mr == nullptr)
            return Error{Errc::invalid_argument, 0, "work request without a region"};
    }
    for (const SendWr* wr = &first; wr != nullptr; wr = wr->next) {
        fill_send(sq_.tail, *wr);
        ++sq_.tail;
        ++outstanding_;
    }
    schedule();
    return {};
}

void SoftQp::fill_send(std::uint32_t index, const SendWr& wr) noexcept {
    SendWqe& wqe = sq_.at(index);
    wqe = SendWqe{};
    wqe.cqe = wr.cqe;
    wqe.op = wr.op;
    wqe.mr = static_cast<SoftFastMr*>(wr.mr);
    wqe.remote_addr = wr.remote_addr;
    wqe.rkey = wr.rkey;
    wqe.signaled = wr.signaled;
    wqe.ledger_signal = wr.ledger_signal;
    wqe.fenced = wr.fenced;
    wqe.sge_count = static_cast<std::uint8_t>(wr.sgl.size());
    std::copy(wr.sgl.begin(), wr.sgl.end(), sq_.sges(index));
    if (wr.op != SendOp::reg_mr && wr.op != SendOp::local_inv) check_sges(index, wqe);
}

// Checked when posted, told in order: the requester finds `status` when the request's turn comes.
void SoftQp::check_sges(std::uint32_t index, SendWqe& wqe) noexcept {
    const bool write = wqe.op == SendOp::rdma_read;
    const Sge* const sges = sq_.sges(index);
    std::uint64_t length = 0;
    bool good = true;
    for (std::uint32_t i = 0; i < wqe.sge_count; ++i) {
        const Sge& sge = sges[i];
        length += sge.length;
        if (sge.length == 0) continue;
        const Region* region = device_.keys().find(static_cast<std::uint32_t>(sge.lkey));
        // A key that an earlier work request of the chain will bind can only be checked when used.
        if (region == nullptr || region->fast()) {
            wqe.fast_sges = true;
        } else {
            good = good && region->allows_local(pd_, qpn_, sge.addr, sge.length, write);
        }
    }
    // A packet has few pieces: a message that is gathered through a page list comes from one SGE.
    if (wqe.fast_sges && !write && wqe.sge_count > 1) good = false;
    if (length > kMessageMax) good = false;
    wqe.length = good ? static_cast<std::uint32_t>(length) : 0;
    if (!good) wqe.status = WcStatus::local_error;
}

Result<void> SoftQp::do_post_recv(RecvWr& first) noexcept {
    for (const RecvWr* wr = &first; wr != nullptr; wr = wr->next) {
        if (wr->sgl.size() > rq_.sges_max())
            return Error{Errc::invalid_argument, 0, "receive SGEs"};
    }
    for (const RecvWr* wr = &first; wr != nullptr; wr = wr->next) {
        RecvWqe& wqe = rq_.at(rq_.tail);
        Sge* const sges = rq_.sges(rq_.tail);
        wqe = RecvWqe{};
        wqe.cqe = wr->cqe;
        wqe.sge_count = static_cast<std::uint8_t>(wr->sgl.size());
        std::copy(wr->sgl.begin(), wr->sgl.end(), sges);
        std::uint64_t length = 0;
        for (const Sge& sge : wr->sgl) {
            length += sge.length;
            if (sge.length == 0) continue;
            const Region* region = device_.keys().find(static_cast<std::uint32_t>(sge.lkey));
            wqe.bad = wqe.bad || region == nullptr || region->fast() ||
                      !region->allows_local(pd_, qpn_, sge.addr, sge.length, true);
        }
        if (length > kMessageMax) wqe.bad = true;
        wqe.capacity = wqe.bad ? 0 : static_cast<std::uint32_t>(length);
        ++rq_.tail;
        ++outstanding_;
    }
    return {};
}

void SoftQp::set_error() noexcept {
    if (state_ == State::error) return;
    fail(WcStatus::flushed, WcStatus::flushed);
    tell_fatal_ = false;  // on purpose: nobody is told
}

void SoftQp::fail(WcStatus first_send, WcStatus first_recv) noexcept {
    if (state_ == State::error) return;
    state_ = State::error;
    if (timer_.armed()) device_.loop().disarm(timer_);
    drop_reads_from(0);
    resp_.read_count = 0;
    flush_sends(first_send);
    flush_recvs(first_recv);
    if (owner_ != nullptr) {
        tell_fatal_ = true;
        device_.add_event(*this);
    }
}

void SoftQp::flush_sends(WcStatus first) noexcept {
    Wc wc;
    wc.status = first;
    for (; !sq_.empty(); ++sq_.head) {
        SendWqe& wqe = sq_.at(sq_.head);
        push_send(wqe, wc);
        wc.status = WcStatus::flushed;
    }
}

void SoftQp::flush_recvs(WcStatus first) noexcept {
    Wc wc;
    wc.status = first;
    for (; !rq_.empty(); ++rq_.head) {
        push_recv(rq_.at(rq_.head), wc);
        wc.status = WcStatus::flushed;
    }
}

void SoftQp::push_send(SendWqe& wqe, const Wc& wc) noexcept {
    cq_.push({this, wqe.cqe, wc, req_.retired_run + 1});
    req_.retired_run = 0;
}

void SoftQp::push_recv(const RecvWqe& wqe, const Wc& wc) noexcept {
    cq_.push({this, wqe.cqe, wc, 0});
}

void SoftQp::retire(std::uint32_t send_wrs) noexcept {
    --outstanding_;
    if (send_wrs > 0) {
        credit_send(send_wrs);
    } else {
        credit_recv();
    }
}

void SoftQp::schedule() noexcept {
    device_.schedule(*this);
}

void SoftQp::deliver_event() noexcept {
    QpOwner* const owner = owner_;
    const bool first = std::exchange(tell_first_packet_, false);
    if (first && tell_fatal_) device_.add_event(*this);  // one at a time: the owner may destroy us
    if (owner == nullptr) return;
    if (first) {
        owner->on_first_packet(*this);
    } else if (std::exchange(tell_fatal_, false)) {
        owner->on_fatal(*this);
    }
}

// A source port below 0xC000 is a return address and must be the peer's; one above is flow entropy
// of a peer that listens at the standard port.
bool SoftQp::from_peer(const RxPacket& packet) const noexcept {
    const SockAddr& peer = attr_.path.peer;
    const std::uint16_t port = packet.from.port();
    const bool port_fits = port < 0xC000 ? port == peer.port() : peer.port() == kRoceV2Port;
    return port_fits && packet.from.same_address(peer);
}

void SoftQp::on_packet(const RxPacket& packet, const Bth& bth) noexcept {
    const OpcodeInfo& info = info_of(bth.opcode);
    const std::size_t size = packet.bytes.size();
    if (state_ != State::ready || !from_peer(packet) ||
        size < std::size_t{info.header_size} + bth.pad) {
        ++device_.counters().rx_dropped;
        return;
    }
    const Incoming in{bth, info, packet.bytes.data() + kBthSize,
                      packet.bytes.subspan(info.header_size, size - info.header_size - bth.pad)};
    switch (info.kind) {
        case OpKind::ack:
            on_ack(in);
            break;
        case OpKind::read_response:
            on_read_response(in);
            break;
        case OpKind::send:
        case OpKind::write:
        case OpKind::read_request:
            on_request(in);
            break;
        case OpKind::datagram:
        case OpKind::unknown:
            if (is_unsupported_request(bth.opcode)) {
                on_request(in);
            } else {
                ++device_.counters().rx_dropped;
            }
            break;
    }
}

bool SoftQp::advance(const Sge* sges, std::uint32_t count, SgeCursor& at,
                     std::uint32_t bytes) noexcept {
    while (bytes > 0) {
        if (at.index == count) return false;
        const std::uint32_t n = std::min(bytes, sges[at.index].length - at.offset);
        at.offset += n;
        bytes -= n;
        if (at.offset == sges[at.index].length) {
            ++at.index;
            at.offset = 0;
        }
    }
    return true;
}

SoftQp::Left SoftQp::transmit(Budget requests, Budget answers) noexcept {
    if (state_ != State::ready) return Left::nothing;
    const std::uint32_t budget = requests.bytes, cursor = req_.cursor_wqe;
    const bool more_requests = transmit_requests(requests);
    if (state_ != State::ready) return Left::nothing;
    // Not in the midst of a message, whose sender may have no window left.
    const bool ack_alone = resp_.answer == Answer::ack && resp_.message == OpKind::unknown &&
                           resp_.read_count == 0 && requests.bytes == budget;
    if (ack_alone && device_.options().acks_wait && ack_turns_ < kAckTurnsMax) {
        // What ran locally ends in the next turn, and only then what it belongs to.
        const bool ran_local = req_.cursor_wqe != cursor;
        ack_turns_ = ran_local && ack_turns_ == 0 ? 1 : kAckTurnsMax;
        return Left::ack;
    }
    ack_turns_ = 0;
    const bool more_answers = transmit_answers(answers);
    return state_ == State::ready && (more_requests || more_answers) ? Left::more : Left::nothing;
}

template class WorkQueue<SendWqe>;
template class WorkQueue<RecvWqe>;

}  // namespace nfsrdma::verbs::softroce
