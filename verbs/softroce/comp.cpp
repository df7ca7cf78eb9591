#include <algorithm>

#include "base/assert.hpp"
#include "verbs/softroce/cq.hpp"
#include "verbs/softroce/device.hpp"
#include "verbs/softroce/qp.hpp"

// The completer: from the peer's answers to completions.
//
// Operation. An acknowledgement ends all packets up to its PSN, but never passes a READ whose data
// did not come: that READ is asked for again from its first missing packet. A NAK or a timeout
// makes the requester go back. Work requests complete in order, from the head of the send queue.
//
// Ownership. 1. unacked_psn only grows. 2. A READ's data is placed once per packet, straight from
// the packet to the SGEs.
//
// Errors. Answers that fit nothing that was sent are dropped. No answer for long enough, or a
// refusal, ends the connection.
namespace nfsrdma::verbs::softroce {

namespace {
constexpr std::uint64_t kRetryTotalNs = 2 * kNsPerSec;  // a peer that is not scheduled is not dead
constexpr std::uint64_t kRetryMinNs = 2 * kNsPerMs;     // nor is one that waits for its turn
constexpr std::uint32_t kBackOffMax = 8;                // the retry timer doubles so often
constexpr std::uint32_t kRnrForEver = 7;
constexpr std::uint64_t kWindowFloor = std::uint64_t{16} * 1024;

WcStatus status_of(std::uint8_t syndrome) noexcept {
    switch (static_cast<NakCode>(syndrome & 31)) {
        case NakCode::invalid_request:
            return WcStatus::remote_invalid;
        case NakCode::remote_access:
            return WcStatus::remote_access;
        case NakCode::sequence:
        case NakCode::remote_operation:
            break;
    }
    return WcStatus::remote_error;
}
}  // namespace

std::uint64_t SoftQp::ack_timeout_ns() const noexcept {
    return std::uint64_t{4096} << std::min<std::uint32_t>(attr_.ack_timeout_exp, 24);
}

// What the connection asked for is the longest: most answers come within a fraction of it, and a
// lost last packet should not cost much more than a round trip does (RFC 6298 has the estimate).
// While a READ, or more than the smallest window, is under way that is the time: what is sent or
// asked for again fills the wire and a socket once more, and then packets are lost there.
std::uint64_t SoftQp::retry_after_ns() const noexcept {
    const std::uint64_t most = ack_timeout_ns();
    if (req_.rtt_ns == 0 || req_.reads_head != req_.reads_tail) return most;
    if (req_.cursor_cost - req_.acked_cost > kWindowFloor) return most;
    return std::min(req_.rtt_ns + std::max(4 * req_.rtt_deviation_ns, kRetryMinNs), most);
}

// Progress alone does not end the backing off: after a timeout no answer tells the round trip
// (Karn), and a timer that is shorter than it would fire for ever (RFC 6298 5.7). A peer that does
// answer is never given more than the connection's time.
std::uint64_t SoftQp::backed_off_ns() const noexcept {
    const std::uint64_t most = ack_timeout_ns();
    return std::min(retry_after_ns() << std::min(req_.backed_off, kBackOffMax),
                    req_.timeouts == 0 ? most : most << 3);
}

void SoftQp::time_from_now(std::uint64_t psn) noexcept {
    if (req_.timed_psn != 0) return;
    req_.timed_psn = psn;
    req_.timed_ns = device_.now_ns();
}

void SoftQp::take_round_trip() noexcept {
    if (req_.timed_psn == 0 || req_.unacked_psn <= req_.timed_psn) return;
    req_.timed_psn = 0;
    req_.backed_off = 0;
    const std::uint64_t took = std::max<std::uint64_t>(device_.now_ns() - req_.timed_ns, 1);
    if (req_.rtt_ns == 0) {
        req_.rtt_ns = took;
        req_.rtt_deviation_ns = took / 2;
        return;
    }
    const std::uint64_t off = took > req_.rtt_ns ? took - req_.rtt_ns : req_.rtt_ns - took;
    req_.rtt_deviation_ns += off / 4 - req_.rtt_deviation_ns / 4;
    req_.rtt_ns += took / 8 - req_.rtt_ns / 8;
}

void SoftQp::on_ack(const Incoming& in) noexcept {
    const std::uint64_t psn = extend_psn(req_.unacked_psn, in.bth.psn);
    const std::uint8_t syndrome = load_u8(in.extended);
    if (psn >= req_.sent_psn || !in.payload.empty()) {
        ++device_.counters().rx_dropped;
        return;
    }
    if (psn < req_.unacked_psn) return;  // said before
    switch (kind_of(syndrome)) {
        case AethKind::ack: {
            const bool whole = acknowledge_to(psn + 1);
            reap();
            if (state_ != State::ready) return;
            if (!whole) retry_read(req_.unacked_psn);
            if (req_.cursor_wqe != sq_.tail) schedule();
            break;
        }
        case AethKind::rnr_nak:
        case AethKind::nak:
            on_nak(psn, syndrome);
            break;
        case AethKind::reserved:
            ++device_.counters().rx_dropped;
            break;
    }
}

void SoftQp::on_nak(std::uint64_t psn, std::uint8_t syndrome) noexcept {
    const bool whole = acknowledge_to(psn);
    reap();
    if (state_ != State::ready) return;
    if (kind_of(syndrome) == AethKind::rnr_nak) {
        ++device_.counters().rnr_naks_received;
        ++counters_.rnr_naks_received;
        if (!whole) return retry_read(req_.unacked_psn);
        if (psn >= req_.cursor_psn) return;  // of a packet that is to be sent again anyway
        if (attr_.rnr_retry_count != kRnrForEver && req_.rnr_naks++ >= attr_.rnr_retry_count)
            return fail(WcStatus::rnr_exceeded, WcStatus::flushed);
        req_.rnr_until_ns = device_.now_ns() + kRnrTimerUs[syndrome & 31] * kNsPerUs;
        // The peer lives: nothing but the RNR timer starts the requester again.
        req_.retry_deadline_ns = 0;
        req_.timeouts = 0;
        go_back(psn);
        arm_timer();
        return;
    }
    if ((syndrome & 31) != static_cast<std::uint8_t>(NakCode::sequence))
        return fail(status_of(syndrome), WcStatus::flushed);
    if (!whole) return retry_read(req_.unacked_psn);
    if (psn >= req_.cursor_psn) return;
    shrink_window();
    go_back(psn);
}

// A READ whose response was lost is asked for again, once for each first missing packet; then the
// retry timer watches.
void SoftQp::retry_read(std::uint64_t psn) noexcept {
    if (req_.read_retry_psn == psn || psn >= req_.cursor_psn) return;
    req_.read_retry_psn = psn;
    go_back(psn);
}

// All packets before `end_psn` were taken by the peer. False when the data of a READ before it is
// missing: then only what stands before that READ's missing packet is acknowledged.
bool SoftQp::acknowledge_to(std::uint64_t end_psn) noexcept {
    bool whole = true;
    std::uint64_t end = end_psn;
    for (std::uint32_t i = sq_.head; i != sq_.tail; ++i) {
        const SendWqe& wqe = sq_.at(i);
        if (wqe.state == WqeState::posted || wqe.first_psn >= end) break;
        if (wqe.op == SendOp::rdma_read && req_.unacked_psn < wqe.end_psn()) {
            end = std::max(wqe.first_psn, req_.unacked_psn);
            whole = end == end_psn;
            break;
        }
    }
    if (end <= req_.unacked_psn) return whole;
    req_.unacked_psn = end;
    note_progress();
    return whole;
}

void SoftQp::note_progress() noexcept {
    take_round_trip();
    req_.timeouts = 0;
    req_.rnr_naks = 0;
    req_.progress_ns = device_.now_ns();
    watch_progress();
}

void SoftQp::watch_progress() noexcept {
    req_.retry_deadline_ns =
        req_.cursor_psn > req_.unacked_psn ? req_.progress_ns + backed_off_ns() : std::uint64_t{0};
    arm_timer();
}

// Completes what stands at the head of the send queue and is done.
void SoftQp::reap() noexcept {
    const std::uint32_t head = sq_.head;
    while (state_ == State::ready && !sq_.empty()) {
        SendWqe& wqe = sq_.at(sq_.head);
        if (wqe.state == WqeState::failed) return fail(wqe.status, WcStatus::flushed);
        const bool finished = wqe.state == WqeState::done ||
                              (wqe.state == WqeState::started && req_.unacked_psn >= wqe.end_psn());
        if (!finished) break;
        complete(wqe);
        ++sq_.head;
    }
    if (state_ != State::ready) return;
    const std::uint64_t acked = cost_at(sq_.head, req_.unacked_psn);
    const std::uint64_t gained = acked - req_.acked_cost;
    req_.acked_cost = acked;
    if (gained > 0) {
        req_.window = std::min(req_.window + gained / 8, req_.window_max);
        watch_progress();  // with what is under way now
    }
    if (req_.cursor_psn < req_.unacked_psn || req_.cursor_wqe - head < sq_.head - head) {
        // What was to be sent again has arrived after all.
        go_back(std::max(req_.unacked_psn, req_.cursor_psn));
    }
}

void SoftQp::complete(SendWqe& wqe) noexcept {
    if (wqe.op == SendOp::rdma_read) --req_.reads_incomplete;
    if (wqe.fast_sges) --req_.fast_incomplete;
    if (wqe.signaled) {
        Wc wc;
        wc.byte_len = wqe.op == SendOp::rdma_read ? wqe.length : 0;
        push_send(wqe, wc);
        return;
    }
    --outstanding_;
    ++req_.retired_run;
    if (!wqe.ledger_signal) return;
    credit_send(req_.retired_run);
    req_.retired_run = 0;
}

void SoftQp::on_read_response(const Incoming& in) noexcept {
    const std::uint64_t psn = extend_psn(req_.unacked_psn, in.bth.psn);
    SoftCounters& counters = device_.counters();
    if (psn < req_.unacked_psn) {
        ++counters.duplicates;
        return;
    }
    // A response was asked for by the READ at the head, or else by one that was acknowledged up to
    // by this very packet.
    if (req_.reads_head == req_.reads_tail || psn >= req_.sent_psn) {
        ++counters.rx_dropped;
        return;
    }
    if (!acknowledge_to(psn)) {
        reap();
        if (state_ == State::ready) retry_read(req_.unacked_psn);
        return;
    }
    reap();
    if (state_ != State::ready || sq_.empty()) return;
    SendWqe& wqe = sq_.at(sq_.head);
    const bool fits = wqe.op == SendOp::rdma_read && wqe.state == WqeState::started &&
                      psn >= wqe.first_psn && psn < wqe.end_psn() && psn < req_.cursor_psn &&
                      req_.reads_head != req_.reads_tail;
    if (!fits) {
        ++counters.rx_dropped;
        return;
    }
    const auto packet = static_cast<std::uint32_t>(psn - wqe.first_psn);
    const std::uint32_t size = std::min(wqe.length - packet * attr_.pmtu, attr_.pmtu);
    if (in.payload.size() != size || in.bth.pad != pad_of(size)) {
        ++counters.rx_dropped;
        return;
    }
    if (!place_response(wqe, packet, in.payload)) {
        wqe.state = WqeState::failed;
        wqe.status = WcStatus::local_error;
        return reap();
    }
    Requester::Read& read = req_.reads[req_.reads_head % kReadDepthMax];
    const std::uint32_t cost = std::min(size + kPacketCost, read.bytes_left);
    read.bytes_left -= cost;
    release_read_bytes(cost);
    if (psn + 1 == read.end_psn) {
        release_read_bytes(read.bytes_left);
        ++req_.reads_head;
    }
    req_.unacked_psn = psn + 1;
    note_progress();
    reap();
    if (state_ == State::ready && req_.cursor_wqe != sq_.tail) schedule();
}

bool SoftQp::place_response(SendWqe& wqe, std::uint32_t packet,
                            std::span<const std::byte> payload) noexcept {
    const Sge* const sges = sq_.sges(sq_.head);
    SgeCursor at;
    if (!advance(sges, wqe.sge_count, at, packet * attr_.pmtu)) return false;
    SoftCounters& counters = device_.counters();
    counters.rx_payload_bytes += payload.size();
    counters.rx_copied_bytes += payload.size();
    while (!payload.empty()) {
        const Sge& sge = sges[at.index];
        const std::size_t n = std::min<std::size_t>(payload.size(), sge.length - at.offset);
        const auto part = payload.first(n);
        const std::uint64_t addr = sge.addr + at.offset;
        if (n > 0 && !wqe.fast_sges) {
            std::memcpy(bytes_at(addr), part.data(), n);
        } else if (n > 0) {
            const Region* region = device_.keys().find(static_cast<std::uint32_t>(sge.lkey));
            if (region == nullptr ||
                !region->allows_local(pd_, qpn_, addr, static_cast<std::uint32_t>(n), true))
                return false;
            region->copy_in(addr, part);
        }
        payload = payload.subspan(n);
        at = {at.index + 1, 0};
    }
    return true;
}

void SoftQp::shrink_window() noexcept {
    const std::uint64_t floor =
        std::max<std::uint64_t>(kWindowFloor, 4 * std::uint64_t{attr_.pmtu});
    req_.window = std::max(req_.window / 2, floor);
}

void SoftQp::release_read_bytes(std::uint32_t bytes) noexcept {
    device_.release_read_bytes(bytes);
}

// Lazily: the timer is moved only to an earlier time; when it fires too soon it is armed again.
void SoftQp::arm_timer() noexcept {
    const std::uint64_t at = req_.rnr_until_ns != 0 ? req_.rnr_until_ns : req_.retry_deadline_ns;
    if (at == 0) return;
    if (!timer_.armed() || timer_.deadline_ns() > at) device_.loop().arm(timer_, at);
}

// The time that was spent waiting does not count against the peer.
void SoftQp::end_rnr_wait(std::uint64_t now) noexcept {
    req_.rnr_until_ns = 0;
    if (req_.retry_deadline_ns != 0) req_.retry_deadline_ns = now + backed_off_ns();
    req_.progress_ns = now;
}

void SoftQp::on_timer() noexcept {
    if (state_ != State::ready) return;
    const std::uint64_t now = device_.loop().now_ns();
    if (req_.rnr_until_ns != 0) {
        if (now < req_.rnr_until_ns) return arm_timer();
        end_rnr_wait(now);
        schedule();
    }
    if (req_.retry_deadline_ns == 0) return;
    if (now < req_.retry_deadline_ns) return arm_timer();
    if (req_.cursor_psn == req_.unacked_psn) {
        req_.retry_deadline_ns = 0;  // nothing is under way: what waits, waits for room
        return;
    }
    if (++req_.timeouts > attr_.retry_count && now - req_.progress_ns >= kRetryTotalNs)
        return fail(WcStatus::retry_exceeded, WcStatus::flushed);
    ++req_.backed_off;
    req_.retry_deadline_ns = 0;  // starts again with the first packet
    req_.read_retry_psn = 0;
    shrink_window();
    go_back(req_.unacked_psn);
}

}  // namespace nfsrdma::verbs::softroce
